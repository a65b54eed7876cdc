"""What a handler hands over, as JSON that can be stored and read again; or why it cannot be.

Outputs, checkpoints, names, messages: they all come through here, also from a handler's process.
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
"""How many levels deep a value may be nested: a result or a fan-in that wraps it must still be written and read."""
CHECKPOINT_BYTES = 4 << 20
"""How large a checkpoint may be: it says where to go on, and comes with the claim of every further attempt."""
CHECKPOINT_NAME_BYTES = 200
ARTIFACT_NAME_BYTES = 1024
PROGRESS_LENGTH = 1000
FAR_BEYOND = 4
"""So many times too large, a value is not even encoded; below that, people hear how large it is."""
MESSAGE_LIMIT = 16_384
"""How much of a failure's message is kept, in characters: rules may look for words in all of it."""
WORD_LIMIT = 100
"""How long a code may be."""
_LEAVES = frozenset((int, bool, NoneType))
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class NotStorable(Exception):
    """What is wrong with a value: the rest of a sentence that begins with its name."""

    def __init__(self, message: str, code: Code = Code.CONTRACT_VIOLATION) -> None:
        super().__init__(message)
        self.code = code


def encoded(value: Any, limit_bytes: int) -> bytes:
    """The value as JSON. It is looked at first: the encoder writes NaN as null, and makes no more than is allowed."""
    try:
        if not is_short(value):
            _look(value, limit_bytes)
        text = orjson.dumps(value)
    except NotStorable:
        raise
    except orjson.JSONEncodeError as error:
        raise NotStorable(f"cannot be stored as JSON: {error}") from None
    except Exception as error:
        # Whatever an object of the handler's own does when somebody looks at it.
        raise NotStorable(f"cannot be stored as JSON: {type(error).__name__}: {error}") from None
    return _fitting(text, limit_bytes)


def checked(text: bytes, limit_bytes: int) -> bytes:
    """JSON from a handler's process, if it is what `encoded` would have made."""
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
    """How far an attempt is, as it is shown; of a long text the beginning."""
    words = str(text)
    if len(words) > PROGRESS_LENGTH:
        words = f"{words[: PROGRESS_LENGTH - 1]}…"
    found = {"done": done, "total": total, "text": storable(words)}
    try:
        # Refused here, where the handler hears of it, and not in the heartbeat.
        encoded(found, 8 * PROGRESS_LENGTH)
    except NotStorable as problem:
        raise Permanent(f"the progress {problem}", problem.code) from None
    return found


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
    """Text that Postgres takes, and no more of it than anybody reads."""
    if len(text) > limit:
        text = f"{text[:limit]}… (cut off: it has {len(text):,} characters)"
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def word(given: Any) -> str:
    """A code or a name: one line, and short."""
    text = " ".join(storable(str(given if given is not None else "")).split())
    return text if len(text) <= WORD_LIMIT else f"{text[: WORD_LIMIT - 1]}…"


def _fitting(text: bytes, limit_bytes: int) -> bytes:
    if len(text) > limit_bytes:
        raise NotStorable(f"has {len(text):,} bytes; at most {limit_bytes:,} can be stored", Code.PAYLOAD_REFUSED)
    if b"\\u0000" in text and _NUL.search(text) is not None:
        # Behind an escaped backslash it is the harmless text of such an escape.
        raise NotStorable("contains a NUL character, which Postgres cannot store", Code.PAYLOAD_REFUSED)
    return text


def _look(value: Any, limit_bytes: int) -> None:
    """Level by level, until one is too deep or there is more of it than fits; a value that contains itself ends too."""
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
    """What the encoder sees of a value that is not plain. Code of the handler's own runs and fails here, in Python: an
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
