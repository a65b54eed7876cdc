"""The channel between a handler's process and its worker, seen from the process.

Tasks and cancels come through it. Checkpoints, progress, log records, questions and the report go to the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import selectors
import shutil
import signal
import socket
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import orjson

from holdfast.store.records import ItemResult, Lease, Report
from holdfast.worker.capture import logged_text
from holdfast.worker.context import Attempt
from holdfast.worker.dependencies import SeenBreaker
from holdfast.worker.frames import frame, receive
from holdfast.worker.values import storable, word

LOOK_SECONDS = 0.1
"""How often the progress goes to the worker."""
RECORD_LIMIT = 65_000
"""How much of a log record goes to the worker, in characters: a little less than the worker writes of one."""


class NotAnswered(Exception):
    """The worker could not do what the process asked for; the message says why."""


class WorkerLink:
    """The handler's thread sends and waits for answers; a thread of the link receives."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._questions: deque[Future[Any]] = deque()
        self._tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._attempt: Attempt | None = None

    def first_task(self) -> dict[str, Any] | None:
        """The first task, before the link has a thread; None if the worker has ended. `next_task` returns it too."""
        task = receive(self._channel)
        if task is not None:
            self._tasks.put(task)
        return task

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that runs now."""
        return self._attempt

    def next_task(self) -> dict[str, Any]:
        task = self._tasks.get()
        if task["number"] == 1:
            self._forward_logs(task["level"])
        return task

    def begin(self, attempt: Attempt) -> None:
        """Say that the attempt has begun; from now on its progress goes to the worker."""
        with self._sending:
            self._attempt = attempt
            self._channel.sendall(frame({"begun": True}))

    def report(self, report: Report | None, *, is_fit: bool) -> None:
        """Send the report; None: the lease is lost. `is_fit`: the process can run another attempt."""
        message, output = None, b""
        if report is not None:
            data = orjson.loads(report.data) if report.data is not None else {}
            size = len(report.output) if report.output is not None else None
            message = {"outcome": report.outcome, "data": data, "output_bytes": size}
            output = report.output or b""
        with self._sending:
            # From now on the channel belongs to the next attempt: nothing of this one may come after its report.
            self._attempt = None
            self._channel.sendall(frame({"report": message, "is_fit": is_fit}) + output)

    def send(self, message: dict[str, Any]) -> None:
        body = frame(message)
        with self._sending:
            self._channel.sendall(body)

    def listen(self) -> threading.Thread:
        thread = threading.Thread(target=self._listen, name="holdfast channel", daemon=True)
        thread.start()
        return thread

    def _listen(self) -> None:
        """Receive messages and send progress. When the worker has ended, kill this process and all that it started."""
        selector = selectors.DefaultSelector()
        selector.register(self._channel, selectors.EVENT_READ)
        try:
            while True:
                if selector.select(LOOK_SECONDS):
                    message = receive(self._channel)
                    if message is None:
                        break
                    self._handle(message)
                self._send_progress()
        finally:
            os.killpg(0, signal.SIGKILL)

    def _send_progress(self) -> None:
        with self._sending:
            attempt = self._attempt
            if attempt is not None and attempt.progress is not attempt.progress_sent:
                attempt.progress_sent = attempt.progress
                self._channel.sendall(frame({"progress": attempt.progress_sent}))

    def _handle(self, message: dict[str, Any]) -> None:
        if "lease" in message:
            self._tasks.put(message)
            return
        if "cancelled" in message:
            # It may arrive when its attempt has just ended; the task of the next attempt arrives after it.
            if self._attempt is not None:
                self._attempt.cancelled = True
            return
        answer = self._questions.popleft()
        if not answer.set_running_or_notify_cancel():
            return
        if message["problem"] is not None:
            answer.set_exception(NotAnswered(message["problem"]))
        else:
            answer.set_result(message["answer"])

    def _ask(self, message: dict[str, Any]) -> Future[Any]:
        """Answers arrive in the order of the questions."""
        answer: Future[Any] = Future()
        question = frame(message)
        with self._sending:
            self._questions.append(answer)
            self._channel.sendall(question)
        return answer

    def answer_to(self, message: dict[str, Any]) -> Any:
        return self._ask(message).result()

    async def save(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        return bool(await asyncio.wrap_future(self._ask(_checkpoint(seq, name, data))))

    async def save_and_wait(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        return bool(self.answer_to(_checkpoint(seq, name, data)))

    async def page(self, job_id: str, node: str, after: int, until: int, limit: int) -> Sequence[ItemResult] | None:
        question = {"results": node, "range": (after, until, limit)}
        return _page(await asyncio.wrap_future(self._ask(question)))

    async def page_and_wait(
        self, job_id: str, node: str, after: int, until: int, limit: int
    ) -> Sequence[ItemResult] | None:
        return _page(self.answer_to({"results": node, "range": (after, until, limit)}))

    async def breaker(self, tenant: str, name: str) -> SeenBreaker | None:
        return SeenBreaker.from_json(await asyncio.wrap_future(self._ask({"breaker": name})))

    async def breaker_and_wait(self, tenant: str, name: str) -> SeenBreaker | None:
        return SeenBreaker.from_json(self.answer_to({"breaker": name}))

    def _forward_logs(self, level: int) -> None:
        """Log records go to the attempt, and where those of the worker go."""
        root = logging.getLogger()
        root.addHandler(_Forward(self))
        root.setLevel(level)


class ObjectsThroughWorker:
    """The objects of the attempt's own job, read and written by the worker, which has the keys to them."""

    def __init__(self, link: WorkerLink, folder: Path) -> None:
        """The worker reads and writes files of this folder only, each by its bare name."""
        self._link = link
        self._folder = folder

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with self._exchanged_file() as place:
            try:
                os.link(file, place)
            except OSError:
                shutil.copyfile(file, place)
            digest, size = self._link.answer_to({"store": place.name})
        return digest, size

    def read(self, job_id: str, digest: str) -> bytes:
        with self._exchanged_file() as place:
            self._link.answer_to({"fetch": digest, "into": place.name})
            return place.read_bytes()

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        with self._exchanged_file() as place:
            self._link.answer_to({"fetch": digest, "into": place.name})
            shutil.move(place, target)

    @contextlib.contextmanager
    def _exchanged_file(self) -> Iterator[Path]:
        """The path of a file that goes to the worker or comes from it; it is removed afterwards."""
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / f".passing-{uuid.uuid4().hex}"
        try:
            yield place
        finally:
            place.unlink(missing_ok=True)


def _checkpoint(seq: int, name: str, data: bytes) -> dict[str, Any]:
    return {"checkpoint": name, "seq": seq, "data": data.decode()}


def _page(rows: list[tuple[int, str | None, str | None]] | None) -> Sequence[ItemResult] | None:
    if rows is None:
        return None
    return [ItemResult(item, text.encode() if text is not None else None, digest) for item, text, digest in rows]


class _Forward(logging.Handler):
    def __init__(self, link: WorkerLink) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            attempt = self._link.attempt
            if attempt is not None:
                attempt.write(storable(logged_text(record), RECORD_LIMIT))
            text = storable(self.format(record), RECORD_LIMIT)
            level = max(0, min(record.levelno, logging.CRITICAL))
            self._link.send({"record": {"name": word(record.name) or "root", "level": level, "text": text}})
        except Exception:
            self.handleError(record)
