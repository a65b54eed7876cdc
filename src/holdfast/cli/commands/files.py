"""The commands for people who write workflows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import WRITE, Handlers, Json, PlainCommand, UnusedDatabaseUrl, WorkflowFile

commands = typer.Typer()


class DrawingFormat(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


@commands.command(cls=PlainCommand, rich_help_panel=WRITE)
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to make or to fill.")],
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Write a small project to begin with."""
    from holdfast.cli.starting import write_project

    return write_project(directory, as_json=as_json)


@commands.command(cls=PlainCommand, rich_help_panel=WRITE)
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Workflow files.")],
    handlers: Handlers = [],  # noqa: B006
    strict: Annotated[bool, typer.Option("--strict", help="Make warnings errors.")] = False,
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Check workflow files. With --handlers, or handlers of the project, check them against the handlers too."""
    from holdfast.cli.files import validate_files

    return validate_files(files, handlers=handlers, strict=strict, as_json=as_json)


@commands.command(cls=PlainCommand, rich_help_panel=WRITE)
def graph(
    file: WorkflowFile,
    format: Annotated[
        DrawingFormat, typer.Option("--format", metavar="FORMAT", help="text, mermaid or svg.")
    ] = DrawingFormat.TEXT,
    handlers: Handlers = [],  # noqa: B006
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Draw a workflow file."""
    from holdfast.cli.files import draw_file

    return draw_file(file, drawing=format.value, handlers=handlers, as_json=as_json)


@commands.command(cls=PlainCommand, rich_help_panel=WRITE)
def schema(as_json: Json = False, database_url: UnusedDatabaseUrl = None) -> int:
    """Print the JSON Schema of workflow files, for editors."""
    from holdfast.cli.files import print_schema

    return print_schema(as_json=as_json)
