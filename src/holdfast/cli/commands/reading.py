"""The commands that show what happens to jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.options import (
    LAST,
    LOOK,
    MAX_NUMBER,
    After,
    DatabaseUrl,
    JobName,
    Json,
    NewestJob,
    PlainCommand,
    Tenant,
)

commands = typer.Typer()


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def status(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="Job id, or its last 6 characters or more. Default: list.")
    ] = None,
    state: Annotated[
        list[str], typer.Option("--status", metavar="STATUS", help="Only jobs with this status; may be repeated.")
    ] = [],  # noqa: B006
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="ID", help="Only jobs of this workflow.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only jobs submitted since then: 2h, 2026-11-16.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only jobs submitted before that time.")
    ] = None,
    code: Annotated[
        str | None, typer.Option("--code", metavar="CODE", help="Only jobs in which something failed with this code.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only jobs that this key has made.")] = None,
    label: Annotated[
        list[str], typer.Option("--label", metavar="NAME=VALUE", help="Only jobs with this label; may be repeated.")
    ] = [],  # noqa: B006
    unacknowledged: Annotated[
        bool, typer.Option("--unacknowledged", help="Only failed and partial jobs that no person has acknowledged.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many jobs to list.")] = 20,
    after: After = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show one job, or list the newest ones."""
    from holdfast.cli.job_list import Filters
    from holdfast.cli.jobs import show_status
    from holdfast.cli.session import Target

    filters = Filters(state, workflow, since, until, code, key, label, unacknowledged)
    target = Target(database_url, tenant)
    return show_status(job, filters=filters, limit=limit, after=after, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def watch(job: NewestJob = LAST, as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """Follow a job to its end; the exit code says how it ended."""
    from holdfast.cli.jobs import watch_job
    from holdfast.cli.session import Target

    return watch_job(job, as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def events(
    job: NewestJob = LAST,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job ends.")] = False,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", min=0, max=MAX_NUMBER, help="Only events after this number.")
    ] = 0,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only events of this node.")] = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show everything that happened to a job, in order."""
    from holdfast.cli.jobs import show_events
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    return show_events(job, follow=follow, after=after, node=node, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def why(job: NewestJob = LAST, as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """Say why a job is not finished, or why it ended as it did. It also says what helps."""
    from holdfast.cli.session import Target
    from holdfast.cli.why import explain

    return explain(job, as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def definition(
    job: JobName,
    generation: Annotated[
        int | None,
        typer.Option("--generation", metavar="N", max=MAX_NUMBER, help="Of this generation. Default: the present one."),
    ] = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show the definition and the inputs that a job follows. What corrections changed is shown, too."""
    from holdfast.cli.definition import show_definition
    from holdfast.cli.session import Target

    return show_definition(job, generation=generation, as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def logs(
    job: NewestJob = LAST,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only attempts of this node.")] = None,
    item: Annotated[
        int | None, typer.Option("--item", metavar="N", min=0, max=MAX_NUMBER, help="Only this item of a fan-out.")
    ] = None,
    is_followed: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job ends.")] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", metavar="N", min=1, max=MAX_NUMBER, help="Only the last N lines of each attempt."),
    ] = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what handlers printed and how attempts failed. This works also while they run."""
    from holdfast.cli.jobs import show_logs
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    return show_logs(job, node=node, item=item, is_followed=is_followed, tail=tail, as_json=as_json, target=target)
