"""Checks the values that a handler returns or saves, and encodes them as JSON that can be stored and read again.

Outputs, checkpoints, names and messages all come through here, also from a handler's process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from enum import Enum
from types import NoneType
from typing import Any

import orjson

from holdfast.define.plain import is_short
from holdfast.errors import Code, Permanent

DEPTH_LIMIT = 128
"""How deep a value may be nested. A result or a fan-in that wraps the value must still be written and read."""
CHECKPOINT_BYTES = 4 << 20
"""How large a checkpoint may be: the claim of every further attempt carries it."""
CHECKPOINT_NAME_BYTES = 200
ARTIFACT_NAME_BYTES = 1024
PROGRESS_LENGTH = 1000
FAR_BEYOND = 4
"""A value this many times too large is not encoded; below that, the error says how large the value is."""
MESSAGE_LIMIT = 16_384
"""How much of a failure's message is kept, in characters: rules may match any part of it."""
WORD_LIMIT = 100
"""How long a code may be, in characters."""
_LEAVES = frozenset((int, bool, NoneType))
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class NotStorable(Exception):
    """A value cannot be stored. The text continues a sentence whose subject is the value."""

    def __init__(self, message: str, code: Code = Code.CONTRACT_VIOLATION) -> None:
        super().__init__(message)
        self.code = code


def encoded(value: Any, limit_bytes: int) -> bytes:
    """The value as JSON. It is checked before: the encoder would write NaN as null, and has no size limit."""
    try:
        if not is_short(value):
            _look(value, limit_bytes)
        text = orjson.dumps(value)
    except NotStorable:
        raise
    except orjson.JSONEncodeError as error:
        raise NotStorable(f"cannot be stored as JSON: {error}") from None
    except Exception as error:
        # Reading an object may run code of the handler, which may raise anything.
        raise NotStorable(f"cannot be stored as JSON: {type(error).__name__}: {error}") from None
    return _fitting(text, limit_bytes)


def checked(text: bytes, limit_bytes: int) -> bytes:
    """JSON from a handler's process, checked as strictly as `encoded` checks a value."""
    _fitting(text, limit_bytes)
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise NotStorable(f"is not JSON: {error}") from None
    _look(value, limit_bytes)
    return text


def checkpoint(name: str, data: Any) -> bytes:
    """The data of a checkpoint as JSON, if name and data can be stored."""
    check_name("a checkpoint", name, CHECKPOINT_NAME_BYTES)
    try:
        return encoded(data, CHECKPOINT_BYTES)
    except NotStorable as problem:
        raise Permanent(f"checkpoint '{name}' {problem}", problem.code) from None


def progress(done: Any, total: Any, text: Any) -> dict[str, Any]:
    """The progress of an attempt as it is shown; a long text is cut."""
    shown = str(text)
    if len(shown) > PROGRESS_LENGTH:
        shown = f"{shown[: PROGRESS_LENGTH - 1]}…"
    values = {"done": done, "total": total, "text": storable(shown)}
    try:
        # Checked here, so that the handler fails and not the heartbeat.
        encoded(values, 8 * PROGRESS_LENGTH)
    except NotStorable as problem:
        raise Permanent(f"the progress {problem}", problem.code) from None
    return values


def check_name(what: str, name: Any, limit_bytes: int) -> None:
    if not isinstance(name, str):
        fault = f"the name of {what} must be text, not {type(name).__name__}"
    elif any("\ud800" <= letter <= "\udfff" for letter in name):
        fault = f"the name of {what} is not UTF-8: {name!a}; give it another one"
    elif not 1 <= len(name.encode()) <= limit_bytes:
        fault = f"{what} needs a name of 1 to {limit_bytes:,} bytes, and this one has {len(name.encode()):,}"
    elif "\0" in name:
        fault = f"the name of {what} holds a NUL character: {name!a}"
    else:
        return
    raise Permanent(fault, Code.CONTRACT_VIOLATION)


def storable(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text as Postgres can store it, cut at `limit` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}… (cut off: it has {len(text):,} characters)"
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def word(value: Any) -> str:
    """The value as a code or a name: one short line."""
    text = " ".join(storable(str(value if value is not None else "")).split())
    return text if len(text) <= WORD_LIMIT else f"{text[: WORD_LIMIT - 1]}…"


def _fitting(text: bytes, limit_bytes: int) -> bytes:
    if len(text) > limit_bytes:
        raise NotStorable(f"has {len(text):,} bytes; at most {limit_bytes:,} can be stored", Code.PAYLOAD_REFUSED)
    if b"\\u0000" in text and _NUL.search(text) is not None:
        # After an escaped backslash, `u0000` is ordinary text; the pattern skips that.
        raise NotStorable("contains a NUL character, which Postgres cannot store", Code.PAYLOAD_REFUSED)
    return text


def _look(value: Any, limit_bytes: int) -> None:
    """Check a value level by level. The limits on depth and size also stop at a value that contains itself."""
    level, size = [value], 0
    for _ in range(DEPTH_LIMIT + 1):
        deeper: list[Any] = []
        for one in level:
            kind = type(one)
            if kind in _LEAVES:
                continue
            if kind is str:
                size += len(one)
            elif kind is dict:
                deeper += one
                deeper += one.values()
            elif kind is list or kind is tuple:
                deeper += one
            elif kind is not float:
                deeper += _parts(one)
            elif not math.isfinite(one):
                raise NotStorable("contains NaN or an infinity, which JSON does not have")
            if size + len(deeper) > FAR_BEYOND * limit_bytes:
                message = f"has far more than {limit_bytes:,} bytes; no more can be stored"
                raise NotStorable(message, Code.PAYLOAD_REFUSED)
        if not deeper:
            return
        level, size = deeper, size + len(deeper)
    raise NotStorable(f"is nested more than {DEPTH_LIMIT} levels deep")


def _parts(value: Any) -> Sequence[Any]:
    """What the encoder will read of a value that is not plain. Code of the handler runs here, where it may raise: an
    exception inside the encoder would end the process."""
    if isinstance(value, Enum):
        return (value.value,)
    if isinstance(value, dict):
        return (*dict.keys(value), *dict.values(value))
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    if isinstance(value, str):
        return (str.__getitem__(value, slice(None)),)
    if isinstance(value, datetime | time):
        return (value.isoformat(),)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return ()
