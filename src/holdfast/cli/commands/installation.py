"""The commands that look after the installation."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.options import INSTALL, DatabaseUrl, Json, PlainCommand, Tenant, UnusedDatabaseUrl

commands = typer.Typer()


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class BootstrapVerb(StrEnum):
    STATUS = "status"
    TABLES = "tables"
    DDL = "ddl"
    DEPLOY = "deploy"
    MIGRATE = "migrate"
    REBUILD = "rebuild"


class DefaultsVerb(StrEnum):
    SHOW = "show"
    SET = "set"
    RESET = "reset"


class FinishedStatus(StrEnum):
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def doctor(as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Check the installation, and say what is wrong and what helps."""
    from holdfast.cli.doctor import examine
    from holdfast.cli.session import Target

    return examine(as_json=as_json, target=Target(database_url))


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def adopt(as_json: Json = False, database_url: UnusedDatabaseUrl = None) -> int:
    """Trust a database that was copied or unpacked into HOLDFAST_HOME. It can run programs as you."""
    from holdfast.cli.adopt import take_over

    return take_over(as_json=as_json)


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def janitor(
    once: Annotated[bool, typer.Option("--once", help="Look at everything now and have it repaired.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at everything now and change nothing.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what the janitor found and repaired, or look now."""
    from holdfast.cli.janitor import tidy
    from holdfast.cli.session import Target

    return tidy(once=once, dry_run=dry_run, as_json=as_json, target=Target(database_url))


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def defaults(
    verb: Annotated[
        DefaultsVerb,
        typer.Argument(metavar="show|set|reset", help="Show all, set some, or return to built-in ones. Default: show."),
    ] = DefaultsVerb.SHOW,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="For reset the name alone. May be repeated."),
    ] = [],  # noqa: B006
    every: Annotated[bool, typer.Option("--all", help="For reset: all of them.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored with the default.")] = "",
    as_json: Json = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = None,
) -> int:
    """Show and set what holds where a workflow says nothing."""
    from holdfast.cli.defaults import reset_defaults, set_defaults, show_defaults
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    match verb:
        case DefaultsVerb.SHOW:
            return show_defaults(names, as_json=as_json, target=target)
        case DefaultsVerb.SET:
            return set_defaults(names, reason=reason, as_json=as_json, target=target)
        case DefaultsVerb.RESET:
            return reset_defaults(names, every=every, reason=reason, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Jobs that finished that long ago: 90s, 12h, 30d, 4w.")
    ] = "30d",
    status: Annotated[
        list[FinishedStatus],
        typer.Option("--status", metavar="STATUS", help="Only jobs with this status; may be repeated. Default: all."),
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Delete finished jobs that are old, with their payloads."""
    from holdfast.cli.prune import prune_jobs
    from holdfast.cli.session import Target

    return prune_jobs(
        older_than,
        [one.value for one in status],
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
        target=Target(database_url),
    )


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def migrate(
    ddl: Annotated[bool, typer.Option("--ddl", help="Print the statements; touch no database.")] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Bring the database's schema up to date."""
    from holdfast.cli.schema import apply_migrations, print_ddl
    from holdfast.cli.session import Target

    return print_ddl(as_json=as_json) if ddl else apply_migrations(as_json=as_json, target=Target(database_url))


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def bootstrap(
    verb: Annotated[
        BootstrapVerb,
        typer.Argument(
            metavar="status|tables|ddl|deploy|migrate|rebuild",
            help="Show the migrations, the tables or the statements; make the schema, or bring it up to date; drop it"
            " and make it again. Default: status.",
        ),
    ] = BootstrapVerb.STATUS,
    name: Annotated[
        str | None, typer.Argument(metavar="DATABASE", help="For rebuild: the database's name, as a confirmation.")
    ] = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Set up the database's schema, or look at it. `rebuild` deletes every job."""
    from holdfast.cli.schema import apply_migrations, print_ddl, rebuild_schema, show_schema, show_tables
    from holdfast.cli.session import Target

    target = Target(database_url)
    match verb:
        case BootstrapVerb.STATUS:
            return show_schema(as_json=as_json, target=target)
        case BootstrapVerb.TABLES:
            return show_tables(as_json=as_json, target=target)
        case BootstrapVerb.DDL:
            return print_ddl(as_json=as_json)
        case BootstrapVerb.DEPLOY | BootstrapVerb.MIGRATE:
            return apply_migrations(as_json=as_json, target=target)
        case BootstrapVerb.REBUILD:
            return rebuild_schema(name, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=INSTALL)
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
    as_json: Json = False,
    database_url: UnusedDatabaseUrl = None,
) -> int:
    """Print a script that completes commands and options in a shell."""
    from holdfast.cli.completion import print_script

    return print_script(shell.value, as_json=as_json)
