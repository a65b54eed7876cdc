"""The command about what starts by the clock."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.options import STEER, DatabaseUrl, Input, Inputs, Json, PlainCommand, Tenant

commands = typer.Typer()


class SchedulesVerb(StrEnum):
    LIST = "list"
    ADD = "add"
    SHOW = "show"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    TRIGGER = "trigger"
    REMOVE = "remove"


class OverlapName(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class CatchUpName(StrEnum):
    NONE = "none"
    LAST = "last"
    ALL = "all"


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def schedules(
    verb: Annotated[
        SchedulesVerb,
        typer.Argument(metavar="list|add|show|pause|unpause|trigger|remove", help="What to do. Default: list."),
    ] = SchedulesVerb.LIST,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The schedule.")] = None,
    workflow: Annotated[
        str | None, typer.Argument(metavar="WORKFLOW", help="For add: the id of a registered workflow.")
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option("--cron", metavar="TIMES", help="Minute, hour, day of month, month, day of week: '0 2 * * *'."),
    ] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="TIME", help="An interval: 90s, 15m, 12h.")] = None,
    time_zone: Annotated[str, typer.Option("--time-zone", metavar="ZONE", help="Time zone of --cron.")] = "UTC",
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    overlap: Annotated[
        OverlapName,
        typer.Option("--overlap", metavar="WHAT", help="If the last job runs: skip, queue or replace. Default: skip."),
    ] = OverlapName.SKIP,
    catch_up: Annotated[
        CatchUpName,
        typer.Option("--catch-up", metavar="WHICH", help="Missed ticks that run: none, last or all. Default: last."),
    ] = CatchUpName.LAST,
    replace: Annotated[bool, typer.Option("--replace", help="For add: change a schedule that is there.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the audit has it.")] = "",
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Start workflows by the clock. Without a verb, it lists the schedules."""
    from holdfast.cli.schedules import Wanted, add_schedule, change_schedule, list_schedules, show_schedule
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    match verb:
        case SchedulesVerb.LIST:
            return list_schedules(as_json=as_json, target=target)
        case SchedulesVerb.SHOW:
            return show_schedule(name, as_json=as_json, target=target)
        case SchedulesVerb.ADD:
            wanted = Wanted(workflow, cron, every, time_zone, input, inputs, overlap.value, catch_up.value, replace)
            return add_schedule(name, wanted, reason=reason, as_json=as_json, target=target)
        case _:
            return change_schedule(verb.value, name, reason=reason, as_json=as_json, target=target)
