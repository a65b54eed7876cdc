"""Services on a test's database: submit a workflow, wait for its end, and read its state."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from holdfast.assembly import new_services, new_worker_over_http
from holdfast.bootstrap import open_payloads
from holdfast.client import Client
from holdfast.core.states import JOB_TERMINAL
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.registry import Registry, describe, discover
from holdfast.services import Services
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import PostgresReadStore
from holdfast.views.encoding import to_json
from holdfast.views.history import event_view
from holdfast.views.jobs import job_view
from holdfast.worker import builtin
from tests import sources
from tests.conftest import eventually

HOME = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
"""The directory for large values and working directories of this test process."""
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

QUICK: dict[str, Any] = {"grace_seconds": 1.0, "poll_seconds": 0.5, "home": HOME}
SHORT_LEASES: dict[str, Any] = QUICK | {
    "lease_seconds": 1.0,
    "renew_seconds": 0.2,
    "owner_lease_seconds": 1.0,
    "owner_renew_seconds": 0.2,
    "owner_scan_seconds": 0.2,
}


def registry(**handlers: Callable[..., Any]) -> Registry:
    """The built-in handlers, and these functions under their names."""
    known = Registry()
    known.add_module(builtin)
    for name, function in handlers.items():
        known.add(describe(function, name))
    return known


class Engine:
    """One database, as a client sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = PostgresStore(url, "holdfast test")
        self.client = Client(self.store)
        self.reader = PostgresReadStore(self.store.connections, open_payloads(Settings(home=HOME)))

    async def submit(
        self, workflow: str | Definition, inputs: Mapping[str, Any] | None = None, key: str | None = None
    ) -> str:
        definition = load_text(workflow) if isinstance(workflow, str) else workflow
        return (await self.client.submit(definition, inputs, key=key)).job_id

    async def finished(self, job_id: str, seconds: float = 60.0) -> dict[str, Any]:
        """The status object of the job once it has ended."""

        async def has_ended() -> bool:
            return (await self.reader.snapshot(job_id, whole=False)).job.status in JOB_TERMINAL

        await eventually(has_ended, seconds)
        return await self.status(job_id)

    async def run(self, workflow: str | Definition, inputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await self.finished(await self.submit(workflow, inputs))

    async def status(self, job_id: str) -> dict[str, Any]:
        status: dict[str, Any] = to_json(job_view(await self.reader.snapshot(job_id)))
        return status

    async def node(self, job_id: str, name: str) -> dict[str, Any]:
        return nodes(await self.status(job_id))[name]

    async def events(self, job_id: str) -> list[dict[str, Any]]:
        return [to_json(event_view(event)) async for event in self.reader.events(job_id)]

    async def outputs(self, job_id: str) -> dict[str, Any]:
        return await self.reader.outputs(job_id)

    async def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async with self.store.connections.use("test") as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []


def nodes(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["node"]: node for node in status["nodes"]}


def statuses(status: dict[str, Any]) -> dict[str, str]:
    return {node["node"]: node["status"] for node in status["nodes"]}


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Engine]:
    engine = Engine(url)
    try:
        yield engine
    finally:
        await engine.store.close()


@asynccontextmanager
async def serving(
    url: str,
    handlers: Registry | None = None,
    *,
    orchestrate: bool = True,
    work: bool = True,
    concurrency: int | None = None,
    **settings: Any,
) -> AsyncIterator[Services]:
    """An orchestrator and a worker that run for the duration of the block. In the tests that run over both sources,
    the worker is once at the database, and once over HTTP."""
    chosen = Settings(database_url=url, **(QUICK | settings))
    known = (handlers or discover()) if work else None
    async with AsyncExitStack() as stack:
        stack.enter_context(streams_kept())
        if known is not None and sources.kind == sources.HTTP:
            if orchestrate:
                await stack.enter_async_context(new_services(url, chosen, orchestrate=True))
            services = await stack.enter_async_context(_over_http(url, chosen, known, concurrency))
        else:
            made = new_services(url, chosen, registry=known, orchestrate=orchestrate, concurrency=concurrency)
            services = await stack.enter_async_context(made)
        yield services


@asynccontextmanager
async def _over_http(
    url: str, settings: Settings, handlers: Registry, concurrency: int | None
) -> AsyncIterator[Services]:
    """A worker without a database, and the service from which it gets its tasks."""
    # Imported late: it stands on this module.
    from tests.service.serving import serving_http

    own = {"payload_inline_bytes": settings.payload_inline_bytes}
    async with serving_http(url, **own) as service:
        key = await service.admin.add_key("worker", roles=["admin"], tenant="*")
        worker = new_worker_over_http(service.url, key.key, settings, handlers, concurrency=concurrency)
        async with worker as services:
            yield services


@asynccontextmanager
async def running(url: str, handlers: Registry | None = None, **settings: Any) -> AsyncIterator[Engine]:
    """The services, and a client for them."""
    async with client_of(url) as engine, serving(url, handlers, **settings):
        yield engine


@contextmanager
def streams_kept() -> Iterator[None]:
    """Restore stdout and stderr, which a worker replaces, for the test runner."""
    before = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
