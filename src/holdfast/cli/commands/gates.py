"""The commands about what holds tasks back: breakers and limits."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.options import MAX_NUMBER, STEER, DatabaseUrl, Json, PlainCommand

commands = typer.Typer()


class BreakerVerb(StrEnum):
    OPEN = "open"
    CLOSE = "close"
    RESET = "reset"


class LimitVerb(StrEnum):
    SET = "set"
    DROP = "drop"


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def breakers(
    verb: Annotated[
        BreakerVerb | None,
        typer.Argument(
            metavar="open|close|reset", help="Hold it open, close it, or forget its failures. Default: list."
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Breaker to change.")] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored with the breaker.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the breakers and which are open; open and close them."""
    from holdfast.cli.breakers import change_breaker, list_breakers
    from holdfast.cli.session import Target

    target = Target(database_url)
    if verb is None:
        return list_breakers(as_json=as_json, target=target)
    return change_breaker(verb.value, name, reason=reason, yes=yes, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def limits(
    verb: Annotated[
        LimitVerb | None,
        typer.Argument(metavar="set|drop", help="Set a limit, or take it away. Default: list."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="queue:QUEUE, tenant, or as listed: node:WORKFLOW.NODE, key:KEY."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="N", min=1, max=MAX_NUMBER, help="Tasks that may run at once."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/SECONDS", help="How many tasks may start in how many seconds.")
    ] = None,
    backlog: Annotated[
        int | None,
        typer.Option("--backlog", metavar="N", min=1, max=MAX_NUMBER, help="Jobs of a tenant that may be open."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="Whose limit; default is the tenant default.")
    ] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show how many tasks may run, and what waits; set limits."""
    from holdfast.cli.limits import drop_limit, list_limits, set_limit
    from holdfast.cli.session import Target

    target = Target(database_url)
    if verb is None:
        return list_limits(as_json=as_json, target=target)
    if verb is LimitVerb.DROP:
        return drop_limit(name, tenant=tenant, as_json=as_json, target=target)
    return set_limit(
        name,
        tenant=tenant,
        concurrency=concurrency,
        rate=rate,
        backlog=backlog,
        as_json=as_json,
        target=target,
    )
