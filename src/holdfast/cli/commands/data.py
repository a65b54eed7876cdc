"""The commands that show the data of a job: params, outputs, files and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import LOOK, MAX_NUMBER, DatabaseUrl, JobName, Json, NodeName, PlainCommand, Tenant

commands = typer.Typer()

Item = Annotated[
    int | None, typer.Option("--item", metavar="N", min=0, max=MAX_NUMBER, help="Only this item of a fan-out.")
]
ToFile = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Write the answer to this file, whole or not at all.")
]
TaskStatus = Annotated[
    str | None, typer.Option("--status", metavar="STATUS", help="Only tasks with this status, such as failed.")
]


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def output(
    job: JobName,
    node: NodeName,
    item: Item = None,
    to: ToFile = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the output of a node, or of one of its items, as JSON."""
    from holdfast.cli.session import Target
    from holdfast.cli.values import show_value

    target = Target(database_url, tenant)
    return show_value("output", job, node, item=item, to=to, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def params(
    job: JobName,
    node: NodeName,
    item: Item = None,
    to: ToFile = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the params of a node, or of one of its items, as JSON. They are shown as the handler gets them."""
    from holdfast.cli.session import Target
    from holdfast.cli.values import show_value

    target = Target(database_url, tenant)
    return show_value("params", job, node, item=item, to=to, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def results(
    job: JobName,
    node: NodeName,
    status: TaskStatus = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="json|jsonl|csv", help="One array, or a line for each. Default: jsonl."),
    ] = None,
    to: ToFile = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the outputs of all items of a fan-out. For another node, those of all its tasks."""
    from holdfast.cli.results import chosen_format, show_results
    from holdfast.cli.session import Target

    chosen = chosen_format(format, as_json=as_json)
    return show_results(job, node, status=status, format=chosen, to=to, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def tasks(
    job: JobName,
    node: NodeName,
    status: TaskStatus = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=999, help="How many tasks to list.")] = 50,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="ITEM", min=0, max=MAX_NUMBER, help="Continue a list after this item."),
    ] = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """List the tasks of a node, with status, duration and error. Attempts and workers are listed, too."""
    from holdfast.cli.session import Target
    from holdfast.cli.tasks import show_tasks

    target = Target(database_url, tenant)
    return show_tasks(job, node, status=status, limit=limit, after=after, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def artifacts(
    job: JobName,
    get: Annotated[str | None, typer.Option("--get", metavar="NAME", help="Copy the file of this name.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Where to copy it. Default: its name, here.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only files of this node.")] = None,
    item: Item = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """List the files that a job has published, or copy one of them. What the job delivers is listed, too."""
    from holdfast.cli.artifacts import get_artifact, show_artifacts
    from holdfast.cli.session import Target
    from holdfast.errors import InvalidInput

    target = Target(database_url, tenant)
    if get is not None:
        return get_artifact(job, get, node=node, item=item, to=to, as_json=as_json, target=target)
    if to is not None:
        raise InvalidInput("--to needs the name of a file.", remedy="Name it: --get NAME --to FILE")
    return show_artifacts(job, node=node, item=item, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def checkpoints(
    job: JobName,
    node: NodeName,
    item: Item = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """List the checkpoints that the tasks of a node have saved. With --json also their values, one per line."""
    from holdfast.cli.checkpoints import show_checkpoints
    from holdfast.cli.session import Target

    return show_checkpoints(job, node, item=item, as_json=as_json, target=Target(database_url, tenant))
