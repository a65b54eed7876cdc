"""Checks the values that a handler returns or saves, and encodes them as JSON that can be stored and read again.

Outputs, checkpoints, names and messages all come through here, also from a handler's process.
"""

from __future__ import annotations

import math
import re
from types import NoneType
from typing import Any

import orjson

from holdfast.define.plain import is_short
from holdfast.define.python_values import MAX_DEPTH, TooLarge, Unfit, to_plain
from holdfast.errors import CODE_LENGTH, CODE_PATTERN, CODE_RULE, Code, Permanent, cut
from holdfast.masking import beginning, json_without_task_secrets, masked, without_task_secrets

DEPTH_LIMIT = MAX_DEPTH
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
"""How long the name of a dependency may be, in characters."""
_LEAVES = frozenset((int, bool, NoneType))
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class NotStorable(Exception):
    """A value cannot be stored. The text continues a sentence whose subject is the value."""

    def __init__(self, message: str, code: Code = Code.CONTRACT_VIOLATION) -> None:
        super().__init__(message)
        self.code = code


def encoded(value: Any, limit_bytes: int, name: str = "output") -> bytes:
    """The value as JSON, in which it is called `name`. It is checked before: the encoder has no size limit."""
    if not is_short(value) and not _is_plain(value, limit_bytes):
        value = plain(value, limit_bytes, name)
        _is_plain(value, limit_bytes)
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        # The encoder does not say where.
        plain(value, limit_bytes, name)
        raise NotStorable(f"cannot be stored as JSON: {error}") from None
    return _fitting(text, limit_bytes)


def plain(value: Any, limit_bytes: int, name: str = "output") -> Any:
    """The value with types of JSON only: dates, paths, dataclasses, numpy's scalars and others are converted."""
    try:
        return to_plain(value, name, max_parts=FAR_BEYOND * limit_bytes)
    except TooLarge:
        raise _far_beyond(limit_bytes) from None
    except Unfit as problem:
        raise NotStorable(f"cannot be stored: {problem}") from None
    except Exception as error:
        # Reading an object may run code of the handler, which may raise anything.
        raise NotStorable(f"cannot be stored as JSON: {type(error).__name__}: {error}") from None


def checked(text: bytes, limit_bytes: int) -> bytes:
    """JSON from a handler's process, checked as strictly as `encoded` checks a value."""
    _fitting(text, limit_bytes)
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise NotStorable(f"is not JSON: {error}") from None
    _is_plain(value, limit_bytes)
    return text


def checkpoint(name: str, data: Any) -> bytes:
    """The data of a checkpoint as JSON, if name and data can be stored. Secrets in it are masked."""
    check_name("a checkpoint", name, CHECKPOINT_NAME_BYTES)
    try:
        return encoded(data, CHECKPOINT_BYTES, "data")
    except NotStorable as problem:
        raise Permanent(f"checkpoint '{name}' {problem}", problem.code) from None


def progress(done: Any, total: Any, text: Any) -> dict[str, Any]:
    """The progress of an attempt as it is shown; a long text is cut."""
    shown = without_task_secrets(str(text))
    if len(shown) > PROGRESS_LENGTH:
        shown = f"{shown[: PROGRESS_LENGTH - 1]}…"
    numbers = {"done": done, "total": total}
    values = {
        **{
            name: value if isinstance(value, int | float) else without_task_secrets(value)
            for name, value in numbers.items()
        },
        "text": storable(shown),
    }
    try:
        # Checked here, so that the handler fails and not the heartbeat.
        encoded(values, 8 * PROGRESS_LENGTH, "progress")
        plain_values: dict[str, Any] = plain(values, 8 * PROGRESS_LENGTH, "progress")
    except NotStorable as problem:
        raise Permanent(f"the progress {problem}", problem.code) from None
    return plain_values


def check_name(what: str, name: Any, limit_bytes: int) -> None:
    if not isinstance(name, str):
        fault = f"the name of {what} must be text, not {type(name).__name__}"
    elif without_task_secrets(name) != name:
        fault = f"the name of {what} has a secret in it; give it another one"
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
        text = f"{beginning(text, limit)}… (cut off: it has {len(text):,} characters)"
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def word(value: Any) -> str:
    """The value as a name: one short line."""
    text = " ".join(without_task_secrets(storable(str(value if value is not None else ""))).split())
    return text if len(text) <= WORD_LIMIT else f"{text[: WORD_LIMIT - 1]}…"


def failure_code(value: Any) -> tuple[str, str]:
    """The value as the code of a failure, and what to add to its message if it is none. Raises nothing."""
    try:
        text = str.__str__(value) if isinstance(value, str) else str("" if value is None else value)
    except BaseException:
        text = None
    if text == "":
        return str(Code.HANDLER_ERROR), ""
    if text is not None and CODE_PATTERN.match(text) and without_task_secrets(text) == text:
        return text, ""
    shown = cut(repr(beginning(text, WORD_LIMIT + 1))) if text is not None else f"of type {type(value).__name__}"
    return _as_code(text or ""), f" (its code {shown} is not valid: {CODE_RULE})"


def _as_code(text: str) -> str:
    """The nearest code, so that rules and filters still find the failure: not.found becomes NOT_FOUND."""
    words = re.sub(r"[^A-Z0-9]+", "_", masked(text[:MESSAGE_LIMIT]).upper()).strip("_")
    code = f"E{words}" if words[:1].isdigit() else words
    return code[:CODE_LENGTH] or str(Code.HANDLER_ERROR)


def _fitting(text: bytes, limit_bytes: int) -> bytes:
    """The text as it is stored: without the secrets of tasks."""
    if len(text) > limit_bytes:
        raise NotStorable(f"has {len(text):,} bytes; at most {limit_bytes:,} can be stored", Code.PAYLOAD_REFUSED)
    if b"\\u0000" in text and _NUL.search(text) is not None:
        # After an escaped backslash, `u0000` is ordinary text; the pattern skips that.
        raise NotStorable("contains a NUL character, which Postgres cannot store", Code.PAYLOAD_REFUSED)
    return json_without_task_secrets(text)


def _is_plain(value: Any, limit_bytes: int) -> bool:
    """Whether a value has types of JSON only, level by level. The limits on depth and size also stop at a value that
    contains itself."""
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
            elif kind is not float or not math.isfinite(one):
                return False
            if size + len(deeper) > FAR_BEYOND * limit_bytes:
                raise _far_beyond(limit_bytes)
        if not deeper:
            return True
        level, size = deeper, size + len(deeper)
    raise NotStorable(f"is nested more than {DEPTH_LIMIT} levels deep")


def _far_beyond(limit_bytes: int) -> NotStorable:
    return NotStorable(f"has far more than {limit_bytes:,} bytes; no more can be stored", Code.PAYLOAD_REFUSED)
