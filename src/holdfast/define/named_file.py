"""Reads a file that a user has named, up to a limit and without waiting. Knows nothing of its content."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

SHOWN_LENGTH = 200
_OPEN_ALREADY = re.compile(r"/dev/stdin|/dev/fd/[0-9]+|/proc/(self|[0-9]+)/fd/[0-9]+")
"""The names of stdin and of what a shell passes for `<(…)`: the user means a stream."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_named_file(path: Path | str, limit_bytes: int) -> bytes:
    """At most one byte more than `limit_bytes`, which the caller refuses. Raises OSError with a message for users.

    A pipe without a writer, an endless device and some kernel files would block for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), None)
        if kind is not None and (stat.S_ISDIR(mode) or not _OPEN_ALREADY.fullmatch(str(path))):
            hint = "" if stat.S_ISDIR(mode) else "; send its content to /dev/stdin instead"
            raise OSError(errno.EINVAL, f"it is {kind}, not a file{hint}", str(path))
        os.set_blocking(descriptor, kind is not None)
        return read_up_to(partial(os.read, descriptor), limit_bytes)
    finally:
        os.close(descriptor)


def read_up_to(read: Callable[[int], bytes], limit_bytes: int) -> bytes:
    """Everything, but at most one byte more than the limit."""
    parts: list[bytes] = []
    left = limit_bytes + 1
    while left > 0:
        part = read(min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def shown_name(path: Path | str) -> str:
    """The name for a message: on one line, and shortened."""
    name = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(path)[: SHOWN_LENGTH + 1])
    return name if len(name) <= SHOWN_LENGTH else f"{name[: SHOWN_LENGTH - 1]}…"
