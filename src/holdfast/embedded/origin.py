"""Checks that the database in a home was created there by Holdfast, and was not copied or unpacked from elsewhere.

The settings and tables of a data directory can run programs as the user who starts Postgres. So a file beside it
records something that no archive and no copy can bring along: the birth time, in nanoseconds, of one of its files.
A directory that is moved within its file system keeps its birth times.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import stat
import struct
import sys
from pathlib import Path

from holdfast.errors import Unreachable

ORIGIN = "postgres.origin"
NONE_BEFORE = 1_798_761_600
"""The first second of 2027. Older data directories may be from a version that did not record their origin."""
_OURS = (
    "lock", "users.lock", "server.lock", "watchdog.lock", "postgres", "postgres.new", "postgres.log", "postgres.json",
    "postgres.json.new", "postgres.password", "postgres.password.new", ORIGIN, f"{ORIGIN}.new",
)  # fmt: skip
_STABLE_FILE = "PG_VERSION"
"""A file that Postgres never writes again after initdb."""
_AT_FDCWD, _STATX_BTIME = -100, 0x800


def check(home: Path, data: Path) -> None:
    """Refuse a home that belongs to another user or came from an archive. Runs and changes nothing."""
    check_owners(home)
    if not data.is_relative_to(home) or not (data / _STABLE_FILE).exists():
        return
    if not _is_recorded(home, data) and not _may_be_older(home, data):
        raise Unreachable(
            f"The database in {home} was not created there: it was copied or unpacked, and could run programs as"
            " you. It was not started.",
            remedy="If you trust its origin, accept it with: holdfast adopt. Otherwise remove it, or use another"
            " directory with HOLDFAST_HOME.",
        )


def check_owners(home: Path) -> None:
    """Refuse files of another user, and symbolic links."""
    for place in (home, *(home / name for name in _OURS)):
        _check_owner(home, place)


def fingerprint(data: Path) -> str:
    """A text that no other data directory has; it stays the same when the directory is moved in its file system."""
    file = data / _STABLE_FILE
    born = _birth_ns(file)
    # Without a birth time the change time is used. Its resolution may be one second, so the inode is added.
    return f"born {born}\n" if born else f"changed {file.stat().st_ctime_ns} inode {file.stat().st_ino}\n"


def _is_recorded(home: Path, data: Path) -> bool:
    try:
        return (home / ORIGIN).read_text(errors="replace") == fingerprint(data)
    except OSError:
        return False


def _may_be_older(home: Path, data: Path) -> bool:
    """Whether it was created here by a version without records: its file is old, and was written at its birth."""
    status = (data / _STABLE_FILE).stat()
    born = (_birth_ns(data / _STABLE_FILE) or status.st_ctime_ns) / 1e9
    return not (home / ORIGIN).exists() and born < NONE_BEFORE and abs(born - status.st_mtime) < 10


def _birth_ns(file: Path) -> int | None:
    """The birth time of a file; None on systems such as macOS, where a user can change it."""
    if sys.platform != "linux":
        return None
    answer = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, answer)
    except AttributeError:
        return None
    if failed or not struct.unpack_from("=I", answer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", answer, 80)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def _check_owner(home: Path, place: Path) -> None:
    try:
        status = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(status.st_mode):
        raise Unreachable(
            f"{place} is a symbolic link. Links in the directory of the embedded Postgres are not followed.",
            remedy=f"Remove it, or set HOLDFAST_HOME to another directory than {home}.",
        )
    if status.st_uid not in (0, os.geteuid()):
        raise Unreachable(
            f"{place} belongs to {_name(status.st_uid)}, and this command runs as {_name(os.geteuid())}."
            " The database was not started.",
            remedy=f"Run the command as {_name(status.st_uid)}, or use another directory with HOLDFAST_HOME.",
        )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
