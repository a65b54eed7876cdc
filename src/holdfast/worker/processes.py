"""The processes of a worker's handlers: started, lent to one attempt or to several in turn, and reliably ended.

The fork server, a small process with the handlers loaded, forks them (`fork_server.py`). The worker itself must not
fork: the locks of its threads and its database connections would be copied. A new interpreter would take a second.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast.define.registry import Handler, Registry
from holdfast.worker.context import Attempt
from holdfast.worker.environment import declared, visible
from holdfast.worker.frames import ENDED, FORK, KILL, NEWS, REQUEST, STARTED, frame
from holdfast.worker.hiding import hide
from holdfast.worker.memory import resident_mb

IDLE_SECONDS = 60.0
"""A process that no attempt has used for this long is ended."""
MEMORY_LOOK_SECONDS = 0.2
KILL_PATIENCE_SECONDS = 1.0
"""A killed process ends at once, unless the kernel holds it; then waiting longer does not help."""
SEND_AGAIN_SECONDS = 0.01
READ_BYTES = 1 << 20
_BOOT = (
    "import json, sys; path = json.loads(sys.argv[2]); sys.path += path;"
    " from holdfast.worker.fork_server import main; sys.path[:] = path; main(int(sys.argv[1]))"
)
"""The worker's path may begin with a folder of the user. A `random.py` there must not replace the one that we need."""


class NotStarted(Exception):
    """The system refused to start another process."""


@dataclass(eq=False)
class Process:
    """A process for attempts of one handler. `ended` gets its exit code, or None if that is unknown."""

    number: int
    handler: Handler
    fork_server: _ForkServer
    output: int
    channel: socket.socket
    ended: asyncio.Future[int | None]
    attempt: Attempt | None
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)
    attempts: int = 0
    """How many attempts have used it, the current one included."""
    has_begun: bool = False
    """Whether it has confirmed the attempt: if it dies before, the handler has not begun."""
    is_fit: bool = False
    """Whether it has confirmed that its last attempt has left nothing behind."""
    is_back: asyncio.Event = field(default_factory=asyncio.Event)
    dismissal: asyncio.TimerHandle | None = None
    pid: int | None = None
    used_mb: int = 0
    start_problem: int | None = None
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    async def connect(self) -> None:
        asyncio.get_running_loop().add_reader(self.output, self.read_output)
        self.reader, self.writer = await asyncio.open_unix_connection(sock=self.channel, limit=READ_BYTES)

    def read_output(self) -> None:
        """Keep what was printed so far, without waiting: a process that escaped may hold the pipe open."""
        with contextlib.suppress(BlockingIOError):
            while printed := os.read(self.output, 65_536):
                if self.attempt is not None:
                    self.attempt.write(self.decoder.decode(printed))
            asyncio.get_running_loop().remove_reader(self.output)

    def end(self, status: int | None) -> None:
        if not self.ended.done():
            self.ended.set_result(status)

    def close(self) -> None:
        """Close our ends of its pipe and its channel. Without the channel it ends itself and all that it started."""
        if hasattr(self, "writer"):
            self.writer.close()
        self.channel.close()
        asyncio.get_running_loop().remove_reader(self.output)
        self.read_output()
        os.close(self.output)


class Processes:
    """The processes of one worker: those that run an attempt, and those that wait for the next."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._numbers = itertools.count(1)
        self._all: dict[int, Process] = {}
        self._idle: list[Process] = []
        self._fork_servers: dict[tuple[str, ...] | None, _ForkServer] = {}
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lent(self, handler: Handler, attempt: Attempt) -> AsyncIterator[Process]:
        """A process for one attempt; afterwards it is ended, or waits for another attempt of the same handler.

        A suspect gets a new process: if that dies too, no earlier attempt can be the reason. So does an attempt with
        secrets: none that follows may find them.
        """
        is_shared = handler.attempts_per_process > 1 and not attempt.lease.suspect and not attempt.values
        process = self._waiting(handler) if is_shared else None
        if process is None:
            process = await self._started(handler, attempt)
        process.attempt, process.has_begun, process.is_fit = attempt, False, False
        process.attempts += 1
        process.is_back.clear()
        try:
            yield process
        finally:
            try:
                if is_shared and self._is_of_use(process):
                    self._keep(process)
                else:
                    await self._end(process)
            finally:
                process.attempt = None
                process.is_back.set()

    async def end(self) -> None:
        """Interrupt every attempt and wait until their processes are gone, and all others with them."""
        lent = [process for process in self._all.values() if process.attempt is not None]
        for process in lent:
            if process.attempt is not None and process.attempt.cancel_running is not None:
                process.attempt.cancel_running()
        for process in lent:
            await process.is_back.wait()
        self._dismiss_all()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._dismiss_all()
        for fork_server in self._fork_servers.values():
            fork_server.close()

    async def _started(self, handler: Handler, attempt: Attempt) -> Process:
        """A new process with a channel and a pipe for what it prints. It is registered before it starts, so that `end`
        finds it."""
        fork_server, loop = self._living_fork_server(handler), asyncio.get_running_loop()
        mine, theirs = socket.socketpair()
        output, printing = os.pipe()
        os.set_blocking(output, False)
        process = Process(next(self._numbers), handler, fork_server, output, mine, loop.create_future(), attempt)
        self._all[process.number] = process
        try:
            try:
                await fork_server.send(FORK, process, theirs.fileno(), printing)
            finally:
                theirs.close()
                os.close(printing)
            self._bound_memory(process)
            await process.connect()
        except BaseException:
            try:
                await self._end(process)
            finally:
                process.is_back.set()
            raise
        return process

    async def _end(self, process: Process) -> None:
        """Kill the process with all its children; it has ended when this returns."""
        try:
            await process.fork_server.end(process)
        finally:
            del self._all[process.number]
            process.close()

    def _waiting(self, handler: Handler) -> Process | None:
        """The process that was used last. Removes those that died while they waited."""
        for process in reversed(self._idle):
            if process.ended.done():
                self._dismiss(process)
            elif process.handler is handler:
                self._take_back(process)
                return process
        return None

    def _is_of_use(self, process: Process) -> bool:
        is_spent = process.attempts >= process.handler.attempts_per_process
        return process.is_fit and not process.ended.done() and not is_spent

    def _keep(self, process: Process) -> None:
        process.read_output()
        process.dismissal = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._dismiss, process)
        self._idle.append(process)

    def _take_back(self, process: Process) -> None:
        self._idle.remove(process)
        if process.dismissal is not None:
            process.dismissal.cancel()

    def _dismiss(self, process: Process) -> None:
        """Let go of a process without waiting: it runs nothing."""
        self._take_back(process)
        del self._all[process.number]
        process.close()

    def _dismiss_all(self) -> None:
        for process in list(self._idle):
            self._dismiss(process)

    def _living_fork_server(self, handler: Handler) -> _ForkServer:
        """One fork server for all handlers with the same variables: a process inherits those of its fork server."""
        names = declared(handler)
        fork_server = self._fork_servers.get(names)
        if fork_server is None or not fork_server.is_alive:
            hide()
            places = [self._registry.place(one) for one in self._registry if declared(one) == names]
            modules = sorted({place[0] for place in places if place is not None})
            try:
                fork_server = self._fork_servers[names] = _ForkServer(self._all, modules, visible(names))
            except OSError as problem:
                raise NotStarted(f"no process could be started for it: {problem.strerror}") from None
        return fork_server

    def _bound_memory(self, process: Process) -> None:
        if process.handler.memory_mb is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch_memory(), name="holdfast memory")

    async def _watch_memory(self) -> None:
        """Check all processes with a memory limit at once, for as long as there are any."""
        while bounded := [process for process in self._all.values() if process.handler.memory_mb is not None]:
            alive = {process.pid: process for process in bounded if process.pid and not process.ended.done()}
            used = await asyncio.to_thread(resident_mb, list(alive))
            for pid, process in alive.items():
                limit = process.handler.memory_mb
                if limit is not None and used[pid] > limit and not process.ended.done():
                    process.used_mb = used[pid]
                    await process.fork_server.send(KILL, process)
            await asyncio.sleep(MEMORY_LOOK_SECONDS)


class _ForkServer:
    """The fork server, seen from the worker: takes requests to fork and to kill, and reports how its children ended."""

    def __init__(self, processes: Mapping[int, Process], modules: list[str], environment: Mapping[str, str]) -> None:
        self._processes = processes
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair()
        with theirs:
            path = json.dumps([str(entry) for entry in sys.path])
            # A group of its own: a Ctrl-C at the terminal is for the worker to handle.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(theirs.fileno()), path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,
                env=environment,
            )
        self._control.sendall(frame({"modules": modules}))
        self._control.setblocking(False)
        self._news = b""
        self._loop.add_reader(self._control, self._receive)
        self.is_alive = True

    async def send(self, what: bytes, child: Process, *descriptors: int) -> None:
        """Send a request. If the fork server has ended, its children have too, and `_receive` notices."""
        while self.is_alive:
            try:
                socket.send_fds(self._control, [REQUEST.pack(what, child.number)], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(SEND_AGAIN_SECONDS)
            except ConnectionError:
                return

    async def end(self, child: Process) -> None:
        """Kill the child with all its children; it has ended when this returns."""
        if not child.ended.done():
            await self.send(KILL, child)
            await asyncio.wait({child.ended}, timeout=KILL_PATIENCE_SECONDS)

    def _receive(self) -> None:
        try:
            self._news += (received := self._control.recv(65_536))
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        if not received:
            self._bury()
        while len(self._news) >= NEWS.size:
            what, number, value = NEWS.unpack_from(self._news)
            self._news = self._news[NEWS.size :]
            child = self._processes.get(number)
            if child is None:
                continue
            if what == STARTED:
                child.pid = value
            elif what == ENDED:
                child.end(value)
            else:
                child.start_problem = value
                child.end(None)

    def _bury(self) -> None:
        """The fork server was killed: kill what it has forked, since no other process would."""
        for child in [process for process in self._processes.values() if process.fork_server is self]:
            if child.pid is not None and not child.ended.done():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.end(None)
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Close the channel: the fork server then ends all that it has forked, and itself."""
        if self.is_alive:
            self.is_alive = False
            self._loop.remove_reader(self._control)
            self._control.close()
            try:
                self._process.wait(KILL_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
