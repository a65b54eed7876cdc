"""Keeps a worker's lease alive while the worker itself cannot.

A handler that holds the interpreter's lock, inside some C code for instance, stops every thread of its process, the
heartbeat too. So a small process of its own watches: as long as the worker renews by itself it does nothing and has no
connection; when it hears nothing it renews in its place. It ends with the worker, and a worker that was stopped (by
SIGSTOP, or a laptop's lid) gets no help: it would hold its tasks without working on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import orjson

from holdfast.errors import Unreachable
from holdfast.store.renewal import Renewal
from holdfast.worker.hiding import hide

LOOK_SECONDS = 1.0


class Pulse:
    """The worker's side: tells the watcher of every renewal, and hears of those that it made."""

    def __init__(self, url: str, lease_seconds: float, renew_seconds: float) -> None:
        self._facts = {"url": url, "lease_seconds": lease_seconds, "renew_seconds": renew_seconds}
        self._watcher: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._last = b""
        self.renewed_at = 0.0

    async def keep(self) -> None:
        """Have a watcher for as long as the worker lives; one that dies is replaced."""
        while True:
            self._ended.clear()
            with self._start() as watcher:
                try:
                    await self._ended.wait()
                finally:
                    self._end(watcher)
            await asyncio.sleep(LOOK_SECONDS)

    def beat(self, worker_id: int, asked: float) -> None:
        """The worker has renewed by itself, and had asked for it then."""
        self._last = b"%d %f\n" % (worker_id, asked)
        if self._watcher is not None:
            self._write(self._watcher, self._last)

    def _start(self) -> subprocess.Popen[bytes]:
        self._watcher = watcher = subprocess.Popen(
            [sys.executable, "-m", "holdfast.worker.pulse"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert watcher.stdout is not None
        self._write(watcher, orjson.dumps(self._facts) + b"\n" + self._last)
        asyncio.get_running_loop().add_reader(watcher.stdout, self._heard, watcher)
        return watcher

    def _write(self, watcher: subprocess.Popen[bytes], line: bytes) -> None:
        assert watcher.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            watcher.stdin.write(line)

    def _heard(self, watcher: subprocess.Popen[bytes]) -> None:
        assert watcher.stdout is not None
        lines = watcher.stdout.read(65536).split()
        if lines:
            self.renewed_at = max(self.renewed_at, float(lines[-1]))
        else:
            asyncio.get_running_loop().remove_reader(watcher.stdout)
            self._ended.set()

    def _end(self, watcher: subprocess.Popen[bytes]) -> None:
        self._watcher = None
        assert watcher.stdout is not None
        asyncio.get_running_loop().remove_reader(watcher.stdout)
        watcher.kill()


class Watcher:
    """The other side: a process that reads the worker's beats and makes the missing ones."""

    def __init__(self, beats: int, parent: int) -> None:
        self._beats = beats
        self._parent = parent
        self._renew_seconds = LOOK_SECONDS
        self._renewal: Renewal | None = None
        self._worker_id: int | None = None
        self._renewed = 0.0

    def run(self) -> None:
        rest = b""
        while os.getppid() == self._parent:
            readable, _, _ = select.select([self._beats], [], [], min(LOOK_SECONDS, self._renew_seconds / 2))
            if readable:
                read = os.read(self._beats, 65536)
                if not read:
                    return
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self._hear(line)
            elif self._is_missing() and not _is_stopped(self._parent):
                self._renew()

    def _hear(self, line: bytes) -> None:
        if line.startswith(b"{"):
            facts = orjson.loads(line)
            self._renew_seconds = facts["renew_seconds"]
            self._renewal = Renewal(facts["url"], facts["lease_seconds"])
        else:
            worker_id, asked = line.split()
            self._worker_id, self._renewed = int(worker_id), float(asked)
            if self._renewal is not None:
                self._renewal.disconnect()

    def _is_missing(self) -> bool:
        """Half a beat late: the worker's own renewal, if it still comes, would have come."""
        return self._worker_id is not None and time.monotonic() - self._renewed >= 1.5 * self._renew_seconds

    def _renew(self) -> None:
        assert self._worker_id is not None and self._renewal is not None
        asked = time.monotonic()
        try:
            renewed = self._renewal.renew(self._worker_id)
        except Unreachable:
            return
        if renewed:
            # The next one a whole beat later; what counts for the worker is when this one was asked for.
            self._renewed = asked - 0.5 * self._renew_seconds
            os.write(sys.stdout.fileno(), b"%f\n" % asked)
        else:
            self._worker_id = None


def _is_stopped(process: int) -> bool:
    """Whether somebody has stopped it; where that cannot be seen it counts as running."""
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
