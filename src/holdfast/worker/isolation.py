"""Handlers in processes of their own, seen from the worker: started, heard, bounded, and killed for certain.

A small single-threaded process with the handlers loaded forks them (`nursery.py`). The worker itself must not fork:
its threads' locks and its database connections would come along. A new interpreter each time would take a second.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.define.registry import Handler, Registry
from holdfast.worker.context import Attempt, Means
from holdfast.worker.frames import ENDED, FORK, KILL, LENGTH, NEWS, REQUEST, STARTED, frame
from holdfast.worker.memory import resident_mb

LOOK_SECONDS = 0.1
MEMORY_LOOK_SECONDS = 0.2
KILL_PATIENCE_SECONDS = 1.0
"""A killed process is gone at once, unless the kernel holds it; then nobody can do more."""
SEND_AGAIN_SECONDS = 0.01
READ_BYTES = 1 << 20
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from holdfast.worker.nursery import main; main(int(sys.argv[1]))"
)


class CannotBeIsolated(Exception):
    """Another process would not find the handler."""


class NotStarted(Exception):
    """The machine has no room for another process."""


class ProcessDied(Exception):
    """A handler's process ended without a report. `alone`: nothing but the handler can be the reason."""

    def __init__(self, message: str, *, alone: bool) -> None:
        super().__init__(message)
        self.alone = alone


@dataclass(eq=False)
class _Child:
    """A process that runs one attempt. `ended` gets its exit code, or None if nobody can know it."""

    number: int
    attempt: Attempt
    memory_mb: int | None
    output: int
    ended: asyncio.Future[int | None]
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    pid: int | None = None
    used_mb: int = 0
    start_problem: int | None = None
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def read_output(self) -> None:
        """Keep what was printed so far; a process that got away may hold the pipe open, so nothing is waited for."""
        with contextlib.suppress(BlockingIOError):
            while printed := os.read(self.output, 65_536):
                self.attempt.write(self.decoder.decode(printed))
            asyncio.get_running_loop().remove_reader(self.output)

    def end(self, status: int | None) -> None:
        if not self.ended.done():
            self.ended.set_result(status)


class Children:
    """The attempts of one worker that run in processes of their own."""

    def __init__(self, registry: Registry, means: Means) -> None:
        self._registry = registry
        self._means = means
        self._numbers = itertools.count(1)
        self._children: dict[int, _Child] = {}
        self._nursery: _Nursery | None = None
        self._watching: asyncio.Task[None] | None = None

    async def run(self, handler: Handler, attempt: Attempt) -> dict[str, Any] | None:
        """What the attempt's process reports; None if its lease is lost. However this ends, the process is gone."""
        place = self._registry.place(handler)
        if place is None:
            raise CannotBeIsolated(_not_importable(handler))
        # Whether the process makes itself a directory is for it to know; who looks after it must look.
        attempt.has_workdir = True
        async with self._started(handler, attempt) as (child, reader, writer):
            writer.write(frame(_task(attempt, self._means, *place)))
            told = await self._attend(child, reader, writer)
        if told is None:
            raise _death(child)
        report: dict[str, Any] | None = told["report"]
        return report

    async def end(self) -> None:
        """Interrupt every attempt and wait until their processes are gone."""
        children = list(self._children.values())
        for child in children:
            if child.attempt.cancel_running is not None:
                child.attempt.cancel_running()
        for child in children:
            await child.gone.wait()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._nursery is not None:
            self._nursery.close()

    @asynccontextmanager
    async def _started(
        self, handler: Handler, attempt: Attempt
    ) -> AsyncIterator[tuple[_Child, asyncio.StreamReader, asyncio.StreamWriter]]:
        """A process with a channel to it and a pipe for what it prints; all of that ends here."""
        nursery, loop = self._living_nursery(), asyncio.get_running_loop()
        mine, theirs = socket.socketpair()
        output, printing = os.pipe()
        os.set_blocking(output, False)
        child = _Child(next(self._numbers), attempt, handler.memory_mb, output, loop.create_future())
        self._children[child.number] = child
        try:
            try:
                await nursery.send(FORK, child, theirs.fileno(), printing)
            finally:
                theirs.close()
                os.close(printing)
            loop.add_reader(output, child.read_output)
            self._bound_memory(child)
            reader, writer = await asyncio.open_unix_connection(sock=mine, limit=READ_BYTES)
            try:
                yield child, reader, writer
            finally:
                writer.close()
        finally:
            try:
                await nursery.end(child)
            finally:
                mine.close()
                loop.remove_reader(output)
                child.read_output()
                os.close(output)
                del self._children[child.number]
                child.gone.set()

    async def _attend(
        self, child: _Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, Any] | None:
        """Serve the attempt until it reports or dies; None if it died."""
        hearing = asyncio.create_task(self._hear(child.attempt, reader, writer))
        either: set[asyncio.Future[Any]] = {hearing, child.ended}
        knows_of_cancel = False
        try:
            while not hearing.done() and not child.ended.done():
                await asyncio.wait(either, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if child.attempt.cancelled and not knows_of_cancel:
                    writer.write(frame({"cancelled": True}))
                    knows_of_cancel = True
            # What it said just before its end is still on its way through the channel.
            await asyncio.wait({hearing}, timeout=KILL_PATIENCE_SECONDS)
            return hearing.result() if hearing.done() else None
        finally:
            hearing.cancel()

    async def _hear(
        self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, Any] | None:
        """Do what the process asks for, up to its report; None if it ends without."""
        while (message := await _message(reader)) is not None and "report" not in message:
            if "checkpoint" in message:
                writer.write(frame(await self._checkpoint(attempt, message)))
            elif "results" in message:
                writer.write(frame(await self._results(attempt, message)))
            elif "breaker" in message:
                writer.write(frame(await self._breaker(message["breaker"])))
            elif "progress" in message:
                attempt.progress = message["progress"]
            else:
                record = message["record"]
                logging.getLogger(record["name"]).log(record["level"], "%s", record["text"])
        return message

    async def _checkpoint(self, attempt: Attempt, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            saved = await self._means.save(attempt.lease, asked["seq"], asked["checkpoint"], asked["data"].encode())
        except Exception as problem:
            # As in a thread: the handler hears of it, whatever it is.
            return {"answer": False, "problem": f"{type(problem).__name__}: {problem}"}
        if not saved:
            attempt.cancelled = attempt.lost = True
        return {"answer": saved, "problem": None}

    async def _results(self, attempt: Attempt, asked: Mapping[str, Any]) -> dict[str, Any]:
        """A page goes through the channel as it is; large outputs the process reads itself."""
        try:
            page = await self._means.pages(attempt.lease.job_id, asked["results"], *asked["range"])
        except Exception as problem:
            return {"answer": None, "problem": f"{type(problem).__name__}: {problem}"}
        rows = [(r.item, r.output.decode() if r.output is not None else None, r.output_ref) for r in page or ()]
        return {"answer": rows if page is not None else None, "problem": None}

    async def _breaker(self, name: str) -> dict[str, Any]:
        try:
            found = await self._means.breaker(name)
        except Exception as problem:
            return {"answer": None, "problem": f"{type(problem).__name__}: {problem}"}
        return {"answer": found.to_json() if found is not None else None, "problem": None}

    def _living_nursery(self) -> _Nursery:
        if self._nursery is None or not self._nursery.is_alive:
            places = [self._registry.place(handler) for handler in self._registry]
            modules = sorted({place[0] for place in places if place is not None})
            try:
                self._nursery = _Nursery(self._children, modules)
            except OSError as problem:
                raise NotStarted(f"no process could be started for it: {problem.strerror}") from None
        return self._nursery

    def _bound_memory(self, child: _Child) -> None:
        if child.memory_mb is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch_memory(), name="holdfast memory")

    async def _watch_memory(self) -> None:
        """One look for all of them, as long as there are any."""
        while bounded := [child for child in self._children.values() if child.memory_mb is not None]:
            alive = {child.pid: child for child in bounded if child.pid is not None and not child.ended.done()}
            used = await asyncio.to_thread(resident_mb, list(alive))
            for pid, child in alive.items():
                if child.memory_mb is not None and used[pid] > child.memory_mb and not child.ended.done():
                    child.used_mb = used[pid]
                    if self._nursery is not None:
                        await self._nursery.send(KILL, child)
            await asyncio.sleep(MEMORY_LOOK_SECONDS)


class _Nursery:
    """The process that forks: it is asked to start and to kill, and tells what became of its children."""

    def __init__(self, children: Mapping[int, _Child], modules: list[str]) -> None:
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._control, theirs = socket.socketpair()
        with theirs:
            path = json.dumps([str(entry) for entry in sys.path])
            # A group of its own: a Ctrl-C at the terminal is for the worker to handle.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,
            )
        self._control.sendall(frame({"modules": modules}))
        self._control.setblocking(False)
        self._news = b""
        self._loop.add_reader(self._control, self._hear)
        self.is_alive = True

    async def send(self, what: bytes, child: _Child, *descriptors: int) -> None:
        """A nursery that is gone needs not be told: it has ended its children, and `_hear` will notice."""
        while self.is_alive:
            try:
                socket.send_fds(self._control, [REQUEST.pack(what, child.number)], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(SEND_AGAIN_SECONDS)
            except ConnectionError:
                return

    async def end(self, child: _Child) -> None:
        """Kill the child with all its children; it is gone when this returns."""
        if not child.ended.done():
            await self.send(KILL, child)
            await asyncio.wait({child.ended}, timeout=KILL_PATIENCE_SECONDS)

    def _hear(self) -> None:
        try:
            self._news += (heard := self._control.recv(65_536))
        except BlockingIOError:
            return
        except ConnectionError:
            heard = b""
        if not heard:
            self._bury()
        while len(self._news) >= NEWS.size:
            what, number, value = NEWS.unpack_from(self._news)
            self._news = self._news[NEWS.size :]
            child = self._children.get(number)
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
        """It was killed: what it has forked must not outlive it, and its number would lead nowhere."""
        for child in self._children.values():
            if child.pid is not None and not child.ended.done():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.end(None)
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Without us it ends by itself, after all that it has forked."""
        if self.is_alive:
            self.is_alive = False
            self._loop.remove_reader(self._control)
            self._control.close()
            try:
                self._process.wait(KILL_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


async def _message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """What the process says next; None if it is gone. An output follows as it is: it may be large, and is JSON."""
    try:
        size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
        message: dict[str, Any] = orjson.loads(await reader.readexactly(size))
        report = message.get("report")
        if report is not None:
            size = report.pop("output_bytes")
            report["output"] = await reader.readexactly(size) if size is not None else None
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return None
    return message


def _task(attempt: Attempt, means: Means, module: str, path: str) -> dict[str, Any]:
    return {
        "module": module,
        "path": path,
        "lease": list(attempt.lease),
        "generation": attempt.facts.generation,
        "inputs": attempt.facts.inputs,
        "objects": means.payloads.objects.place,
        "limit_bytes": means.payloads.limit_bytes,
        "workplace": means.workplace.own_or_none(),
        "database_url": means.database_url,
        "level": logging.getLogger(f"holdfast.handler.{attempt.lease.handler}").getEffectiveLevel(),
    }


def _death(child: _Child) -> Exception:
    """Why there is no report, for people."""
    status = child.ended.result() if child.ended.done() else None
    if child.start_problem is not None:
        return NotStarted(f"no process could be started for it: {os.strerror(child.start_problem)}")
    if child.used_mb and child.memory_mb:
        message = f"the handler's process used {child.used_mb} MB, more than its {child.memory_mb} MB"
        return ProcessDied(message, alone=True)
    if status is None:
        return ProcessDied("the process that starts handlers was killed, and the handler's with it", alone=False)
    if status >= 0:
        return ProcessDied(f"the handler's process exited with status {status} without a result", alone=True)
    message = f"the handler's process was killed by signal {-status} ({_signal_name(-status)})"
    if -status == signal.SIGKILL:
        message += "; perhaps the machine had no memory left"
    return ProcessDied(message, alone=True)


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
