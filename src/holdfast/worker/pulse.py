"""Keeps a worker's lease alive while a handler holds the interpreter's lock.

Such a handler, inside some C code for instance, stops every thread of its process, the heartbeat too. So a small
process, the watcher, runs beside the worker. While the worker renews by itself, the watcher does nothing and has no
connection. When the worker hangs, the watcher renews in its place, for a limited time. It gives back the tasks that
the worker has claimed and not begun, and it kills a worker that was asked to end and does not within its grace. It
ends with the worker. A worker that was stopped, by SIGSTOP or a laptop's lid, is not renewed: it would hold its tasks
without working on them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import faulthandler
import mmap
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import orjson

from holdfast.errors import Unreachable
from holdfast.store.leases import Held
from holdfast.store.records import WorkerIdentity
from holdfast.worker.clock import lease_clock
from holdfast.worker.hiding import hide

if TYPE_CHECKING:
    # Every worker has such a process: it must not import the engine for a few names of types.
    from holdfast.worker.ports import LeaseRenewal, OpenRenewal

LOOK_SECONDS = 1.0
BOARD_BYTES = 4 * 1024 * 1024
_SIGNAL_NOTE = b"most recent call first"
_MOMENT, _NUMBER = struct.Struct("d"), struct.Struct("q")
_RENEWED, _ALIVE, _RELEASES, _SHOWN, _BEGUN, _LENGTH, _LEASES = range(0, 56, 8)


class Board:
    """Memory that a worker and its watcher share, so that neither has to wait for the other.

    The watcher first notes that it gives back what waits, then reads what has begun. The worker first notes that a task
    begins, then reads whether the watcher gives back. So at least one of them sees the other and leaves the task alone.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, BOARD_BYTES)

    @property
    def renewed_at(self) -> float:
        """When the watcher sent its last successful renewal."""
        return self._moment(_RENEWED)

    @renewed_at.setter
    def renewed_at(self, moment: float) -> None:
        _MOMENT.pack_into(self._memory, _RENEWED, moment)

    @property
    def alive_at(self) -> float:
        """When the worker's event loop was last alive."""
        return self._moment(_ALIVE)

    @alive_at.setter
    def alive_at(self, moment: float) -> None:
        _MOMENT.pack_into(self._memory, _ALIVE, moment)

    @property
    def releases(self) -> int:
        """How often the watcher has given back waiting tasks."""
        return self._number(_RELEASES)

    def release(self) -> list[Held] | None:
        """Note that the watcher gives back every task but those that have begun, and return these.

        None: the worker is changing the list, so nothing may go back.
        """
        self._set(_RELEASES, self.releases + 1)
        version, begun, length = self._number(_SHOWN), self._number(_BEGUN), self._number(_LENGTH)
        shown = self._memory[_LEASES : _LEASES + length]
        if version % 2 or version != self._number(_SHOWN):
            # The worker changes the list, so it no longer hangs.
            return None
        return [(job_id, node, item, epoch) for job_id, node, item, epoch in orjson.loads(shown or b"[]")[:begun]]

    def show(self, leases: Sequence[Held], begun: int) -> None:
        """Store what the worker holds, in the order in which it begins, and how many of these have begun."""
        shown = orjson.dumps(leases)
        version = self._number(_SHOWN) | 1
        self._set(_SHOWN, version)
        if len(shown) <= BOARD_BYTES - _LEASES:
            self._memory[_LEASES : _LEASES + len(shown)] = shown
            self._set(_LENGTH, len(shown))
            self._set(_BEGUN, begun)
            # The version is odd while the list changes, and while the list is too long for the board.
            self._set(_SHOWN, version + 1)

    def begin(self) -> None:
        """The next task of the list begins."""
        self._set(_BEGUN, self._number(_BEGUN) + 1)

    def _moment(self, place: int) -> float:
        moment: float = _MOMENT.unpack_from(self._memory, place)[0]
        return moment

    def _number(self, place: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, place)[0]
        return number

    def _set(self, place: int, number: int) -> None:
        _NUMBER.pack_into(self._memory, place, number)


def _close(*opened: IO[bytes]) -> None:
    for file in opened:
        file.close()


class Pulse:
    """The worker's side: starts the watcher, shows it what the worker holds, and sees the renewals that it made."""

    def __init__(
        self,
        open_renewal: OpenRenewal,
        *,
        lease_seconds: float,
        renew_seconds: float,
        grace_seconds: float,
        hang_seconds: float,
    ) -> None:
        self._facts = {
            "open_renewal": base64.b64encode(pickle.dumps(open_renewal)).decode("ascii"),
            "lease_seconds": lease_seconds,
            "renew_seconds": renew_seconds,
            "grace_seconds": grace_seconds,
            "hang_seconds": hang_seconds,
        }
        self._watcher: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._last = b""
        # Both go with the last process that has them open; this one closes them when it keeps no watcher any more,
        # or with this object, if its worker ends before it begins.
        self._shared = tempfile.TemporaryFile()  # noqa: SIM115
        self._signals = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, _close, self._shared, self._signals)
        os.ftruncate(self._shared.fileno(), BOARD_BYTES)
        self._board = Board(self._shared.fileno())
        self._releases_seen = 0

    @property
    def renewed_at(self) -> float:
        """When the watcher sent its last successful renewal."""
        return self._board.renewed_at

    def show(self, leases: Sequence[Held], begun: int) -> bool:
        """Show what the worker holds, in the order in which it begins; the first `begun` of these have begun.

        False: the watcher has given back the others. Drop them, and show the rest again.
        """
        self._board.show(leases, begun)
        seen, self._releases_seen = self._releases_seen, self._board.releases
        return seen == self._releases_seen

    def begin(self) -> bool:
        """The next task of the list begins; False: the watcher has given it back."""
        self._board.begin()
        return self._releases_seen == self._board.releases

    async def keep(self) -> None:
        """Keep a watcher running for as long as the worker lives; replace one that dies."""
        with self._shared, self._signals, self._noting_signals():
            while True:
                self._ended.clear()
                with self._start() as watcher:
                    try:
                        await self._live_until_it_ends()
                    finally:
                        self._end(watcher)
                await asyncio.sleep(LOOK_SECONDS)

    async def _live_until_it_ends(self) -> None:
        while not self._ended.is_set():
            self._board.alive_at = lease_clock()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), LOOK_SECONDS / 2)

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        """Leave a note for the watcher at each signal to end, even while no Python code can run.

        faulthandler writes the note, a traceback, and then calls the previous signal handler.
        """
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            faulthandler.register(number, self._signals, all_threads=False, chain=True)
        try:
            yield
        finally:
            for number in numbers:
                faulthandler.unregister(number)

    def beat(self, worker: WorkerIdentity, asked: float) -> None:
        """The worker has renewed by itself, with a request that left at `asked`."""
        self._last = orjson.dumps([worker.worker_id, worker.name, asked]) + b"\n"
        if self._watcher is not None:
            self._write(self._watcher, self._last)

    def _start(self) -> subprocess.Popen[bytes]:
        shared = {"board": self._shared.fileno(), "signals": self._signals.fileno()}
        self._board.alive_at = lease_clock()
        # With -P, a file of the user in the working directory cannot replace a module that the watcher needs.
        self._watcher = watcher = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.worker.pulse"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=tuple(shared.values()),
        )
        assert watcher.stdout is not None
        self._write(watcher, orjson.dumps(self._facts | shared) + b"\n" + self._last)
        asyncio.get_running_loop().add_reader(watcher.stdout, self._watcher_ended, watcher)
        return watcher

    def _write(self, watcher: subprocess.Popen[bytes], line: bytes) -> None:
        assert watcher.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            watcher.stdin.write(line)

    def _watcher_ended(self, watcher: subprocess.Popen[bytes]) -> None:
        """The watcher never writes, so its output is readable only when it has ended."""
        assert watcher.stdout is not None
        asyncio.get_running_loop().remove_reader(watcher.stdout)
        self._ended.set()

    def _end(self, watcher: subprocess.Popen[bytes]) -> None:
        self._watcher = None
        assert watcher.stdout is not None
        asyncio.get_running_loop().remove_reader(watcher.stdout)
        watcher.kill()


class Watcher:
    """The watcher's side: reads the worker's beats, renews when they stop, and gives up after `hang_seconds`."""

    def __init__(self, beats: int, parent: int) -> None:
        self._parent = parent
        self._beats = beats
        self._rest = b""
        facts = orjson.loads(self._read_line())
        self._lease_seconds: float = facts["lease_seconds"]
        self._renew_seconds: float = facts["renew_seconds"]
        self._grace_seconds: float = facts["grace_seconds"]
        self._hang_seconds: float = facts["hang_seconds"]
        self._renewal: LeaseRenewal = pickle.loads(base64.b64decode(facts["open_renewal"]))()
        self._board = Board(facts["board"])
        self._signals: int = facts["signals"]
        self._asked_to_end_at: float | None = None
        self._worker: WorkerIdentity | None = None
        self._renewed = 0.0
        self._released_at = 0.0

    def run(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            while os.getppid() == self._parent:
                if b"\n" in self._rest or self._has_news():
                    self._note_beat(self._read_line())
                else:
                    self._look(lease_clock())
        # The worker was killed: otherwise it would have ended us. The tasks that it had not begun go back unspent.
        self._release_what_waits()

    def _has_news(self) -> bool:
        readable, _, _ = select.select([self._beats], [], [], min(LOOK_SECONDS, self._renew_seconds / 2))
        return bool(readable)

    def _read_line(self) -> bytes:
        while b"\n" not in self._rest:
            read = os.read(self._beats, 65536)
            if not read:
                raise BrokenPipeError
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _note_beat(self, beat: bytes) -> None:
        """The worker has renewed by itself."""
        worker_id, name, self._renewed = orjson.loads(beat)
        self._worker = WorkerIdentity(worker_id, name)
        self._renewal.disconnect()

    def _look(self, now: float) -> None:
        alive_at = self._board.alive_at
        silent = now - alive_at
        should_have_ended = self._should_have_ended(now)
        if silent >= self._lease_seconds / 2 and self._released_at < alive_at:
            self._released_at = now
            self._release_what_waits()
        if _is_stopped(self._parent):
            return
        # Half a beat late: by now the worker's own renewal would have come.
        is_missing = self._worker is not None and now - self._renewed >= 1.5 * self._renew_seconds
        if is_missing and silent < self._hang_seconds:
            self._renew()
        if silent >= self._renew_seconds and should_have_ended:
            self._release_what_waits()
            os.kill(self._parent, signal.SIGKILL)

    def _should_have_ended(self, now: float) -> bool:
        """Whether the worker got a signal to end and its grace is over. A second signal ends the grace at once."""
        notes = os.pread(self._signals, 65536, 0).count(_SIGNAL_NOTE)
        if notes and self._asked_to_end_at is None:
            self._asked_to_end_at = now
        return notes > 1 or (self._asked_to_end_at is not None and now - self._asked_to_end_at >= self._grace_seconds)

    def _release_what_waits(self) -> None:
        if self._worker is None:
            return
        begun = self._board.release()
        if begun is not None:
            with contextlib.suppress(Unreachable):
                self._renewal.release_all_but(self._worker, begun)

    def _renew(self) -> None:
        assert self._worker is not None
        asked = lease_clock()
        try:
            renewed = self._renewal.renew(self._worker)
        except Unreachable:
            return
        if renewed:
            # Renew again one beat later. For the worker, the time of the request counts.
            self._renewed = asked - 0.5 * self._renew_seconds
            self._board.renewed_at = asked
        else:
            self._worker = None


def _is_stopped(process: int) -> bool:
    """Whether a process is stopped; on systems that do not show it, False."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2]
    except OSError:
        return False
    return state[:1] in ("T", "t", "Z")


def main() -> None:
    hide()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        Watcher(sys.stdin.fileno(), os.getppid()).run()


if __name__ == "__main__":
    main()
