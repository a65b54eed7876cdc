"""`holdfast run`: one workflow file, one new job, one process that does everything until the job ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.bootstrap import Services
from holdfast.cli.ending import end_with
from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of, load_definition, read_inputs
from holdfast.cli.problems import Interrupted
from holdfast.cli.progress import follow, make_view
from holdfast.cli.session import begin, client_of, command, drive, open_database, reader_of
from holdfast.cli.streams import say
from holdfast.cli.words import duration, short
from holdfast.define.definition import Definition
from holdfast.define.registry import Registry, discover
from holdfast.define.source import did_you_mean
from holdfast.errors import Detail, InvalidInput
from holdfast.settings import Settings
from holdfast.store.reading import Reader


def run_file(
    file: Path,
    *,
    assignments: Sequence[str],
    inputs_file: Path | None,
    handlers: Sequence[str],
    concurrency: int | None,
    as_json: bool,
    database_url: str | None,
) -> int:
    settings = begin(database_url, concurrency=concurrency)
    definition = load_definition(file)
    registry = discover(handlers)
    inputs = read_inputs(definition, assignments, inputs_file)
    return drive(_run(settings, definition, registry, inputs, handlers, as_json=as_json, database_url=database_url))


async def _run(
    settings: Settings,
    definition: Definition,
    registry: Registry,
    inputs: dict[str, Any],
    handlers: Sequence[str],
    *,
    as_json: bool,
    database_url: str | None,
) -> int:
    async with open_database(settings, create=True) as store:
        reader = reader_of(store, settings)
        await refuse_unknown_handlers(definition, registry, reader)
        job_id = ""
        finished = asyncio.Event()
        try:
            await _name_others(reader, database_url)
            job_id = (await client_of(store, settings).submit(definition, inputs, key=f"run {uuid.uuid4()}")).job_id
            services = Services(
                store.connections.url,
                settings,
                registry=registry,
                pulse=True,
                on_finished=lambda ended: finished.set(),
                only_job=job_id,
            )
            async with services:
                await follow_served(reader, job_id, services, finished, settings, as_json=as_json)
        except asyncio.CancelledError:
            raise Interrupted(_what_now(job_id, definition, database_url)) from None
        return await end_with(reader, job_id, as_json=as_json, database_url=database_url, handlers=handlers)


async def _name_others(reader: Reader, database_url: str | None) -> None:
    """What was left unfinished here is not driven along: a person decides when it goes on."""
    others = (await reader.fleet()).without_owner
    if others and not await reader.orchestrators():
        number = sum(one.jobs for one in others)
        are = "another job is" if number == 1 else f"{number:,} other jobs are"
        say(f"Note: {are} unfinished, and stay so while this one runs; the oldest is {short(others[0].oldest_job)}.")
        say(f"  → Let them go on with: {command('up', database_url)}")


async def follow_served(
    reader: Reader, job_id: str, services: Services, finished: asyncio.Event, settings: Settings, *, as_json: bool
) -> None:
    """Until the job ends; a service that ends before it is our bug, and raises it."""
    view = make_view(as_json=as_json, footer="Ctrl-C stops the work; the job stays and can go on later.")
    following = asyncio.create_task(follow(reader, job_id, view, finished=finished))
    serving = asyncio.create_task(services.wait())
    try:
        await asyncio.wait({following, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        await following
    except asyncio.CancelledError:
        view.close()
        grace = duration(settings.grace_seconds)
        say(f"Stopping: giving tasks back, waiting up to {grace} for those that run. Ctrl-C again ends at once.")
        raise
    finally:
        view.close()
        following.cancel()
        serving.cancel()
        await asyncio.gather(following, serving, return_exceptions=True)


def _what_now(job_id: str, definition: Definition, database_url: str | None) -> str:
    if not job_id:
        return "Interrupted before the job was made."
    return (
        f"Interrupted. Job {job_id} stays as it is; nothing that it finished is lost.\n"
        f"  → Continue it with: {start('up', handlers_of(definition), database_url)}\n"
        f"  → Look at it with: {command(f'status {short(job_id)}', database_url)}\n"
        f"  → Stop it for good with: {command(f'cancel {short(job_id)}', database_url)}"
    )


async def refuse_unknown_handlers(definition: Definition, registry: Registry, reader: Reader) -> None:
    """A task that neither this process nor any live worker can run would wait forever in silence."""
    missing = {name: queues for name, queues in handlers_of(definition).items() if name not in registry}
    if not missing:
        return
    workers = await reader.workers()
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
            f"Nobody could run {'a task' if len(problems) == 1 else 'tasks'} of the workflow {definition.workflow_id}.",
            errors=problems,
            remedy="Name the module that has the handler: --handlers MODULE",
        )
