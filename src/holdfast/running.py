"""`holdfast.run`: one workflow, one new job, run to its end by this process. For scripts and notebooks.

The pieces are those of `holdfast run` and of `holdfast.testing`, which shares them.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.assembly import new_services
from holdfast.bootstrap import open_client
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.registry import ATTRIBUTE, Handler, Registry, codes_in, describe, discover
from holdfast.define.source import did_you_mean
from holdfast.define.workflow import Workflow
from holdfast.define.workflow_file import load_workflow, refuse_unfit
from holdfast.errors import Detail, InvalidInput, JobFailed
from holdfast.private_loop import PrivateLoop
from holdfast.services import Services
from holdfast.settings import Settings, load_settings
from holdfast.views.jobs import Job, NodeState

AnyWorkflow = Definition | Workflow | Path | str
Handlers = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any] | str]

LOOK_SECONDS = 0.2
SHORT_ID = 8


def run(
    workflow: AnyWorkflow,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers = (),
    concurrency: int | None = None,
    database_url: str | None = None,
    tenant: str | None = None,
    timeout: float | None = None,
) -> Job:
    """Run a workflow to its end as a new job, in this process; returns the job as it ended, completed or partial.

    `handlers` are functions, or names of modules; without them the installed handlers, those of the project file and
    those of the workflow itself are there. Works inside a running event loop too, which waits meanwhile. Raises
    JobFailed if the job failed or was cancelled, and TimeoutError if it did not end within `timeout` seconds; then the
    job stays as it is.
    """
    settings = load_settings(database_url=database_url, tenant=tenant, concurrency=concurrency)
    handlers = handlers if isinstance(handlers, Mapping) else list(handlers)
    definition, registry = prepared(workflow, handlers, settings)
    loop = PrivateLoop()
    try:
        with streams_kept():
            job = loop.run(_run(settings, definition, registry, dict(inputs or {}), timeout))
    finally:
        loop.close()
    if job.status in ("failed", "cancelled"):
        raise _failure(job, _modules_of(workflow, handlers))
    return job


async def _run(
    settings: Settings, definition: Definition, registry: Registry, inputs: dict[str, Any], timeout: float | None
) -> Job:
    finished = asyncio.Event()
    async with open_client(settings) as client:
        job_id = (await client.submit(definition, inputs, key=f"run {uuid.uuid4()}")).job_id
        services = new_services(
            client.database_url,
            settings,
            registry=registry,
            on_finished=lambda ended: finished.set(),
            only_job=job_id,
        )
        async with services:
            await until_over(client, job_id, services, finished, timeout)
        return await client.job(job_id)


async def until_over(
    client: Client, job_id: str, services: Services, finished: asyncio.Event, timeout: float | None
) -> None:
    """Wait for the end of the job. A service that ends before it is our bug, and raises it."""
    following = asyncio.create_task(_follow(client, job_id, finished))
    serving = asyncio.create_task(services.wait())
    try:
        await asyncio.wait({following, serving}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        if not following.done():
            raise TimeoutError(await _where_it_is(client, job_id, timeout or 0))
        following.result()
    finally:
        for task in (following, serving):
            task.cancel()
        await asyncio.gather(following, serving, return_exceptions=True)


async def _follow(client: Client, job_id: str, finished: asyncio.Event) -> None:
    """The orchestrator here says when it ends; another one may drive it in a shared database.

    The first read comes at once: it opens its connection while the services open theirs.
    """
    while not (await client.job(job_id, whole=False)).is_terminal:
        with suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), LOOK_SECONDS)
        finished.clear()


async def _where_it_is(client: Client, job_id: str, timeout: float) -> str:
    job = await client.job(job_id, whole=False)
    open_nodes = [await _state(client, job_id, node) for node in job.nodes if node.finished_at is None]
    return f"the workflow {job.workflow_id} did not end within {timeout:g} s: {', '.join(open_nodes)}"


async def _state(client: Client, job_id: str, node: NodeState) -> str:
    """`push is held by breaker crm, which opened 3 s ago: 5 of 8 calls failed; the last error is DOWN: no answer`"""
    held = node.held
    if held is None:
        return f"{node.node} is {node.status}"
    text = f"{node.node} is held by {held.by} {held.name}"
    if held.by != "breaker":
        return text
    text += f", which opened {(datetime.now(UTC) - held.since).total_seconds():.0f} s ago"
    breaker = next((one for one in await client.breakers() if one.name == held.name), None)
    reason = f": {breaker.reason}" if breaker is not None and breaker.reason else ""
    errors = [one.error for one in await client.attempts(job_id, node=node.node) if one.error is not None]
    last = f"; the last error is {errors[-1].code}: {errors[-1].message}" if errors else ""
    return f"{text}{reason}{last}"


def prepared(workflow: AnyWorkflow, handlers: Handlers, settings: Settings) -> tuple[Definition, Registry]:
    """The definition of a workflow, and the handlers that are there for it.

    Installed handlers come first, then those of the modules that the caller names or else the settings, then those of
    the workflow's file and functions, then the caller's functions; the last one of a name wins.
    """
    modules, functions = _split(handlers)
    sources = [_installed()]
    if modules:
        sources.append(discover(modules, entry_points_too=False))
    elif settings.handlers:
        sources.append(discover(settings.handlers, folder=settings.handlers_folder, entry_points_too=False))
    more: list[Handler] = []
    source = None
    if isinstance(workflow, Definition):
        definition = workflow
    elif isinstance(workflow, Workflow):
        definition = workflow.definition()
        more += [described(function) for function in workflow.handlers.values()]
    else:
        loaded = load_workflow(workflow)
        sources.append(Registry())
        loaded.add_handlers_to(sources[-1])
        definition, source = loaded.definition, loaded.source
    if isinstance(functions, Mapping):
        more += [describe(function, name) for name, function in functions.items()]
    else:
        more += [described(function) for function in functions]
    registry = Registry([*(handler for source in sources for handler in source), *more])
    homes = {sys.modules[one.function.__module__] for one in more if one.function.__module__ in sys.modules}
    declared = [code for home in homes for code in codes_in(home)]
    registry.codes = {one.code: one for one in [*(c for s in sources for c in s.codes.values()), *declared]}
    _refuse_unknown_handlers(definition, registry)
    refuse_unfit(definition, registry, source)
    return definition, registry


@cache
def _installed() -> Registry:
    """The installed handlers, looked up once: a search for entry points reads the metadata of every package."""
    return discover()


def described(function: Callable[..., Any]) -> Handler:
    """A decorated function under its own name; a plain one under the function's."""
    handler = getattr(function, ATTRIBUTE, None)
    return handler if isinstance(handler, Handler) else describe(function, function.__name__)


def _refuse_unknown_handlers(definition: Definition, registry: Registry) -> None:
    needed = {task.handler: node.name for node in definition.nodes for task in node.tasks}
    problems = [
        Detail(f"There is no handler '{name}'.", path=f"nodes.{node}", suggestion=did_you_mean(name, registry.names))
        for name, node in needed.items()
        if name not in registry
    ]
    if problems:
        raise InvalidInput(
            f"The workflow {definition.workflow_id} needs handlers that are missing: "
            f"{' '.join(str(problem) for problem in problems)}",
            errors=problems,
            remedy="Give them with handlers=[…].",
        )


@contextmanager
def streams_kept() -> Iterator[None]:
    """Restore stdout and stderr for the caller: a worker replaces them to capture what handlers print."""
    before = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _split(handlers: Handlers) -> tuple[list[str], Mapping[str, Callable[..., Any]] | list[Callable[..., Any]]]:
    """The names of modules, and the functions."""
    if isinstance(handlers, Mapping):
        return [], handlers
    listed = list(handlers)
    return [one for one in listed if isinstance(one, str)], [one for one in listed if not isinstance(one, str)]


def _failure(job: Job, modules: list[str]) -> JobFailed:
    name, error = job.job_id[-SHORT_ID:], job.error
    where = f" in {error.node}" if error is not None and error.node is not None else ""
    why = f": {error.code}: {error.message}" if error is not None else ""
    remedy = f"See why with: holdfast why {name}"
    best = next(iter(job.outcome.recovery), None)
    if best is not None:
        flags = "".join(f" --handlers {shlex.quote(module)}" for module in modules)
        remedy += f". Continue it with: holdfast {best.words(name)}{flags}"
    was = "was cancelled" if job.status == "cancelled" else "failed"
    return JobFailed(f"Job {job.job_id} of {job.workflow_id} {was}{where}{why}", remedy=remedy, job=job)


def _modules_of(workflow: AnyWorkflow, handlers: Handlers) -> list[str]:
    """What --handlers must name so that another process has the handlers of this call."""
    modules, functions = _split(handlers)
    passed = [*functions.values()] if isinstance(functions, Mapping) else functions
    used = [*workflow.handlers.values()] if isinstance(workflow, Workflow) else []
    main = getattr(sys.modules["__main__"], "__file__", None)
    names = {"__main__": Path(main).name if main is not None else "MODULE"}
    return list(dict.fromkeys([*modules, *(names.get(one.__module__, one.__module__) for one in [*passed, *used])]))
