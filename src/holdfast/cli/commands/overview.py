"""The commands that show what a tenant has, and the one that acknowledges a failed job."""

from __future__ import annotations

import typer

from holdfast.cli.options import LOOK, STEER, DatabaseUrl, JobName, Json, PlainCommand, Reason, Tenant

commands = typer.Typer()


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def workflows(as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """List the workflows with their versions and jobs. The version is the current one; jobs are counted by status."""
    from holdfast.cli.overview import show_workflows
    from holdfast.cli.session import Target

    return show_workflows(as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def queues(as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """List the queues: what waits, what runs, and who serves them."""
    from holdfast.cli.overview import show_queues
    from holdfast.cli.session import Target

    return show_queues(as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=LOOK)
def stats(as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """Count the jobs by status, and those that ended, by hour. The hours are the last 24."""
    from holdfast.cli.overview import show_statistics
    from holdfast.cli.session import Target

    return show_statistics(as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def acknowledge(
    job: JobName, reason: Reason = "", as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None
) -> int:
    """Note that a failed or partial job needs nothing more."""
    from holdfast.cli.acknowledge import acknowledge_job
    from holdfast.cli.session import Target

    return acknowledge_job(job, reason=reason, as_json=as_json, target=Target(database_url, tenant))
