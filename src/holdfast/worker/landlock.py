"""Closes folders to this process for good, with Landlock, which Linux has since 5.19. It needs no privilege.

The process can then neither read nor change what is in these folders. It also cannot look into processes that have not
closed the same, even of its own user, and from Linux 6.12 on cannot signal them. Threads that already run are not
affected: close before the first one starts.
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
"""With an older version of Landlock no file can be moved from one folder to another."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1
_WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 1, 1 << 2, 1 << 14
_REMOVE_MAKE_MOVE = sum(1 << bit for bit in range(4, 14))
_NO_ABSTRACT_SOCKETS, _NO_SIGNALS = 1, 2
_NO_NEW_PRIVILEGES = 38
_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of Landlock in this kernel; 0 if it has none, or one that is too old."""
    if sys.platform != "linux":
        return 0
    number: int = _libc.syscall(_CREATE, None, 0, _ASK_VERSION)
    return number if number >= OLDEST else 0


def close(closed: Collection[Path], left_open: Collection[Path] = ()) -> None:
    """Close folders, except those below them that are left open.

    Nothing new can be made in the folders above a closed one: Landlock allows whole folders and cannot except a part of
    one, so each entry beside a closed folder is allowed by itself.
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
    """The entries of the folder that are not closed. Links are left out: their target is an entry elsewhere."""
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
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # It has gone, or we may not enter it.
    try:
        for access in (everything, files):
            try:
                _call(_ADD, rules, _BENEATH, struct.pack("=Qi", access, descriptor), 0)
                return
            except OSError as problem:
                # A file takes only the rights of files. What is neither folder nor file, such as a socket, needs none.
                if problem.errno not in (errno.EINVAL, errno.EBADFD):
                    raise
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    done: int = _libc.syscall(number, *arguments)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"its folders cannot be closed: {os.strerror(code)}")
    return done
