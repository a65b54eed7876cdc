"""The commands that run workflows."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.grammar import (
    RUN,
    Concurrency,
    DatabaseUrl,
    Handlers,
    Input,
    Inputs,
    Json,
    PlainCommand,
    Queues,
    WorkflowFile,
)

commands = typer.Typer()


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def run(
    file: WorkflowFile,
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    handlers: Handlers = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run a workflow file to its end, here, as a new job."""
    from holdfast.cli.run import run_file

    return run_file(
        file,
        assignments=input,
        inputs_file=inputs,
        handlers=handlers,
        concurrency=concurrency,
        as_json=as_json,
        database_url=database_url,
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def submit(
    workflow: Annotated[
        str, typer.Argument(metavar="FILE|WORKFLOW", help="Workflow file, or the id of a known workflow.")
    ],
    input: Input = [],  # noqa: B006
    inputs: Inputs = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="Name of this submission; of one workflow, the same key is the same job."
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", min=-1000, max=1000, help="Tasks of higher ones are taken first.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; the exit code tells how it ended.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="If the same submission has failed before, go on where it stopped.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make a new job although the same submission has made one; that one stays.")
    ] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Hand a job in; the same submission twice is one job."""
    from holdfast.cli.submit import submit_job

    return submit_job(
        workflow,
        assignments=input,
        inputs_file=inputs,
        key=key,
        priority=priority,
        wait=wait,
        resume=resume,
        force=force,
        as_json=as_json,
        database_url=database_url,
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def up(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Serve jobs until stopped: orchestrator and worker in one process."""
    from holdfast.cli.serve import serve

    return serve(
        "up", handlers=handlers, queues=queue, concurrency=concurrency, as_json=as_json, database_url=database_url
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def worker(
    handlers: Handlers = [],  # noqa: B006
    queue: Queues = [],  # noqa: B006
    concurrency: Concurrency = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Run tasks until stopped; takes only tasks whose handler it has."""
    from holdfast.cli.serve import serve

    return serve(
        "worker", handlers=handlers, queues=queue, concurrency=concurrency, as_json=as_json, database_url=database_url
    )


@commands.command(cls=PlainCommand, rich_help_panel=RUN)
def orchestrator(as_json: Json = False, database_url: DatabaseUrl = None) -> int:
    """Decide what runs next until stopped; runs no tasks itself."""
    from holdfast.cli.serve import serve

    return serve("orchestrator", handlers=[], queues=[], concurrency=None, as_json=as_json, database_url=database_url)
