"""The wire format between a worker, its fork server and the processes of handlers: JSON behind its length."""

from __future__ import annotations

import socket
import struct
from typing import Any

import orjson

LENGTH = struct.Struct("!I")

FORK, KILL = b"f", b"k"
REQUEST = struct.Struct("!cQ")
"""To the fork server: what to do with which child, by its number."""

STARTED, NOT_STARTED, ENDED = b"s", b"n", b"e"
NEWS = struct.Struct("!cQi")
"""From the fork server: what happened to which child, with its process id, its error number or its exit code."""


def frame(message: dict[str, Any]) -> bytes:
    body = orjson.dumps(message)
    return LENGTH.pack(len(body)) + body


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the other end has closed."""
    header = _exactly(channel, LENGTH.size)
    body = _exactly(channel, LENGTH.unpack(header)[0]) if header else None
    return orjson.loads(body) if body else None


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = channel.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
