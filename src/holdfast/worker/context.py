"""What a handler sees of its attempt. `Context` for plain functions, `AsyncContext` for async ones: the same names."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

import orjson

from holdfast.define.contract import Contract
from holdfast.define.secrets import SecretParams
from holdfast.errors import Code, Permanent
from holdfast.store.payloads import AttemptObjects
from holdfast.store.records import ItemResult, JobFacts, Lease
from holdfast.tracing import AttemptSpan
from holdfast.worker.dependencies import AsyncGuard, SeenBreaker, SyncGuard
from holdfast.worker.output import Output
from holdfast.worker.values import ARTIFACT_NAME_BYTES, check_name, checkpoint, progress
from holdfast.worker.workdir import Workplace

Answer = TypeVar("Answer")

PAGE_ROWS = 1000
"""How many results are read at a time; a page of large ones has fewer."""
FAR_AWAY = 2**31 - 1


_first_write = threading.Lock()
"""Most attempts print nothing: an output is made with the first text, from whichever thread it comes."""


class CheckpointStore(Protocol):
    """Stores a checkpoint; False: the lease is no longer held."""

    async def __call__(self, lease: Lease, seq: int, name: str, data: bytes) -> bool: ...


class ResultPages(Protocol):
    """Reads a page of another node's results, as `TaskSource.results_page` does."""

    async def __call__(
        self, job_id: str, node: str, after: int, until: int, limit: int
    ) -> Sequence[ItemResult] | None: ...


class BreakerLook(Protocol):
    """Reads a breaker of a tenant; None: there is none of that name."""

    async def __call__(self, tenant: str, name: str) -> SeenBreaker | None: ...


@dataclass(frozen=True, slots=True)
class HandlerServices:
    """What a context calls to serve its handler; all contexts of a process share it."""

    save: CheckpointStore
    pages: ResultPages
    objects: AttemptObjects
    workplace: Workplace
    breaker: BreakerLook
    database_url: str | None
    """None if the handler does not declare that it needs the database."""


class LeaseLost(Exception):
    """The attempt has lost its lease: nothing that it still does will count."""


@dataclass(slots=True)
class Attempt:
    """One running attempt. The handler reads it through its context; the worker sets its marks."""

    lease: Lease
    facts: JobFacts
    started_at: float
    started_monotonic: float
    limit_seconds: float = 0.0
    cancelled: bool = False
    saw_cancelled: bool = False
    lost: bool = False
    timed_out: bool = False
    progress: dict[str, Any] | None = None
    progress_sent: dict[str, Any] | None = None
    checkpoint_seq: int = 0
    task: asyncio.Task[None] | None = None
    """The asyncio task that runs it."""
    cancel_running: Callable[[], object] | None = None
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_workdir: bool = False
    calls: dict[str, list[bool]] = field(default_factory=dict)
    """By breaker, for each call of the dependency: whether it failed."""
    contract: Contract | None = None
    """The schema that its output must match."""
    secrets: SecretParams | None = None
    """Where its params refer to secrets."""
    filled: Any = field(default=None, repr=False)
    """Its params with the values of these secrets, for the handler alone; None: as in the lease."""
    values: Sequence[str] = field(default=(), repr=False)
    """Those values, to mask them."""
    holds_lease: Callable[[], bool] = lambda: True
    """Whether the worker's lease lives, by the worker's own clock."""

    output: Output | None = None
    """What its handler has printed and logged; None: nothing."""
    span: AttemptSpan | None = None
    """Its part of a trace, if it is traced."""

    def log_fields(self) -> dict[str, Any]:
        """The fields by which log lines name this attempt."""
        lease = self.lease
        item = lease.item if lease.item >= 0 else None
        return {
            "job": lease.job_id,
            "node": lease.node,
            "item": item,
            "attempt": lease.attempt,
            "handler": lease.handler,
        }

    def require_lease(self, what: str) -> None:
        """Raise LeaseLost if the lease is gone. Call it before what only the holder of the lease may do."""
        if self.lost or not self.holds_lease():
            self.cancelled = self.lost = True
            raise LeaseLost(f"{what} was refused: the lease is no longer held")

    def write(self, text: str) -> None:
        """Keep what the handler printed, with the time, up to a limit."""
        output = self.output
        if output is None:
            with _first_write:
                output = self.output = self.output or Output(self.started_monotonic)
        output.write(text)


class _ContextBase:
    __holdfast_context__ = True

    def __init__(self, attempt: Attempt, services: HandlerServices) -> None:
        self._attempt = attempt
        self._services = services

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger(f"holdfast.handler.{self._attempt.lease.handler}")

    @property
    def job_id(self) -> str:
        return self._attempt.lease.job_id

    @property
    def node(self) -> str:
        return self._attempt.lease.node

    @property
    def index(self) -> int | None:
        item = self._attempt.lease.item
        return item if item >= 0 else None

    @property
    def attempt(self) -> int:
        return self._attempt.lease.attempt

    @property
    def generation(self) -> int:
        return self._attempt.facts.generation

    @property
    def inputs(self) -> dict[str, Any]:
        return self._attempt.facts.inputs

    @property
    def correlation_id(self) -> str | None:
        """What the caller calls the things of one cause, if the submission said so."""
        return self._attempt.facts.correlation_id

    @property
    def external_ids(self) -> dict[str, str]:
        """The ids that other systems have for the job, by their namespaces."""
        return dict(self._attempt.facts.external_ids or {})

    @property
    def traceparent(self) -> str | None:
        """The place of this attempt in the trace of its job, for the requests that the handler sends."""
        span = self._attempt.span
        return span.traceparent if span is not None else self._attempt.facts.traceparent

    @property
    def cancelled(self) -> bool:
        """True once the job was cancelled, the worker stops, or the lease was lost: save a checkpoint and return.

        A handler that has seen True and returns None has stopped early: its task is given back, no retry is spent,
        and another worker goes on from the last checkpoint. Anything else that it returns is its result.
        """
        if self._attempt.cancelled:
            self._attempt.saw_cancelled = True
        return self._attempt.cancelled

    @property
    def resume_point(self) -> tuple[str, Any] | None:
        """The last checkpoint that any attempt of this task saved."""
        return self._attempt.lease.resume_point

    @property
    def database_url(self) -> str:
        """The engine's database, for an app that keeps tables of its own in it: in another schema than the engine's."""
        url = self._services.database_url
        if url is None:
            name = self._attempt.lease.handler
            raise Permanent(
                f"handler {name} asks for ctx.database_url and does not declare it."
                f" Write: @handler({name!r}, database=True)",
                Code.CONTRACT_VIOLATION,
            )
        return url

    @property
    def workdir(self) -> Path:
        """An empty directory for this attempt only; it is removed when the attempt ends."""
        place = self._services.workplace.of(self._attempt.lease)
        if not self._attempt.has_workdir:
            self._attempt.has_workdir = True
            place.mkdir(parents=True, exist_ok=True)
        return place

    def progress(self, done: float, total: float, text: str = "") -> None:
        """Show how far the attempt is, with the next heartbeat. The text is cut after 1,000 characters."""
        self._attempt.progress = progress(done, total, text)

    def log(self, message: str, **fields: Any) -> None:
        """Write a line into the attempt's log."""
        suffix = " ".join(f"{key}={value}" for key, value in fields.items())
        self._attempt.write(f"{message} {suffix}".rstrip() + "\n")

    async def _checkpoint(self, name: str, data: Any) -> None:
        point = checkpoint(name, data)
        self._attempt.checkpoint_seq += 1
        saved = await self._services.save(self._attempt.lease, self._attempt.checkpoint_seq, name, point)
        if not saved:
            self._attempt.lost = True
            self._attempt.require_lease(f"checkpoint '{name}'")

    async def _look(self, name: str) -> SeenBreaker | None:
        return await self._services.breaker(self._attempt.facts.tenant, name)

    async def _page(self, node: str, after: int, until: int) -> Sequence[ItemResult]:
        page = await self._services.pages(self.job_id, node, after, until, PAGE_ROWS)
        if page is None:
            message = f"node {node} of job {self.job_id} has no results: there is no such node, or it has not ended yet"
            raise Permanent(f"{message}. Ask for a node that comes before {self.node}", Code.CONTRACT_VIOLATION)
        return page

    def _read(self, result: ItemResult) -> Any:
        """One output. A large one is read only now, so that memory holds one of them at a time."""
        if result.output_ref is not None:
            return orjson.loads(self._services.objects.read(self.job_id, result.output_ref))
        return orjson.loads(result.output) if result.output is not None else None

    def _publish(self, path: str | PurePath, name: str | None) -> dict[str, Any]:
        file = self.workdir / path
        chosen = name if name is not None else file.name
        check_name("an artifact", chosen, ARTIFACT_NAME_BYTES)
        self._attempt.require_lease(f"artifact '{chosen}'")
        digest, size = self._services.objects.write_file(self.job_id, file)
        self._attempt.artifacts[chosen] = {"artifact": chosen, "digest": digest, "bytes": size}
        return dict(self._attempt.artifacts[chosen])

    def _fetch(self, reference: Mapping[str, Any]) -> Path:
        try:
            digest, name = str(reference["digest"]), PurePath(str(reference["artifact"])).name
        except (KeyError, TypeError):
            raise ValueError(f"{reference!r} is not a reference that ctx.publish has returned") from None
        target = self.workdir / (name or digest)
        self._services.objects.read_file(self.job_id, digest, target)
        return target


def _range(offset: int, limit: int | None) -> tuple[int, int]:
    """The bounds of a slice, both exclusive; a node's own task is item -1 and belongs to a slice from 0."""
    if offset < 0 or (limit is not None and limit < 0):
        raise ValueError(f"offset and limit must not be negative, but they are offset={offset}, limit={limit}")
    until = FAR_AWAY if limit is None else min(offset + limit, FAR_AWAY)
    return (offset - 1 if offset else -2), until


class Wait(Protocol):
    """Runs a coroutine from a plain function and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, Answer]) -> Answer: ...


class Context(_ContextBase):
    """The context of a handler that is a plain function; it runs in a thread, or in a process of its own."""

    def __init__(self, attempt: Attempt, services: HandlerServices, wait: Wait) -> None:
        super().__init__(attempt, services)
        self._wait = wait

    def checkpoint(self, name: str, data: Any = None) -> None:
        """Save a point from which the next attempt can go on. Returns when it is durable."""
        self._wait(self._checkpoint(name, data))

    def results(self, node: str, offset: int = 0, limit: int | None = None) -> Iterator[Any]:
        """The outputs of a node's completed items in item order, read page by page.

        A slice has the items from `offset` up to, not including, `offset + limit`. Items that failed are left out and
        not replaced by later ones, so a slice never depends on how other items ended.
        """
        after, until = _range(offset, limit)
        while page := self._wait(self._page(node, after, until)):
            for result in page:
                yield self._read(result)
            after = page[-1].item

    def breaker(self, name: str) -> SyncGuard:
        """Put `with ctx.breaker("gateway"):` around each call of that dependency.

        Raises DependencyDown while the breaker is open. The report carries how the calls ended to the breaker.
        """
        return SyncGuard(self._attempt, name, lambda: self._wait(self._look(name)))

    def publish(self, path: str | PurePath, name: str | None = None) -> dict[str, Any]:
        """Store a file, by default under its own name. Returns a reference to put into the output.

        The file becomes visible together with this attempt's result; if the result is rejected, it never does.
        """
        return self._publish(path, name)

    def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Copy a file that an earlier task published into the working directory. Its digest is verified."""
        return self._fetch(reference)


class AsyncContext(_ContextBase):
    """The context of a handler that is a coroutine; it runs on the worker's event loop, or in a process of its own."""

    async def checkpoint(self, name: str, data: Any = None) -> None:
        """Save a point from which the next attempt can go on. Returns when it is durable."""
        await self._checkpoint(name, data)

    async def results(self, node: str, offset: int = 0, limit: int | None = None) -> AsyncIterator[Any]:
        """The outputs of a node's completed items in item order, read page by page: `async for`.

        A slice has the items from `offset` up to, not including, `offset + limit`. Items that failed are left out and
        not replaced by later ones, so a slice never depends on how other items ended.
        """
        after, until = _range(offset, limit)
        while page := await self._page(node, after, until):
            for result in page:
                large = result.output_ref is not None
                yield await asyncio.to_thread(self._read, result) if large else self._read(result)
            after = page[-1].item

    def breaker(self, name: str) -> AsyncGuard:
        """Put `async with ctx.breaker("gateway"):` around each call of that dependency.

        Raises DependencyDown while the breaker is open. The report carries how the calls ended to the breaker.
        """
        return AsyncGuard(self._attempt, name, lambda: self._look(name))

    async def publish(self, path: str | PurePath, name: str | None = None) -> dict[str, Any]:
        """Store a file, by default under its own name. Returns a reference to put into the output.

        The file becomes visible together with this attempt's result; if the result is rejected, it never does.
        """
        return await asyncio.to_thread(self._publish, path, name)

    async def fetch(self, reference: Mapping[str, Any]) -> Path:
        """Copy a file that an earlier task published into the working directory. Its digest is verified."""
        return await asyncio.to_thread(self._fetch, reference)
