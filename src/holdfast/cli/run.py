"""`holdfast run`: one workflow file, one new job, one process that does everything until the job ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.bootstrap import open_client
from holdfast.cli.data_files import advising_check, load_named_workflow, read_inputs
from holdfast.cli.ending import end_with
from holdfast.cli.fleet import handlers_of, start
from holdfast.cli.job_list import parse_labels
from holdfast.cli.problems import Interrupted
from holdfast.cli.progress import follow, make_view
from holdfast.cli.session import Target, begin, begin_traces, drive, known_handlers
from holdfast.cli.streams import say
from holdfast.cli.words import duration, short
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.registry import Registry
from holdfast.define.source import did_you_mean
from holdfast.define.workflow_file import python_file
from holdfast.errors import Detail, InvalidInput
from holdfast.operations.labels import check_labels
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.services import Services


def run_file(
    file: Path,
    *,
    assignments: Sequence[str],
    inputs_file: Path | None,
    labels: Sequence[str],
    handlers: Sequence[str],
    concurrency: int | None,
    as_json: bool,
    target: Target,
) -> int:
    settings = begin(target, needs_database=True, concurrency=concurrency, handlers=handlers or None)
    begin_traces(settings)
    loaded = load_named_workflow(file, handlers)
    definition, registry = loaded.definition, known_handlers(settings)
    if loaded.add_handlers_to(registry):
        # The commands that continue the job need them too.
        handlers = [*settings.handlers, python_file(file)]
    with advising_check(file, handlers):
        loaded.refuse_unfit(registry)
    inputs = read_inputs(definition, assignments, inputs_file)
    named = check_labels(parse_labels(labels))
    return drive(_run(settings, definition, registry, inputs, named, handlers, as_json=as_json, target=target))


async def _run(
    settings: Settings,
    definition: Definition,
    registry: Registry,
    inputs: dict[str, Any],
    labels: dict[str, str],
    handlers: Sequence[str],
    *,
    as_json: bool,
    target: Target,
) -> int:
    # Imported late: the verbs share this module, and mostly need no services.
    from holdfast.assembly import new_services

    async with open_client(settings) as client:
        await refuse_unknown_handlers(definition, registry, client)
        job_id = ""
        finished = asyncio.Event()
        try:
            await _name_others(client, target)
            submission = await client.submit(definition, inputs, key=f"run {uuid.uuid4()}", labels=labels)
            job_id = submission.job_id
            services = new_services(
                client.database_url,
                settings,
                registry=registry,
                pulse=True,
                on_finished=lambda ended: finished.set(),
                only_job=job_id,
            )
            async with services:
                await follow_served(client, job_id, services, finished, settings, as_json=as_json)
        except asyncio.CancelledError:
            raise Interrupted(_what_now(job_id, definition, target)) from None
        return await end_with(client, job_id, as_json=as_json, target=target, handlers=handlers)


async def _name_others(client: Client, target: Target) -> None:
    """Other unfinished jobs are not driven by this command: a person decides when they continue."""
    others = (await client.fleet()).without_owner
    if others and not await client.is_served():
        number = sum(one.jobs for one in others)
        are = "another job is" if number == 1 else f"{number:,} other jobs are"
        oldest = short(others[0].oldest_job)
        say(f"Note: {are} unfinished, and do not continue while this one runs; the oldest is {oldest}.")
        say(f"  → Let them continue with: {target.command('up')}")


async def follow_served(
    client: Client, job_id: str, services: Services, finished: asyncio.Event, settings: Settings, *, as_json: bool
) -> None:
    """Until the job ends; a service that ends before it is our bug, and raises it."""
    view = make_view(as_json=as_json, footer="Ctrl-C stops the work; the job stays and can continue later.")
    following = asyncio.create_task(follow(client, job_id, view, finished=finished))
    serving = asyncio.create_task(services.wait())
    try:
        await asyncio.wait({following, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        await following
    except asyncio.CancelledError:
        view.close()
        grace = duration(settings.grace_seconds)
        say(f"Stopping: tasks go back to the queue, running ones have {grace} to finish. Ctrl-C again ends at once.")
        raise
    finally:
        view.close()
        following.cancel()
        serving.cancel()
        await asyncio.gather(following, serving, return_exceptions=True)


def _what_now(job_id: str, definition: Definition, target: Target) -> str:
    if not job_id:
        return "Interrupted before the job was created."
    return (
        f"Interrupted. Job {job_id} stays as it is; nothing that it finished is lost.\n"
        f"  → Continue it with: {start('up', handlers_of(definition), target)}\n"
        f"  → Look at it with: {target.command(f'status {short(job_id)}')}\n"
        f"  → Stop it for good with: {target.command(f'cancel {short(job_id)}')}"
    )


async def refuse_unknown_handlers(definition: Definition, registry: Registry, client: Client) -> None:
    """Refuse a workflow with a task that neither this process nor a live worker can run: it would wait for ever."""
    missing = {name: queues for name, queues in handlers_of(definition).items() if name not in registry}
    if not missing:
        return
    workers = (await client.fleet()).workers
    problems = []
    for name, queues in missing.items():
        for queue in queues:
            served = any(name in w.handlers and (w.queues is None or queue in w.queues) for w in workers)
            if not served:
                problems.append(
                    Detail(f"There is no handler '{name}' here.", suggestion=did_you_mean(name, registry.names))
                )
                break
    if problems:
        raise InvalidInput(
            f"No process has the handlers that the workflow {definition.workflow_id} needs.",
            errors=problems,
            remedy="Name the module that has the handler: --handlers MODULE, or `handlers` in holdfast.toml",
        )
