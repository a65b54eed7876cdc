"""Workflow files of YAML and Python, without a database: checking them, drawing them, and their schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.cli.data_files import load_definition
from holdfast.cli.session import known_handlers
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import counted
from holdfast.define.definition import Definition
from holdfast.define.document import schema
from holdfast.define.drawing import draw_mermaid, draw_svg, draw_text
from holdfast.define.named_file import shown_name
from holdfast.define.registry import Registry
from holdfast.define.workflow_file import Checked, check_workflow
from holdfast.errors import Detail, ExitCode, InvalidDefinition, InvalidInput, NotFound
from holdfast.settings import load_settings


def validate_files(files: Sequence[Path], *, handlers: Sequence[str], strict: bool, as_json: bool) -> int:
    """Check every file and show everything that is wrong with any of them; `strict` makes warnings errors."""
    settings = load_settings(handlers=handlers or None)
    known = known_handlers(settings) if settings.handlers else None
    problems: list[Detail] = []
    warnings: list[Detail] = []
    checked: list[dict[str, Any]] = []
    for file in files:
        definition, mistakes, traps = _check(file, known)
        problems += [*mistakes, *traps] if strict else mistakes
        warnings += [] if strict else traps
        if definition is not None and not (strict and traps):
            checked.append(_described(file, definition))
    if problems and as_json:
        raise InvalidDefinition(_total(len(problems), len(files)), errors=problems)
    if as_json:
        answer_json({"files": checked, "warnings": [one.to_json() for one in warnings]})
        return ExitCode.DONE
    for one in checked:
        nodes = counted(one["node_count"], "node")
        answer(f"ok: {one['file']}: {one['workflow_id']}, version {one['version']}, {nodes}")
    for warning in warnings:
        say(str(replace(warning, message=f"warning: {warning.message}")))
    for problem in problems:
        say(str(problem))
    return ExitCode.BAD_USAGE if problems else ExitCode.DONE


def _check(file: Path, known: Registry | None) -> Checked:
    try:
        return check_workflow(file, known)
    except NotFound:
        return Checked(None, [Detail("There is no such file.", file=shown_name(file))], [])
    except InvalidInput as problem:
        # A Python file that cannot be imported, or without a workflow; the other files are checked all the same.
        return Checked(None, [Detail(problem.message, suggestion=problem.remedy)], [])


def _described(file: Path, definition: Definition) -> dict[str, Any]:
    return {
        "file": str(file),
        "workflow_id": definition.workflow_id,
        "version": definition.version,
        "node_count": len(definition.nodes),
        "definition_hash": definition.hash(),
    }


def _total(problems: int, files: int) -> str:
    return f"{counted(problems, 'error')} in {counted(files, 'file')}."


def draw_file(file: Path, *, drawing: str, handlers: Sequence[str], as_json: bool) -> int:
    definition = load_definition(file)
    if handlers:
        known_handlers(load_settings(handlers=handlers))
    picture = {"text": draw_text, "mermaid": draw_mermaid, "svg": draw_svg}[drawing](definition)
    if as_json:
        answer_json({"workflow_id": definition.workflow_id, "format": drawing, "drawing": picture})
    else:
        answer(picture.rstrip("\n"))
    return ExitCode.DONE


def print_schema(*, as_json: bool) -> int:
    """The schema is JSON either way; for people it is indented."""
    answer(json.dumps(schema(), ensure_ascii=False, indent=None if as_json else 2))
    return ExitCode.DONE
