"""A handler's process: it gets a task through a channel, runs the handler, reports, and waits for the next task.

It connects to no database: its worker saves checkpoints under its own lease and reads the results of other nodes for
it. Local objects it reads and writes itself; for remote ones it asks the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import io
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

from holdfast.core.signals import Outcome
from holdfast.define.registry import ATTRIBUTE, Handler, codes_in, describe, locate
from holdfast.errors import Code
from holdfast.masking import keep_task_secret
from holdfast.store.payloads import AttemptObjects, open_objects
from holdfast.store.records import JobFacts, Lease, Report
from holdfast.worker.confinement import confine
from holdfast.worker.context import AsyncContext, Attempt, Context, HandlerServices
from holdfast.worker.execute import arguments, begin, conclude
from holdfast.worker.hiding import show
from holdfast.worker.memory import resident_mb
from holdfast.worker.reports import failed
from holdfast.worker.workdir import Workplace
from holdfast.worker.worker_link import ObjectsThroughWorker, WorkerLink

KILLED_FIRST = "500"
"""When the machine runs out of memory, the kernel kills this process before the worker."""
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36


Answer = TypeVar("Answer")


def live(channel: socket.socket, output: int, parent: int) -> None:
    """Run the attempts that come through the channel, one after the other; what they print goes to `output`."""
    os.setpgid(0, 0)
    show()
    _die_with(parent)
    # Otherwise the orphans of a running attempt would go to the fork server, which kills orphans.
    adopt_orphans()
    # Handlers rather than SIG_IGN: programs that the handler starts get the default back.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _take_streams(output)
    link = WorkerLink(channel)
    first = link.first_task()
    if first is None:
        return
    problem = _confined(first)
    own_threads, streams = {threading.current_thread(), link.listen()}, (sys.stdout, sys.stderr)
    directory = _working_directory()
    while True:
        task = link.next_task()
        attempt = _begin(task)
        link.begin(attempt)
        if problem is None:
            report = _run(task, attempt, link)
        else:
            message = f"handler {attempt.lease.handler}: {problem}"
            report = failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)
        _flush()
        is_fit = (
            report is not None
            and report.outcome == Outcome.DONE
            and _is_fit(task["memory_mb"], own_threads)
            and _working_directory() == directory
            and (sys.stdout, sys.stderr) == streams
            and not any(stream.closed for stream in streams)
        )
        link.report(report, is_fit=is_fit)
        if not is_fit:
            return


def _confined(task: dict[str, Any]) -> OSError | None:
    """Confine this process if its handler declares that it needs no network; returns why that is not possible."""
    if task["network"]:
        return None
    # Import the module first: at import its author may use the network. If the import fails, the attempt says why.
    with contextlib.suppress(Exception):
        importlib.import_module(task["module"])
    try:
        confine(task)
    except OSError as problem:
        return problem
    return None


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _is_fit(memory_mb: int | None, own_threads: set[threading.Thread]) -> bool:
    """Whether the attempt has left no process, no thread and little memory behind, so that another one may run."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        return False
    me = os.getpid()
    has_memory = memory_mb is None or 2 * resident_mb([me])[me] <= memory_mb
    return own_threads.issuperset(threading.enumerate()) and has_memory


def adopt_orphans() -> None:
    """On Linux, every process that descends from this one stays below it, in whatever group or session it is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


def _die_with(parent: int) -> None:
    """On Linux the kernel kills this process with its parent; elsewhere the end of the channel ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST, encoding="ascii")
    if os.getppid() != parent:
        os._exit(1)


def _take_streams(output: int) -> None:
    """Send both streams into one pipe, for C code and other programs too. Unbuffered: nothing is lost at a crash."""
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    sys.stdout, sys.stderr = _unbuffered(1), _unbuffered(2)


def _unbuffered(descriptor: int) -> TextIO:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)


def _flush() -> None:
    """Write out what C code has buffered. The handler may have closed or replaced the streams."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).fflush(None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


@dataclass(slots=True)
class _Attempt(Attempt):
    """Writes the handler's log lines into the pipe, in order with what it prints; the worker keeps both."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def write(self, text: str) -> None:
        # The handler may have closed the stream: then its lines are lost, but not its report.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)


def _begin(task: dict[str, Any]) -> _Attempt:
    for value in task["secrets"]:
        keep_task_secret(value)
    lease = Lease._make(task["lease"])
    if lease.resume_point is not None:
        lease = lease._replace(resume_point=(lease.resume_point[0], lease.resume_point[1]))
    begun = begin(lease, JobFacts(task["generation"], task["inputs"], **task["marks"]))
    return _Attempt(lease, begun.facts, begun.started_at, begun.started_monotonic, checkpoint_seq=lease.checkpoint_seq)


def _run(task: dict[str, Any], attempt: Attempt, link: WorkerLink) -> Report | None:
    try:
        handler = _handler(attempt.lease.handler, task["module"], task["path"])
    except BaseException as problem:
        reason = f"{type(problem).__name__}: {problem}"
        message = f"handler {attempt.lease.handler} cannot be loaded in a process of its own: {reason}"
        return failed(attempt, Code.CONTRACT_VIOLATION, message, permanent=True)
    codes = {declared.code: declared for declared in codes_in(sys.modules[task["module"]])}
    return conclude(attempt, lambda: _call(handler, attempt, task, link), codes, task["limit_bytes"])


def _handler(name: str, module: str, path: str) -> Handler:
    """The handler as the worker knows it: decorated with this name, or registered under it elsewhere."""
    function = locate(module, path)
    known = getattr(function, ATTRIBUTE, None)
    return known if isinstance(known, Handler) and known.name == name else describe(function, name)


def _call(handler: Handler, attempt: Attempt, task: dict[str, Any], link: WorkerLink) -> Any:
    place: str | None = task["objects"]
    url: str | None = task["database_url"]
    own = Path(task["workplace"]) if task["workplace"] is not None else None
    workplace = Workplace(own.parent if own is not None else Path(tempfile.gettempdir()), own)
    objects: AttemptObjects = (
        open_objects(place) if place is not None else ObjectsThroughWorker(link, workplace.of(attempt.lease))
    )
    if not handler.is_async:
        services = HandlerServices(
            link.save_and_wait, link.page_and_wait, objects, workplace, link.breaker_and_wait, url
        )
        return handler.function(**arguments(handler, attempt, Context(attempt, services, _finish)))
    services = HandlerServices(link.save, link.page, objects, workplace, link.breaker, url)
    return asyncio.run(handler.function(**arguments(handler, attempt, AsyncContext(attempt, services))))


def _finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that never suspends: whatever it waits for blocks this thread."""
    try:
        work.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise AssertionError("the coroutine suspended, but no event loop runs here")
