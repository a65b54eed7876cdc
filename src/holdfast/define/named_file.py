"""How a file that a person has named is read: never without end, never for ever. Knows nothing of what is in it."""

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
"""What a shell passes for `<(…)`, and stdin by its name: streams on purpose, whatever they are."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_named_file(path: Path | str, limit_bytes: int) -> bytes:
    """The content, or more than `limit_bytes` of it: the caller refuses that. Raises OSError, with words for people.

    A pipe without a writer and a device without an end would keep us for ever, and some files of the kernel, too.
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
    """As much as there is, and not more than a byte beyond the limit."""
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
    """The name for a message: in one line, and no more of it than anybody reads."""
    name = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(path)[: SHOWN_LENGTH + 1])
    return name if len(name) <= SHOWN_LENGTH else f"{name[: SHOWN_LENGTH - 1]}…"
