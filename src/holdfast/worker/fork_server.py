"""The fork server: a process with one thread and the handler modules loaded, which forks the processes of handlers.

A fork takes milliseconds. The fork server ends when its worker does, in whatever way, and kills all its descendants. On
Linux that includes those that have left their process group, because it adopts orphans. It runs no handler itself, nor
anything else that could keep it busy.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from holdfast.worker.child import adopt_orphans, live
from holdfast.worker.frames import ENDED, FORK, KILL, NEWS, NOT_STARTED, REQUEST, STARTED, receive
from holdfast.worker.hiding import hide


def main(control: int) -> None:
    """Load the modules that the worker names, then fork and kill children at its request."""
    # A service manager may signal all processes of a service at once. The worker decides when its children end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hide()
    channel = socket.socket(fileno=control)
    request = receive(channel)
    if request is not None:
        _load(request["modules"])
        _ForkServer(channel).run()


def _load(modules: Sequence[str]) -> None:
    """Import the modules. The child that needs one which cannot be imported reports why."""
    for name in modules:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    # Children share these pages as long as no process writes to them; the garbage collector would.
    gc.collect()
    gc.freeze()


class _ForkServer:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._numbers: dict[int, int] = {}
        # Processes that a module started while it was loaded are no strays.
        self._older = _own_children()
        adopt_orphans()
        self._wake, self._woken = os.pipe()
        for end in (self._wake, self._woken):
            os.set_blocking(end, False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        waiting = selectors.DefaultSelector()
        waiting.register(self._channel, selectors.EVENT_READ)
        waiting.register(self._wake, selectors.EVENT_READ)
        with contextlib.suppress(ConnectionError):
            while True:
                for key, _ in waiting.select():
                    if key.fileobj is self._channel:
                        self._obey()
                    else:
                        os.read(self._wake, 4096)
                        self._reap()
        self._end_all()

    def _obey(self) -> None:
        """Carry out one request of the worker; ConnectionError if the worker has ended."""
        request, descriptors, _, _ = socket.recv_fds(self._channel, REQUEST.size, 2, socket.MSG_WAITALL)
        if len(request) < REQUEST.size:
            raise ConnectionError
        what, number = REQUEST.unpack(request)
        if what == FORK:
            self._fork(number, descriptors)
        elif what == KILL:
            for pid in [pid for pid, known in self._numbers.items() if known == number]:
                _end_group(pid)

    def _fork(self, number: int, descriptors: Sequence[int]) -> None:
        me = os.getpid()
        try:
            pid = os.fork()
        except OSError as problem:
            self._send(NOT_STARTED, number, problem.errno or 0)
        else:
            if pid == 0:
                self._become_child(me, *descriptors)
            # The child does the same: whichever is first, the group can be killed from now on.
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)
            self._numbers[pid] = number
            self._send(STARTED, number, pid)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _become_child(self, parent: int, channel: int, output: int) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for end in (self._wake, self._woken):
                os.close(end)
            self._channel.close()
            os.set_inheritable(channel, False)
            live(socket.socket(fileno=channel), output, parent)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status & 0xFF)

    def _reap(self) -> None:
        """Report how children ended, and kill what they left behind."""
        ended: list[tuple[int, int]] = []
        for pid in list(self._numbers):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                # While the group has members, the kernel does not reuse its number.
                _end_group(pid)
                ended.append((self._numbers.pop(pid), os.waitstatus_to_exitcode(status)))
        for pid in self._kill_strays():
            os.waitpid(pid, os.WNOHANG)
        for number, code in ended:
            self._send(ENDED, number, code)

    def _kill_strays(self) -> list[int]:
        """Kill what dead children have left outside their group. Each that dies leaves its own children to us."""
        killed = []
        for pid in _own_children() - self._older - self._numbers.keys():
            # We may not kill a program that runs as another user.
            with contextlib.suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return killed

    def _end_all(self) -> None:
        for pid in self._numbers:
            _end_group(pid)
        for pid in self._numbers:
            os.waitpid(pid, 0)
        self._numbers.clear()
        while killed := self._kill_strays():
            for pid in killed:
                os.waitpid(pid, 0)

    def _send(self, what: bytes, number: int, value: int) -> None:
        self._channel.sendall(NEWS.pack(what, number, value))


def _own_children() -> set[int]:
    """The processes whose parent we are; empty if the kernel does not list them."""
    try:
        return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()}
    except OSError:
        return set()


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
