"""A handler's process: it gets a task through a channel, runs the handler, tells how that ended, waits for the next.

It connects to no database: checkpoints go through the channel to the worker, which saves them under its lease, and the
results of other nodes come through it. The object store it reads and writes itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import io
import logging
import os
import queue
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

import orjson

from holdfast.core.signals import Outcome
from holdfast.define.registry import ATTRIBUTE, Handler, codes_in, describe, locate
from holdfast.errors import Code
from holdfast.store.interface import ItemResult, JobFacts, Lease, Report
from holdfast.store.payloads import AttemptObjects, open_objects
from holdfast.worker import landlock, network, privileges
from holdfast.worker.context import AsyncContext, Attempt, Context, Means
from holdfast.worker.dependencies import SeenBreaker
from holdfast.worker.execute import arguments, begin, conclude, failed
from holdfast.worker.frames import frame, receive
from holdfast.worker.hiding import show
from holdfast.worker.memory import resident_mb
from holdfast.worker.values import storable, word
from holdfast.worker.workdir import Workplace

LOOK_SECONDS = 0.1
"""How often news of the progress goes to the worker."""
RECORD_LIMIT = 65_000
"""How much of a log record goes to the worker, in characters: a little less than the worker writes of one."""
KILLED_FIRST = "500"
"""Where memory runs out, this process goes before the worker does."""
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36


Answer = TypeVar("Answer")


class NotAnswered(Exception):
    """The worker could not do what it was asked for, for the reason that it gives."""


def live(channel: socket.socket, output: int, parent: int) -> None:
    """Run the attempts that come through the channel, one after the other; what is printed goes to `output`."""
    os.setpgid(0, 0)
    show()
    _die_with(parent)
    # Else the orphans of an attempt that runs would go to the nursery, as if they were left behind.
    adopt_orphans()
    # Handlers rather than SIG_IGN: programs that the handler starts get the default back.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _take_streams(output)
    link = _Link(channel)
    first = link.first_task()
    if first is None:
        return
    # Before there is another thread, which would keep what is taken from this one.
    problem = _confined(first)
    ours, streams = {threading.current_thread(), link.listen()}, (sys.stdout, sys.stderr)
    here = _working_directory()
    while True:
        task, attempt = link.next_task()
        if problem is None:
            report = _run(task, attempt, link)
        else:
            message = f"handler {attempt.lease.handler}: {problem}"
            report = failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)
        _flush()
        is_fit = (
            report is not None
            and report.outcome == Outcome.DONE
            and _is_fit(task["memory_mb"], ours)
            and _working_directory() == here
            and (sys.stdout, sys.stderr) == streams
            and not any(stream.closed for stream in streams)
        )
        link.report(report, is_fit=is_fit)
        if not is_fit:
            return


def _confined(task: dict[str, Any]) -> OSError | None:
    """Take away from this process what its handler shall not have, once and for good; or why that cannot be."""
    if task["network"]:
        return None
    # First: what a module needs when it is imported is its author's matter. Why it cannot be, the attempt will tell.
    with contextlib.suppress(Exception):
        importlib.import_module(task["module"])
    try:
        network.give_up()
        privileges.give_up()
        if network.is_enforced():
            _close_home(task)
    except OSError as problem:
        return problem
    return None


def _close_home(task: dict[str, Any]) -> None:
    """Of what is kept there, a handler needs its working directory, payloads, and the files that apps keep."""
    closed = [Path(folder) for folder in task["closed"]]
    own = Path(task["workplace"]) if task["workplace"] is not None else None
    left_open = [closed[0] / "storage", closed[0] / "payloads", *([own] if own is not None else [])]
    if own is not None and landlock.version():
        for folder in left_open:
            folder.mkdir(parents=True, exist_ok=True)
        if closed[0].resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()):
            # Nothing new can be made above what is closed.
            tempfile.tempdir = os.environ["TMPDIR"] = str(own)
    landlock.close(closed, [folder.resolve() for folder in left_open])


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _is_fit(memory_mb: int | None, ours: set[threading.Thread]) -> bool:
    """Whether another attempt would find this process as the last one did: nothing runs on, little memory is held."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return False
    me = os.getpid()
    return ours.issuperset(threading.enumerate()) and (memory_mb is None or 2 * resident_mb([me])[me] <= memory_mb)


def adopt_orphans() -> None:
    """On Linux, whatever we start and whatever that starts stays below us, in whatever group or session it goes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


def _die_with(parent: int) -> None:
    """On Linux the kernel ends us with our parent; elsewhere, and for our own children, the channel's end does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST, encoding="ascii")
    if os.getppid() != parent:
        os._exit(1)


def _take_streams(output: int) -> None:
    """Both streams into one pipe, also for C code and for other programs; unbuffered, so that nothing dies with us."""
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    sys.stdout, sys.stderr = _unbuffered(1), _unbuffered(2)


def _unbuffered(descriptor: int) -> TextIO:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)


def _flush() -> None:
    """What C code has printed but not yet written. The handler may have closed its streams, or put others there."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).fflush(None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


@dataclass(slots=True)
class _Attempt(Attempt):
    """The worker keeps what comes through the pipe: all that the handler says goes there, in its order."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def write(self, text: str) -> None:
        # The handler may have closed it: then its words are lost, and not its report.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)


def _begin(task: dict[str, Any]) -> _Attempt:
    lease = Lease._make(task["lease"])
    if lease.resume_point is not None:
        lease = lease._replace(resume_point=(lease.resume_point[0], lease.resume_point[1]))
    begun = begin(lease, JobFacts(task["generation"], task["inputs"]))
    return _Attempt(lease, begun.facts, begun.started_at, begun.started_monotonic, checkpoint_seq=lease.checkpoint_seq)


def _run(task: dict[str, Any], attempt: Attempt, link: _Link) -> Report | None:
    try:
        handler = _handler(attempt.lease.handler, task["module"], task["path"])
    except BaseException as problem:
        reason = f"{type(problem).__name__}: {problem}"
        message = f"handler {attempt.lease.handler} cannot be loaded in a process of its own: {reason}"
        return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)
    codes = {declared.code: declared for declared in codes_in(sys.modules[task["module"]])}
    return conclude(attempt, lambda: _call(handler, attempt, task, link), codes, task["limit_bytes"])


def _handler(name: str, module: str, path: str) -> Handler:
    """As the worker knows it: decorated under this name, or a function that was given a name elsewhere."""
    function = locate(module, path)
    known = getattr(function, ATTRIBUTE, None)
    return known if isinstance(known, Handler) and known.name == name else describe(function, name)


def _call(handler: Handler, attempt: Attempt, task: dict[str, Any], link: _Link) -> Any:
    place: str | None = task["objects"]
    url: str | None = task["database_url"]
    own = Path(task["workplace"]) if task["workplace"] is not None else None
    workplace = Workplace(own.parent if own is not None else Path(tempfile.gettempdir()), own)
    objects: AttemptObjects = (
        open_objects(place) if place is not None else _ObjectsOfTheWorker(link, workplace.of(attempt.lease))
    )
    if not handler.is_async:
        means = Means(link.save_and_wait, link.page_and_wait, objects, workplace, link.breaker_and_wait, url)
        return handler.function(**arguments(handler, attempt, Context(attempt, means, _finish)))
    means = Means(link.save, link.page, objects, workplace, link.breaker, url)
    return asyncio.run(handler.function(**arguments(handler, attempt, AsyncContext(attempt, means))))


def _finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that waits for nothing but what blocks this thread."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise AssertionError("it waits for something else")


class _Link:
    """Our end of the channel: the handler's thread speaks, a thread of ours listens."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._speaking = threading.Lock()
        self._asked: deque[Future[Any]] = deque()
        self._tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._attempt: Attempt | None = None

    def first_task(self) -> dict[str, Any] | None:
        """Before anybody listens; None if the worker is gone. `next_task` gives it too."""
        task = receive(self._channel)
        if task is not None:
            self._tasks.put(task)
        return task

    def next_task(self) -> tuple[dict[str, Any], Attempt]:
        task = self._tasks.get()
        if task["number"] == 1:
            self._forward_logs(task["level"])
        attempt = _begin(task)
        with self._speaking:
            self._attempt = attempt
            self._channel.sendall(frame({"begun": True}))
        return task, attempt

    def report(self, report: Report | None, *, is_fit: bool) -> None:
        told, output = None, b""
        if report is not None:
            data = orjson.loads(report.data) if report.data is not None else {}
            size = len(report.output) if report.output is not None else None
            told = {"outcome": report.outcome, "data": data, "output_bytes": size}
            output = report.output or b""
        with self._speaking:
            # From here on the channel is the next attempt's: no word of this one may come after its report.
            self._attempt = None
            self._channel.sendall(frame({"report": told, "is_fit": is_fit}) + output)

    def send(self, message: dict[str, Any]) -> None:
        body = frame(message)
        with self._speaking:
            self._channel.sendall(body)

    def listen(self) -> threading.Thread:
        thread = threading.Thread(target=self._listen, name="holdfast channel", daemon=True)
        thread.start()
        return thread

    def _listen(self) -> None:
        """Hear tasks, answers and cancels, send progress; when the worker is gone, end everything that we started."""
        waiting = selectors.DefaultSelector()
        waiting.register(self._channel, selectors.EVENT_READ)
        try:
            while True:
                if waiting.select(LOOK_SECONDS):
                    message = receive(self._channel)
                    if message is None:
                        break
                    self._hear(message)
                self._tell_progress()
        finally:
            os.killpg(0, signal.SIGKILL)

    def _tell_progress(self) -> None:
        with self._speaking:
            attempt = self._attempt
            if attempt is not None and attempt.progress is not attempt.progress_sent:
                attempt.progress_sent = attempt.progress
                self._channel.sendall(frame({"progress": attempt.progress_sent}))

    def _hear(self, message: dict[str, Any]) -> None:
        if "lease" in message:
            self._tasks.put(message)
            return
        if "cancelled" in message:
            # It may come when its attempt has just ended; the task of the next one comes after it.
            if self._attempt is not None:
                self._attempt.cancelled = True
            return
        answer = self._asked.popleft()
        if not answer.set_running_or_notify_cancel():
            return
        if message["problem"] is not None:
            answer.set_exception(NotAnswered(message["problem"]))
        else:
            answer.set_result(message["answer"])

    def _ask(self, message: dict[str, Any]) -> Future[Any]:
        """Answers come in the order of the questions."""
        answer: Future[Any] = Future()
        question = frame(message)
        with self._speaking:
            self._asked.append(answer)
            self._channel.sendall(question)
        return answer

    def answer_to(self, message: dict[str, Any]) -> Any:
        return self._ask(message).result()

    async def save(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        return bool(await asyncio.wrap_future(self._ask(_checkpoint(seq, name, data))))

    async def save_and_wait(self, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        return bool(self.answer_to(_checkpoint(seq, name, data)))

    async def page(self, job_id: str, node: str, after: int, until: int, limit: int) -> Sequence[ItemResult] | None:
        asked = {"results": node, "range": (after, until, limit)}
        return _page(await asyncio.wrap_future(self._ask(asked)))

    async def page_and_wait(
        self, job_id: str, node: str, after: int, until: int, limit: int
    ) -> Sequence[ItemResult] | None:
        return _page(self.answer_to({"results": node, "range": (after, until, limit)}))

    async def breaker(self, name: str) -> SeenBreaker | None:
        return SeenBreaker.from_json(await asyncio.wrap_future(self._ask({"breaker": name})))

    async def breaker_and_wait(self, name: str) -> SeenBreaker | None:
        return SeenBreaker.from_json(self.answer_to({"breaker": name}))

    def _forward_logs(self, level: int) -> None:
        """Records go where those of the worker go."""
        root = logging.getLogger()
        root.addHandler(_Forward(self))
        root.setLevel(level)


class _ObjectsOfTheWorker:
    """The objects of the attempt's own job, read and written by the worker, which has the keys to them."""

    def __init__(self, link: _Link, folder: Path) -> None:
        """The worker reads and writes in this folder only, and there only by a name."""
        self._link = link
        self._folder = folder

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with self._passing() as place:
            try:
                os.link(file, place)
            except OSError:
                shutil.copyfile(file, place)
            digest, size = self._link.answer_to({"store": place.name})
        return digest, size

    def read(self, job_id: str, digest: str) -> bytes:
        with self._passing() as place:
            self._link.answer_to({"fetch": digest, "into": place.name})
            return place.read_bytes()

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        with self._passing() as place:
            self._link.answer_to({"fetch": digest, "into": place.name})
            shutil.move(place, target)

    @contextlib.contextmanager
    def _passing(self) -> Iterator[Path]:
        """A name for what goes to the worker, or comes from it."""
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
    def __init__(self, link: _Link) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = storable(self.format(record), RECORD_LIMIT)
            level = max(0, min(record.levelno, logging.CRITICAL))
            told = {"name": word(record.name) or "root", "level": level, "text": text}
            self._link.send({"record": told})
        except Exception:
            self.handleError(record)
