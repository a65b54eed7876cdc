"""Run a workflow inside your own test, against a real Postgres that needs no set-up.

    from holdfast.testing import run_workflow

    def test_all_words_are_counted():
        job = run_workflow("workflow.yaml", {"texts": ["one two"]}, handlers=[prepare, count_words])
        assert job.status == "completed"
        assert job.result == {"words": 2}

The first call starts a Postgres in a temporary directory, which takes a few seconds; it ends with the process.
Later calls take about a tenth of a second.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from holdfast.bootstrap import Services, open_payloads
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.load import load_file
from holdfast.define.node import Node, TaskSpec
from holdfast.define.registry import ATTRIBUTE, Handler, Registry, describe, discover
from holdfast.define.retry import Backoff, Jitter
from holdfast.define.source import did_you_mean
from holdfast.define.workflow import Workflow
from holdfast.embedded.server import EmbeddedPostgres
from holdfast.errors import Detail, InvalidInput
from holdfast.settings import Settings, load_settings
from holdfast.store.migrate import ensure_schema
from holdfast.store.postgres import PostgresStore
from holdfast.store.scratch import create_scratch, drop_scratch
from holdfast.views.encoding import to_json

Handlers = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]

GRACE_SECONDS = 1.0
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that has ended: its status and result, its nodes by name, their outputs, and its events."""

    job_id: str
    status: str
    result: Any
    error: dict[str, Any] | None
    nodes: dict[str, dict[str, Any]]
    outputs: dict[str, Any]
    events: list[dict[str, Any]]


def run_workflow(
    workflow: Definition | Workflow | Path | str,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers = (),
    timeout: float = 30.0,
    instant_retries: bool = True,
    concurrency: int = 16,
    database_url: str | None = None,
) -> JobResult:
    """Run a workflow to its end; a failed job is a result, not an exception.

    `handlers` are added to the installed handlers, and replace installed ones of the same name, so that a test can
    use stand-ins. With `instant_retries`, failed attempts are tried again at once; a `RetryAfter` still waits. If the
    job does not end within `timeout` seconds, TimeoutError is raised.
    """
    return asyncio.run(
        run_workflow_async(
            workflow,
            inputs,
            handlers=handlers,
            timeout=timeout,
            instant_retries=instant_retries,
            concurrency=concurrency,
            database_url=database_url,
        )
    )


async def run_workflow_async(
    workflow: Definition | Workflow | Path | str,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers = (),
    timeout: float = 30.0,
    instant_retries: bool = True,
    concurrency: int = 16,
    database_url: str | None = None,
) -> JobResult:
    """Like `run_workflow`, for tests that are coroutines."""
    definition = _definition(workflow)
    registry = _registry(workflow, handlers)
    _refuse_unknown_handlers(definition, registry)
    if instant_retries:
        definition = _without_delays(definition)
    async with _database(database_url) as url:
        with tempfile.TemporaryDirectory(prefix="holdfast-testing-") as home, _streams_kept():
            settings = load_settings(
                database_url=url, home=Path(home), grace_seconds=GRACE_SECONDS, concurrency=concurrency
            )
            return await _run(settings, definition, registry, dict(inputs or {}), timeout)


async def _run(
    settings: Settings, definition: Definition, registry: Registry, inputs: dict[str, Any], timeout: float
) -> JobResult:
    assert settings.database_url is not None
    store = PostgresStore(settings.database_url, "holdfast testing", payloads=open_payloads(settings))
    client = Client(store)
    finished = asyncio.Event()
    try:
        # One job needs no second orchestrator, and opening connections takes most of the time.
        async with Services(
            settings.database_url,
            settings,
            registry=registry,
            on_finished=lambda job_id: finished.set(),
            desks=1,
            store=store,
        ):
            job_id = (await client.submit(definition, inputs, key=f"test {uuid.uuid4()}")).job_id
            try:
                await asyncio.wait_for(_until_over(client, job_id, finished), timeout)
            except TimeoutError:
                raise TimeoutError(await _where_it_is(client, job_id, timeout)) from None
        return await _result(client, job_id)
    finally:
        await store.close()


async def _until_over(client: Client, job_id: str, finished: asyncio.Event) -> None:
    """The orchestrator here says when it ends; another one may drive it in a shared database.

    The first read comes at once: it opens its connection while the services open theirs.
    """
    while not (await client.job(job_id, whole=False)).is_terminal:
        with suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), LOOK_SECONDS)
        finished.clear()


async def _where_it_is(client: Client, job_id: str, timeout: float) -> str:
    job = await client.job(job_id, whole=False)
    open_nodes = [f"{node.node} is {node.status}" for node in job.nodes if node.finished_at is None]
    return f"the workflow {job.workflow_id} did not end within {timeout:g} s: {', '.join(open_nodes)}"


async def _result(client: Client, job_id: str) -> JobResult:
    status = to_json(await client.job(job_id))
    return JobResult(
        job_id=job_id,
        status=status["status"],
        result=status["result"],
        error=status["error"],
        nodes={node["node"]: node for node in status["nodes"]},
        outputs=await client.outputs(job_id),
        events=[to_json(event) async for event in client.events(job_id)],
    )


def _definition(workflow: Definition | Workflow | Path | str) -> Definition:
    if isinstance(workflow, Definition):
        return workflow
    return workflow.definition() if isinstance(workflow, Workflow) else load_file(workflow)


def _registry(workflow: Definition | Workflow | Path | str, handlers: Handlers) -> Registry:
    """Installed handlers, then those of the workflow's own functions, then those of the caller; the last one wins."""
    installed = _installed()
    known = [handler for name in installed.names if (handler := installed.get(name)) is not None]
    if isinstance(workflow, Workflow):
        known += [_described(function) for function in workflow.handlers.values()]
    if isinstance(handlers, Mapping):
        known += [describe(function, name) for name, function in handlers.items()]
    else:
        known += [_described(function) for function in handlers]
    return Registry(known)


@cache
def _installed() -> Registry:
    """The installed handlers, looked up once: a search for entry points reads the metadata of every package."""
    return discover()


def _described(function: Callable[..., Any]) -> Handler:
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
            f"The workflow {definition.workflow_id} needs handlers that are missing: {_listed(problems)}",
            errors=problems,
            remedy="Give them with handlers=[…].",
        )


def _listed(problems: list[Detail]) -> str:
    return " ".join(str(problem) for problem in problems)


def _without_delays(definition: Definition) -> Definition:
    return replace(definition, nodes=tuple(_node_without_delays(node) for node in definition.nodes))


def _node_without_delays(node: Node) -> Node:
    if node.batches is not None:
        node = replace(node, batches=replace(node.batches, task=_task_without_delays(node.batches.task)))
    return replace(node, task=_task_without_delays(node.task)) if node.task is not None else node


def _task_without_delays(task: TaskSpec) -> TaskSpec:
    at_once = replace(
        task.retry,
        backoff=Backoff.FIXED,
        initial_delay_seconds=0.0,
        max_delay_seconds=0.0,
        jitter=Jitter.NONE,
        schedule=(),
    )
    return replace(task, retry=at_once)


@contextmanager
def _streams_kept() -> Iterator[None]:
    """Restore stdout and stderr for the test runner: a worker replaces them to capture what handlers print."""
    before = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@asynccontextmanager
async def _database(url: str | None) -> AsyncIterator[str]:
    """The named database, or one of ours: used again unless its job raised, then dropped."""
    if url is not None:
        await ensure_schema(url, create=True, upgrade=True)
        yield url
        return
    server = _server.url()
    free = _server.take() or await create_scratch(server)
    try:
        yield free
    except BaseException:
        await drop_scratch(server, free)
        raise
    _server.give_back(free)


class _Server:
    """One Postgres for this process, started at the first use, and its free databases."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._url: str | None = None
        self._free: list[str] = []

    def url(self) -> str:
        with self._lock:
            if self._url is None:
                home = Path(tempfile.mkdtemp(prefix="holdfast-testing-"))
                postgres = EmbeddedPostgres(home)
                self._url = postgres.enter()
                atexit.register(_end, postgres, home)
            return self._url

    def take(self) -> str | None:
        with self._lock:
            return self._free.pop() if self._free else None

    def give_back(self, url: str) -> None:
        with self._lock:
            self._free.append(url)


def _end(postgres: EmbeddedPostgres, home: Path) -> None:
    """Stop the server and delete its folder. The folder is renamed first, so that the watchdog cannot create lock files
    in it during the deletion."""
    postgres.leave()
    shutil.rmtree(home.rename(home.with_name(f"{home.name}-ended")), ignore_errors=True)


_server = _Server()
