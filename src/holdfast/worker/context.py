"""What a handler sees of its attempt. `Context` for plain functions, `AsyncContext` for async ones: the same names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import orjson

from holdfast.store.interface import JobFacts, Lease


class CheckpointStore(Protocol):
    """Where checkpoints go; False: the lease is no longer held."""

    async def __call__(self, lease: Lease, seq: int, name: str, data: bytes) -> bool: ...


class LeaseLost(Exception):
    """The attempt goes on without a lease: nothing that it still does will count."""


@dataclass(slots=True)
class Attempt:
    """One running attempt: shared by the handler, which looks at it, and the worker, which steers it."""

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
    log_lines: list[str] = field(default_factory=list)
    log_size: int = 0
    checkpoint_seq: int = 0
    cancel_running: Callable[[], object] | None = None

    LOG_LIMIT: ClassVar[int] = 64 * 1024

    def write(self, text: str) -> None:
        """Keep what the handler printed, up to a bound; the end of a flood is what gets lost."""
        if self.log_size >= self.LOG_LIMIT:
            return
        kept = text[: self.LOG_LIMIT - self.log_size]
        self.log_lines.append(kept)
        self.log_size += len(kept)
        if self.log_size >= self.LOG_LIMIT:
            self.log_lines.append("\n… the rest was cut off\n")


class _ContextBase:
    __holdfast_context__ = True

    def __init__(self, attempt: Attempt, save: CheckpointStore) -> None:
        self._attempt = attempt
        self._save = save

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
    def cancelled(self) -> bool:
        """True once the job was cancelled, the worker is leaving, or the lease was lost: save and return.

        A handler that has seen it be true and returns None has stopped early: its task is given back, no retry is
        spent, and another worker goes on from the last checkpoint. Whatever else it returns is its result.
        """
        if self._attempt.cancelled:
            self._attempt.saw_cancelled = True
        return self._attempt.cancelled

    @property
    def resume_point(self) -> tuple[str, Any] | None:
        """The last checkpoint that any attempt of this task saved."""
        return self._attempt.lease.resume_point

    def progress(self, done: float, total: float, text: str = "") -> None:
        """Show how far the attempt is; sent with the next heartbeat."""
        progress = {"done": done, "total": total, "text": text.replace("\0", "")}
        # What is not JSON is refused here, where the handler hears of it, and not in the heartbeat.
        orjson.dumps(progress)
        self._attempt.progress = progress

    def log(self, message: str, **fields: Any) -> None:
        """A line in the attempt's log."""
        suffix = " ".join(f"{key}={value}" for key, value in fields.items())
        self._attempt.write(f"{message} {suffix}".rstrip() + "\n")

    async def _checkpoint(self, name: str, data: Any) -> None:
        self._attempt.checkpoint_seq += 1
        saved = await self._save(self._attempt.lease, self._attempt.checkpoint_seq, name, orjson.dumps(data))
        if not saved:
            self._attempt.cancelled = self._attempt.lost = True
            raise LeaseLost(f"checkpoint '{name}' was refused: the lease is no longer held")


class Context(_ContextBase):
    """For handlers that are plain functions; they run in a thread, or in a process of their own."""

    def __init__(
        self, attempt: Attempt, save: CheckpointStore, wait: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        super().__init__(attempt, save)
        self._wait = wait

    def checkpoint(self, name: str, data: Any = None) -> None:
        """Save a point from which the next attempt can go on; returns when it is durable."""
        self._wait(self._checkpoint(name, data))


class AsyncContext(_ContextBase):
    """For handlers that are coroutines; they run on the worker's loop, or on that of their own process."""

    async def checkpoint(self, name: str, data: Any = None) -> None:
        """Save a point from which the next attempt can go on; returns when it is durable."""
        await self._checkpoint(name, data)
