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
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from holdfast.assembly import new_services
from holdfast.bootstrap import open_payloads
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.define.node import Node, TaskSpec
from holdfast.define.registry import Registry
from holdfast.define.retry import Backoff, Jitter
from holdfast.embedded import watchdog
from holdfast.embedded.cluster import place_of_data
from holdfast.embedded.server import EmbeddedPostgres
from holdfast.running import AnyWorkflow, Handlers, prepared, streams_kept, until_over
from holdfast.settings import Settings, load_settings
from holdfast.store.migrate import ensure_schema
from holdfast.store.postgres import PostgresStore
from holdfast.store.scratch import create_scratch, drop_scratch
from holdfast.views.encoding import to_json

GRACE_SECONDS = 1.0
PREFIX = "holdfast-testing-"


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
    workflow: AnyWorkflow,
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
    workflow: AnyWorkflow,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers = (),
    timeout: float = 30.0,
    instant_retries: bool = True,
    concurrency: int = 16,
    database_url: str | None = None,
) -> JobResult:
    """Like `run_workflow`, for tests that are coroutines."""
    definition, registry = prepared(workflow, handlers, load_settings())
    if instant_retries:
        definition = _without_delays(definition)
    async with _database(database_url) as url:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=_server.home) as home, streams_kept():
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
        services = new_services(
            settings.database_url,
            settings,
            registry=registry,
            on_finished=lambda job_id: finished.set(),
            orchestrators=1,
            store=store,
        )
        async with services:
            job_id = (await client.submit(definition, inputs, key=f"test {uuid.uuid4()}")).job_id
            await until_over(client, job_id, services, finished, timeout)
        return await _result(client, job_id)
    finally:
        await store.close()


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


@asynccontextmanager
async def _database(url: str | None) -> AsyncIterator[str]:
    """The named database, or one of ours: used again unless its job raised, then dropped."""
    if url is not None:
        await ensure_schema(url, migrate=True)
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
        self.home: Path | None = None
        """The folder of the server; the folders of jobs lie in it, so that they go with it."""

    def url(self) -> str:
        with self._lock:
            if self._url is None:
                remove_abandoned(Path(tempfile.gettempdir()))
                home = Path(tempfile.mkdtemp(prefix=PREFIX))
                postgres = EmbeddedPostgres(home)
                self._url, self.home = postgres.enter(), home
                atexit.register(_end, postgres, home)
            return self._url

    def take(self) -> str | None:
        with self._lock:
            return self._free.pop() if self._free else None

    def give_back(self, url: str) -> None:
        with self._lock:
            self._free.append(url)


def remove_abandoned(temporary: Path) -> None:
    """Delete the folders of test processes that were killed: they could not do it themselves."""
    for home in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):
            # While a server starts, its process holds this lock; later it holds the lock of users.
            if home.stat().st_uid != os.geteuid() or not (home / "users.lock").exists():
                continue
            lock = watchdog.try_lock(home / "lock")
            if lock is None:
                continue
            try:
                if watchdog.is_free(home / "users.lock") and watchdog.is_free(home / "server.lock"):
                    _remove(home)
            finally:
                watchdog.release(lock)


def _end(postgres: EmbeddedPostgres, home: Path) -> None:
    """Stop the server and delete its folder."""
    postgres.leave()
    _remove(home)


def _remove(home: Path) -> None:
    """The folder is renamed first, so that the watchdog cannot create lock files in it during the deletion."""
    data = place_of_data(home.resolve())
    shutil.rmtree(home.rename(home.with_name(f"{home.name}-ended")), ignore_errors=True)
    if not data.is_relative_to(home.resolve()):
        # As root without user namespaces, the data lie outside, where an unprivileged account can read them.
        shutil.rmtree(data.parent, ignore_errors=True)


_server = _Server()
