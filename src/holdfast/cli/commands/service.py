"""The commands about the HTTP service and who may use it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.options import (
    INSTALL,
    RUN,
    After,
    AllowBootstrap,
    DatabaseUrl,
    Host,
    Input,
    Inputs,
    Json,
    MetricsPort,
    PlainCommand,
    Port,
    Tenant,
)

commands = typer.Typer()


class KeysVerb(StrEnum):
    LIST = "list"
    ADD = "add"
    REVOKE = "revoke"


class CommandsVerb(StrEnum):
    LIST = "list"
    RUN = "run"


class RoleName(StrEnum):
    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    WORKER = "worker"
    ADMIN = "admin"


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def api(
    host: Host = None,
    port: Port = None,
    allow_bootstrap: AllowBootstrap = False,
    metrics_port: MetricsPort = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Serve HTTP until stopped, for programs and people with a key."""
    from holdfast.cli.api import serve_api
    from holdfast.cli.session import Target

    return serve_api(
        host=host,
        port=port,
        allow_bootstrap=allow_bootstrap or None,
        metrics_port=metrics_port,
        as_json=as_json,
        target=Target(database_url),
    )


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def keys(
    verb: Annotated[KeysVerb, typer.Argument(metavar="list|add|revoke", help="What to do. Default: list.")] = (
        KeysVerb.LIST
    ),
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the new key; or the beginning of the key to revoke."),
    ] = None,
    role: Annotated[
        list[RoleName],
        typer.Option("--role", metavar="ROLE", help="viewer, submitter, operator, worker or admin; may be repeated."),
    ] = [],  # noqa: B006
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="When it ends: 90d, 12h. Default: never.")
    ] = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show, make and revoke keys of the HTTP service. With --tenant '*', a key is for the installation."""
    from holdfast.cli.keys import add_key, list_keys, revoke_key
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    if verb is KeysVerb.LIST:
        return list_keys(as_json=as_json, target=target)
    if verb is KeysVerb.REVOKE:
        return revoke_key(name, as_json=as_json, target=target)
    return add_key(name, [one.value for one in role], expires=expires, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def audit(
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only changes since then: 2h, 2026-11-16.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="WHO", help="Only changes by this person, or with this key.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="WHAT", help="Only these: job.resume, or job for all to jobs.")
    ] = None,
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="NAME", help="Only changes of this job, key, limit or workflow.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many to list.")] = 50,
    after: After = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show who changed what, newest first. With --tenant '*', the changes of all tenants."""
    from holdfast.cli.audit import list_changes
    from holdfast.cli.session import Target

    return list_changes(
        since=since,
        actor=actor,
        action=action,
        instance=instance,
        limit=limit,
        after=after,
        as_json=as_json,
        target=Target(database_url, tenant),
    )


class TenantsVerb(StrEnum):
    LIST = "list"
    ADD = "add"


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def tenants(
    verb: Annotated[TenantsVerb, typer.Argument(metavar="list|add", help="What to do. Default: list.")] = (
        TenantsVerb.LIST
    ),
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The tenant to make, or to change.")] = None,
    queue: Annotated[
        list[str],
        typer.Option(
            "--queue", metavar="QUEUE", help="A queue that its workflows may use; may be repeated. Default: every one."
        ),
    ] = [],  # noqa: B006
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show and make tenants, and bind them to queues."""
    from holdfast.cli.session import Target
    from holdfast.cli.tenants import add_tenant, list_tenants

    target = Target(database_url)
    if verb is TenantsVerb.LIST:
        return list_tenants(as_json=as_json, target=target)
    return add_tenant(name, queue, as_json=as_json, target=target)


@commands.command("commands", cls=PlainCommand, rich_help_panel=INSTALL)
def direct_commands(
    verb: Annotated[CommandsVerb, typer.Argument(metavar="list|run", help="What to do. Default: list.")] = (
        CommandsVerb.LIST
    ),
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The command to call.")] = None,
    given: Input = [],  # noqa: B006
    inputs: Inputs = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the direct commands of installed packages, and call one."""
    from holdfast.cli.direct_commands import list_commands, run_command
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    if verb is CommandsVerb.LIST:
        return list_commands(as_json=as_json, target=target)
    return run_command(name, given, inputs, as_json=as_json, target=target)
