"""Attempts in processes, seen from the worker: it sends the task, answers questions, and receives the report."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from holdfast.define.registry import Handler, Registry
from holdfast.embedded.cluster import OUTSIDE
from holdfast.errors import Permanent
from holdfast.masking import without_task_secrets
from holdfast.store.payloads import AttemptObjects, Payloads, is_remote
from holdfast.worker.context import Attempt, HandlerServices
from holdfast.worker.frames import frame
from holdfast.worker.messages import Malformed, Message, Received, SentProgress, SentRecord, next_message
from holdfast.worker.processes import KILL_PATIENCE_SECONDS, NotStarted, Process, Processes
from holdfast.worker.values import (
    CHECKPOINT_BYTES,
    CHECKPOINT_NAME_BYTES,
    check_name,
    checked,
    progress,
    storable,
)

LOOK_SECONDS = 0.1


class CannotBeIsolated(Exception):
    """Another process could not import the handler."""


class ProcessDied(Exception):
    """A handler's process ended without a report. `died_in_own_process`: only the handler can be the reason."""

    def __init__(self, message: str, *, died_in_own_process: bool) -> None:
        super().__init__(message)
        self.died_in_own_process = died_in_own_process


class Isolation:
    """Runs the attempts of one worker that need a process."""

    def __init__(
        self, registry: Registry, services: HandlerServices, payloads: Payloads, secrets_dir: Path | None = None
    ) -> None:
        self._registry = registry
        self._services = services
        self._payloads = payloads
        # What no handler without a network may read.
        folders = (services.workplace.home, OUTSIDE, secrets_dir)
        self._closed = [str(folder) for folder in folders if folder is not None]
        self._processes = Processes(registry)

    async def run(self, handler: Handler, attempt: Attempt) -> Received:
        """The report of the attempt's process. When this returns or raises, the attempt no longer runs."""
        place = self._registry.place(handler)
        if place is None:
            raise CannotBeIsolated(_not_importable(handler))
        # The process may make its working directory without our knowledge, so we always remove it.
        attempt.has_workdir = True
        while True:
            async with self._processes.lent(handler, attempt) as process:
                attempt.require_lease("the beginning")
                process.writer.write(frame(self._task(process, attempt, *place)))
                answer = await self._attend(process, attempt)
                process.is_fit = answer is not None and answer.message.is_fit
            if answer is not None:
                return answer
            # A process that died while it waited says nothing about this attempt: take another one.
            if process.has_begun or process.attempts == 1:
                raise _death(process)

    async def end(self) -> None:
        """Interrupt every attempt and wait until their processes are gone."""
        await self._processes.end()

    def close(self) -> None:
        self._processes.close()

    async def _attend(self, process: Process, attempt: Attempt) -> Received | None:
        """Serve the process until it reports or dies; None if it died."""
        serving = asyncio.create_task(self._serve(process, attempt))
        either: set[asyncio.Future[Any]] = {serving, process.ended}
        cancel_sent = False
        try:
            while not serving.done() and not process.ended.done():
                await asyncio.wait(either, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if attempt.cancelled and not cancel_sent:
                    process.writer.write(frame({"cancelled": True}))
                    cancel_sent = True
            # Messages that it sent just before its end may still be in the channel.
            await asyncio.wait({serving}, timeout=KILL_PATIENCE_SECONDS)
            return serving.result() if serving.done() else None
        finally:
            serving.cancel()

    async def _serve(self, process: Process, attempt: Attempt) -> Received | None:
        """Answer what the process asks, up to its report; None if it ends without one."""
        while (
            received := await next_message(process.reader, self._payloads.limit_bytes)
        ) is not None and not received.is_report:
            message = received.message
            if message.progress is not None:
                attempt.progress = _progress(message.progress)
            elif message.begun is not None:
                process.has_begun = True
            elif message.record is not None:
                _log(attempt, message.record)
            else:
                process.writer.write(frame(await self._answer(attempt, message)))
                try:
                    # A process that asks and never reads must not fill our memory with answers.
                    await process.writer.drain()
                except ConnectionError:
                    return None
        return received

    async def _answer(self, attempt: Attempt, question: Message) -> dict[str, Any]:
        """The answer, or the problem, which is raised in the handler as it would be in a thread."""
        try:
            return {"answer": await self._result_of(attempt, question), "problem": None}
        except Malformed:
            raise
        except Exception as problem:
            return {"answer": None, "problem": storable(f"{type(problem).__name__}: {problem}")}

    async def _result_of(self, attempt: Attempt, question: Message) -> Any:
        job_id, objects = attempt.lease.job_id, self._services.objects
        if question.checkpoint is not None:
            return await self._checkpoint(attempt, question.seq, question.checkpoint, question.data.encode())
        if question.results is not None:
            return await self._results(job_id, question.results, question.range)
        if question.breaker is not None:
            breaker = await self._services.breaker(attempt.facts.tenant, question.breaker)
            return breaker.to_json() if breaker is not None else None
        folder = self._services.workplace.of(attempt.lease)
        if question.store is not None:
            attempt.require_lease("an artifact")
            return await asyncio.to_thread(_store, objects, job_id, folder, question.store)
        if question.fetch is not None:
            return await asyncio.to_thread(_fetch, objects, job_id, question.fetch, folder, question.into)
        raise Malformed("sent neither a question nor a report")

    async def _checkpoint(self, attempt: Attempt, seq: int, name: str, data: bytes) -> bool:
        check_name("a checkpoint", name, CHECKPOINT_NAME_BYTES)
        saved = await self._services.save(attempt.lease, seq, name, checked(data, CHECKPOINT_BYTES))
        if not saved:
            attempt.cancelled = attempt.lost = True
        return saved

    async def _results(
        self, job_id: str, node: str, pages: tuple[int, int, int]
    ) -> list[tuple[int, str | None, str | None]] | None:
        """A page as it goes through the channel; the process reads large outputs itself."""
        page = await self._services.pages(job_id, node, *pages)
        if page is None:
            return None
        return [(r.item, r.output.decode() if r.output is not None else None, r.output_ref) for r in page]

    def _task(self, process: Process, attempt: Attempt, module: str, path: str) -> dict[str, Any]:
        lease = attempt.lease if attempt.filled is None else attempt.lease._replace(params=attempt.filled)
        return {
            "number": process.attempts,
            "memory_mb": process.handler.memory_mb,
            "module": module,
            "path": path,
            "lease": list(lease),
            "secrets": list(attempt.values),
            "generation": attempt.facts.generation,
            "inputs": attempt.facts.inputs,
            "marks": {
                "correlation_id": attempt.facts.correlation_id,
                "external_ids": attempt.facts.external_ids,
                "traceparent": attempt.span.traceparent if attempt.span is not None else attempt.facts.traceparent,
            },
            "objects": self._payloads.objects.place if not is_remote(self._payloads.objects.place) else None,
            "limit_bytes": self._payloads.limit_bytes,
            "workplace": self._services.workplace.own_or_none(),
            "network": process.handler.network,
            "closed": self._closed,
            "database_url": self._services.database_url if process.handler.database else None,
            "level": logging.getLogger(f"holdfast.handler.{attempt.lease.handler}").getEffectiveLevel(),
        }


def _store(objects: AttemptObjects, job_id: str, folder: Path, name: str) -> tuple[str, int]:
    """Store a file of the attempt's working directory and no other: the worker may read more than the process."""
    with _entered(folder, name) as entered, _opened(entered, name, os.O_RDONLY | os.O_NONBLOCK) as file:
        return objects.write_file(job_id, file)


def _fetch(objects: AttemptObjects, job_id: str, digest: str, folder: Path, name: str) -> None:
    """Write an object of the job into a new file of the attempt's working directory and nowhere else."""
    if re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise ValueError(f"{digest[:100]!r} is not a digest")
    with _entered(folder, name) as entered, _opened(entered, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        try:
            objects.read_file(job_id, digest, file)
        except BaseException:
            os.unlink(name, dir_fd=entered)
            raise


@contextmanager
def _entered(folder: Path, name: str) -> Iterator[int]:
    if name != PurePath(name).name or name == "..":
        raise ValueError(f"{name[:100]!r} is not a file of the working directory")
    entered = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield entered
    finally:
        os.close(entered)


@contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[Path]:
    """A path that leads to this very file, even if another file or a link replaces it meanwhile."""
    file = os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError(f"{name[:100]!r} is not a file")
        yield Path(f"/dev/fd/{file}")
    finally:
        os.close(file)


def _progress(sent: SentProgress) -> dict[str, Any]:
    try:
        return progress(sent.done, sent.total, sent.text)
    except Permanent as problem:
        raise Malformed(f"sent progress that cannot be shown: {problem}") from None


def _log(attempt: Attempt, sent: SentRecord) -> None:
    """Log a record as a logger of that name would. None is made, because loggers are never removed."""
    logger = logging.getLogger(f"holdfast.handler.{attempt.lease.handler}")
    if logger.isEnabledFor(sent.level):
        text = without_task_secrets(sent.text)
        record = logger.makeRecord(without_task_secrets(sent.name), sent.level, "", 0, "%s", (text,), None)
        record.attempt_fields = attempt.log_fields()
        logger.handle(record)


def _death(process: Process) -> Exception:
    """Why the process ended without a report."""
    status = process.ended.result() if process.ended.done() else None
    if process.start_problem is not None:
        return NotStarted(f"no process could be started for it: {os.strerror(process.start_problem)}")
    if process.used_mb and process.handler.memory_mb:
        message = f"the handler's process used {process.used_mb} MB, more than its {process.handler.memory_mb} MB"
        return ProcessDied(message, died_in_own_process=True)
    if status is None:
        return ProcessDied(
            "the process that starts handlers was killed, and the handler's process with it", died_in_own_process=False
        )
    if status >= 0:
        return ProcessDied(
            f"the handler's process exited with status {status} without a result", died_in_own_process=True
        )
    message = f"the handler's process was killed by signal {-status} ({_signal_name(-status)})"
    if -status == signal.SIGKILL:
        message += "; the machine may have run out of memory"
    return ProcessDied(message, died_in_own_process=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _not_importable(handler: Handler) -> str:
    function = handler.function
    where = f"{function.__module__}.{getattr(function, '__qualname__', function)}"
    return (
        f"handler {handler.name} asks for a process of its own, but no other process can import {where}:"
        " define it at the top level of a module"
    )
