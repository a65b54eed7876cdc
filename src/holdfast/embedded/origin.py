"""Whether the database in a home was made there, and by us: no program and no setting of a stranger's is ever started.

A data directory can hold whatever runs programs as its user, in its settings and in its tables. So that it was made
here is remembered beside it, by what no archive and no copy can bring along: the nanosecond in which one of its files
came to be. A folder that is moved within its filesystem keeps it, and nothing has to be kept anywhere else.
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
"""The first second of 2027. Those that came to be earlier may be from a version that did not remember it."""
_OURS = (
    "lock", "users.lock", "server.lock", "watchdog.lock", "postgres", "postgres.new", "postgres.log", "postgres.json",
    "postgres.json.new", "postgres.password", "postgres.password.new", ORIGIN, f"{ORIGIN}.new",
)  # fmt: skip
_STAYS = "PG_VERSION"
"""A file that Postgres never writes again."""
_HERE, _BIRTH = -100, 0x800


def check(home: Path, data: Path) -> None:
    """Refuse a home that another user, or an archive, has put there. Nothing was run or changed when this raises."""
    check_owners(home)
    if not data.is_relative_to(home) or not (data / _STAYS).exists():
        return
    if not _is_remembered(home, data) and not _may_be_older(home, data):
        raise Unreachable(
            f"The database in {home} was not made there: somebody has copied or unpacked it, and it could run"
            " programs as you. Nothing of it was started.",
            remedy="If you trust where it comes from, take it over with: holdfast adopt. Else remove it, or choose"
            " another place with HOLDFAST_HOME.",
        )


def check_owners(home: Path) -> None:
    """Refuse what another user has put there, and links."""
    for place in (home, *(home / name for name in _OURS)):
        _check_owner(home, place)


def fingerprint(data: Path) -> str:
    """What no other data directory has, wherever it is moved within its filesystem."""
    file = data / _STAYS
    born = _birth_ns(file)
    # Where that is not known there is only a moment that may be a whole second long, and so not enough.
    return f"born {born}\n" if born else f"changed {file.stat().st_ctime_ns} inode {file.stat().st_ino}\n"


def _is_remembered(home: Path, data: Path) -> bool:
    try:
        return (home / ORIGIN).read_text(errors="replace") == fingerprint(data)
    except OSError:
        return False


def _may_be_older(home: Path, data: Path) -> bool:
    """Whether it came to be here before anything was remembered, and was written in that moment, as initdb does."""
    found = (data / _STAYS).stat()
    born = (_birth_ns(data / _STAYS) or found.st_ctime_ns) / 1e9
    return not (home / ORIGIN).exists() and born < NONE_BEFORE and abs(born - found.st_mtime) < 10


def _birth_ns(file: Path) -> int | None:
    """When the file came to be. Not where a file's own times can change that, as on macOS."""
    if sys.platform != "linux":
        return None
    found = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(_HERE, os.fsencode(file), 0, _BIRTH, found)
    except AttributeError:
        return None
    if failed or not struct.unpack_from("=I", found)[0] & _BIRTH:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", found, 80)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def _check_owner(home: Path, place: Path) -> None:
    try:
        found = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode):
        raise Unreachable(
            f"{place} is a symbolic link. In the folder of the embedded Postgres none is followed.",
            remedy=f"Remove it, or let HOLDFAST_HOME name another folder than {home}.",
        )
    if found.st_uid not in (0, os.geteuid()):
        raise Unreachable(
            f"{place} belongs to {_name(found.st_uid)}, and this command runs as {_name(os.geteuid())}."
            " Nothing of it was started.",
            remedy=f"Run it as {_name(found.st_uid)}, or choose another place with HOLDFAST_HOME.",
        )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
