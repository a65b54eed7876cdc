"""The commands that run workflows."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.options import (
    RUN,
    AllowBootstrap,
    CallbackUrl,
    Concurrency,
    CorrelationId,
    DatabaseUrl,
    ExternalIds,
    Handlers,
    Host,
    Input,
    Inputs,
    Json,
    Labels,
    MetricsPort,
    Notify,
    PlainCommand,
    Port,
    Priority,
    Queues,
    Tenant,
    Wait,
    WorkflowFile,
)

commands = typer.Typer()


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def run(
    file: WorkflowFile,
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    label: Labels = [],  # noqa: B006
    handlers: Handlers = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Run a workflow file to its end, here, as a new job."""
    from holdfast.cli.run import run_file
    from holdfast.cli.session import Target

    return run_file(
        file,
        assignments=input,
        inputs_file=inputs,
        labels=label,
        handlers=handlers,
        concurrency=concurrency,
        as_json=as_json,
        target=Target(database_url, tenant),
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def submit(
    workflow: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|WORKFLOW", help="Workflow file, or the id of a known workflow. Default: that of --like."
        ),
    ] = None,
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    like: Annotated[
        str | None,
        typer.Option("--like", metavar="JOB", help="Take the inputs of this job where no other input is given."),
    ] = None,
    label: Labels = [],  # noqa: B006
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="Name of this submission: for one workflow, the same key is the same job."
        ),
    ] = None,
    correlation_id: CorrelationId = None,
    external_id: ExternalIds = [],  # noqa: B006
    callback_url: CallbackUrl = None,
    notify: Notify = [],  # noqa: B006
    priority: Priority = 0,
    wait: Wait = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="If the same submission has failed before, continue that job.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make a new job even if the same submission has made one; that one stays.")
    ] = False,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Submit a job, for services to run. Submitting the same inputs again returns the existing job."""
    from holdfast.cli.session import Target
    from holdfast.cli.submit import submit_job

    return submit_job(
        workflow,
        assignments=input,
        inputs_file=inputs,
        like=like,
        labels=label,
        key=key,
        correlation_id=correlation_id,
        external_ids=external_id,
        callback_url=callback_url,
        notify=notify,
        priority=priority,
        wait=wait,
        resume=resume,
        force=force,
        as_json=as_json,
        target=Target(database_url, tenant),
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def register(file: WorkflowFile, as_json: Json = False, tenant: Tenant = None, database_url: DatabaseUrl = None) -> int:
    """Make a file the one that submit takes by its workflow id. This makes no job."""
    from holdfast.cli.register import register_file
    from holdfast.cli.session import Target

    return register_file(file, as_json=as_json, target=Target(database_url, tenant))


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def up(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    migrate: Annotated[bool, typer.Option("--migrate", help="First bring the database's schema up to date.")] = False,
    api: Annotated[bool | None, typer.Option("--api/--no-api", help="Serve HTTP, too. Default: yes.")] = None,
    host: Host = None,
    port: Port = None,
    allow_bootstrap: AllowBootstrap = False,
    metrics_port: MetricsPort = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Serve jobs until stopped. The orchestrator, the worker and the HTTP service run in one process."""
    return _serve(
        "up",
        handlers,
        queue,
        concurrency,
        as_json,
        database_url,
        migrate=migrate,
        api=api,
        host=host,
        port=port,
        allow_bootstrap=allow_bootstrap or None,
        metrics_port=metrics_port,
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def worker(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    metrics_port: MetricsPort = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run tasks until stopped. A worker takes only tasks whose handler it has. With --url it needs no database."""
    return _serve("worker", handlers, queue, concurrency, as_json, database_url, metrics_port=metrics_port)


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def orchestrator(metrics_port: MetricsPort = None, as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Decide what runs next until stopped; runs no tasks itself."""
    return _serve("orchestrator", [], [], None, as_json, database_url, metrics_port=metrics_port)


def _serve(
    service: str,
    handlers: list[str],
    queues: list[str],
    concurrency: int | None,
    as_json: bool,
    database_url: str | None,
    *,
    migrate: bool = False,
    api: bool | None = False,
    host: str | None = None,
    port: int | None = None,
    allow_bootstrap: bool | None = None,
    metrics_port: int | None = None,
) -> int:
    from holdfast.cli.serve import serve
    from holdfast.cli.session import Target

    target = Target(database_url)
    return serve(
        service,
        handlers=handlers,
        queues=queues,
        concurrency=concurrency,
        migrate=migrate,
        api=api,
        host=host,
        port=port,
        allow_bootstrap=allow_bootstrap,
        metrics_port=metrics_port,
        as_json=as_json,
        target=target,
    )
