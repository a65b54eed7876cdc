"""Closes folders to this process, for good, and other processes with them: Linux has Landlock for it since 5.19.

A process that has done so can neither read nor change what lies in these folders. It cannot look into processes that
have not, those of its own user included, and from Linux 6.12 on cannot signal them. It needs no privilege. Threads that
already run stay as they are: close before any is started.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

OLDEST = 2
"""Before that version of Landlock no file could be moved from one folder to another."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1
_WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 1, 1 << 2, 1 << 14
_REMOVE_MAKE_MOVE = sum(1 << bit for bit in range(4, 14))
_NO_ABSTRACT_SOCKETS, _NO_SIGNALS = 1, 2
_NO_NEW_PRIVILEGES = 38
_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """What this kernel has of Landlock; 0 where that is nothing, or too little."""
    if sys.platform != "linux":
        return 0
    found: int = _libc.syscall(_CREATE, None, 0, _ASK_VERSION)
    return found if found >= OLDEST else 0


def close(closed: Collection[Path], left_open: Collection[Path] = ()) -> None:
    """From here on nothing in the closed folders is in reach, but for those below them that are left open.

    In the folders above a closed one nothing new can be made: Landlock allows whole folders and takes nothing back, so
    each entry beside a closed one is allowed by itself.
    """
    known = version()
    if not known:
        return
    files = _WRITE_FILE | _READ_FILE | (_TRUNCATE if known >= 3 else 0)
    everything = files | _REMOVE_MAKE_MOVE
    scoped = _NO_ABSTRACT_SOCKETS | _NO_SIGNALS
    wanted = struct.pack("=QQQ", everything, 0, scoped)[: 24 if known >= 6 else 8]
    rules = _call(_CREATE, wanted, len(wanted), 0)
    try:
        for path in [*_beside({folder.resolve() for folder in closed}, Path("/")), *map(str, left_open)]:
            _allow(rules, path, files, everything)
        _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _beside(closed: set[Path], folder: Path) -> Iterator[str]:
    """What is in the folder, without what is closed; a link allows nothing, what it leads to is looked at by itself."""
    refused = {str(one) for one in closed}
    above = {str(parent) for one in closed for parent in one.parents} - refused
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in above:
                waiting.append(entry.path)
            elif entry.path not in refused and not entry.is_symlink():
                yield entry.path


def _allow(rules: int, path: str, files: int, everything: int) -> None:
    try:
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone by now, or not ours to enter
    try:
        for access in (everything, files):
            try:
                _call(_ADD, rules, _BENEATH, struct.pack("=Qi", access, found), 0)
                return
            except OSError as problem:
                # What is no folder has only the rights of files. What is neither, a socket for instance, needs none.
                if problem.errno not in (errno.EINVAL, errno.EBADFD):
                    raise
    finally:
        os.close(found)


def _call(number: int, *arguments: object) -> int:
    done: int = _libc.syscall(number, *arguments)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"folders cannot be closed to it: {os.strerror(code)}")
    return done
