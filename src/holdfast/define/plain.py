"""Plain JSON data: values that do not change on their way into the database and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from types import NoneType
from typing import Any

import orjson

from holdfast.define.source import Path
from holdfast.errors import cut

MAX_DEPTH = 64
MAX_BUILT_DEPTH = 200
"""A value that contains data is deeper than the data. orjson writes at most 254 levels."""
MAX_FAULTS = 20
REMEMBERED_BYTES = 16 * 1024
SHORT_LENGTH, SHORT_TEXT = 32, 1000
_LEAVES = frozenset((int, bool, NoneType))
_UNKNOWN = (None, 1, 1)


def faults(value: Any, path: Path = ()) -> list[tuple[Path, str]]:
    """The first few places where a value is not plain, with the reason."""
    first: list[tuple[Path, str]] = []
    for fault in _walk(value, path, 0):
        first.append(fault)
        if len(first) == MAX_FAULTS:
            break
    return first


def canonical_size(value: Any) -> int:
    """The size in bytes of a plain value as canonical JSON."""
    return len(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def is_short(value: Any) -> bool:
    """Whether it is a short object of plain values, as most params and outputs are. These need no further checks."""
    if type(value) is not dict or len(value) > SHORT_LENGTH:
        return False
    for key, item in value.items():
        kind = type(item)
        if type(key) is not str or not (kind in _LEAVES or (kind is str and len(item) <= SHORT_TEXT)):
            return False
    return True


def may_be_deep(size_bytes: int) -> bool:
    """Whether values of at most that size as JSON may be too deep with all that is put around them.

    Each level takes two bytes.
    """
    return size_bytes > MAX_BUILT_DEPTH


class OutsizedError(ValueError):
    """A value is too large or too deep. The text is the end of a sentence such as 'The output is …'."""


def too_large(limit_bytes: int) -> OutsizedError:
    return OutsizedError(f"larger than {limit_bytes:,} bytes")


class Sizes:
    """Measures how large values are as JSON without writing them.

    A template inserts values by reference: a text of one megabyte that it inserts a thousand times becomes a
    gigabyte only when it is written. Each large value is measured once.
    """

    def __init__(self) -> None:
        # Keeps the value too: as long as it lives, no other value has its id.
        self._remembered: dict[int, tuple[Any, int, int]] = {}

    def bound(self, value: Any, limit_bytes: int) -> None:
        """Raises OutsizedError if the value certainly has too many bytes or levels.

        The estimate is a lower bound: escapes can make the text six times as large. Check again after writing it.
        """
        if isinstance(value, (dict, list)):
            self._measure(value, limit_bytes, 0)
        elif isinstance(value, str) and len(value) > limit_bytes:
            raise too_large(limit_bytes)

    def _measure(self, value: dict[str, Any] | list[Any], limit_bytes: int, depth: int) -> tuple[int, int]:
        """A lower bound of the size of an object or list, and its levels."""
        _, size, levels = self._remembered.get(id(value), _UNKNOWN)
        if depth + levels > MAX_BUILT_DEPTH:
            raise OutsizedError(f"nested more than {MAX_BUILT_DEPTH} levels deep")
        if size > 1:
            return size, levels
        within: Any = value
        if isinstance(value, dict):
            size += sum(map(len, value)) + 3 * len(value)
            within = value.values()
        for item in within:
            if isinstance(item, str):
                size += len(item) + 3
            elif isinstance(item, (dict, list)):
                inner, deeper = self._measure(item, limit_bytes, depth + 1)
                size += inner + 1
                levels = max(levels, deeper + 1)
            else:
                size += 2
            if size > limit_bytes:
                raise too_large(limit_bytes)
        if size >= REMEMBERED_BYTES:
            self._remembered[id(value)] = (value, size, levels)
        return size, levels


def shortened(value: Any) -> str:
    """A plain value as JSON, shortened for a message."""
    return cut(orjson.dumps(value, default=str).decode())


def kind_of(value: Any) -> str:
    """The JSON type of a plain value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = (str, int, float, list | tuple)
    names = ("a string", "an integer", "a number", "an array")
    return next((name for kind, name in zip(kinds, names, strict=True) if isinstance(value, kind)), "an object")


def sized_kind_of(value: Any) -> str:
    """The same with its size, for a value that is not repeated in a message: `a string of 12 characters`."""
    units: dict[type, str] = {str: "character", list: "element", dict: "key"}
    unit = units.get(type(value))
    if unit is None:
        return kind_of(value)
    return f"{kind_of(value)} of {len(value):,} {unit if len(value) == 1 else f'{unit}s'}"


def parse_json(text: str) -> Any:
    """Parses strict JSON: no NaN, no duplicate keys. Raises ValueError with a message for users."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None


def _walk(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
    if depth > MAX_DEPTH:
        yield path, f"is nested more than {MAX_DEPTH} levels deep"
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, str):
        yield from ((path, fault) for fault in _text_faults(value))
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            yield path, "does not fit into 64 bits"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, "is not a finite number"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield path, f"has the key {key!r:.40}, which is not text"
                continue
            if not _is_plain(key):
                yield from ((path, f"has a key that {fault}") for fault in _text_faults(key))
            if depth == MAX_DEPTH or not _is_plain(item):
                yield from _walk(item, (*path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if depth == MAX_DEPTH or not _is_plain(item):
                yield from _walk(item, (*path, index), depth + 1)
    else:
        yield path, f"is a {type(value).__name__}, which is not JSON"


def _is_plain(value: Any) -> bool:
    """A fast check that passes most values: there may be millions of them."""
    kind = type(value)
    if kind is str:
        return value.isascii() and "\0" not in value
    return (kind is int and -(2**63) <= value < 2**63) or value is None or kind is bool


def _text_faults(text: str) -> Iterator[str]:
    if "\0" in text:
        yield "contains a NUL character"
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        yield "contains half of a surrogate pair"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"the key '{cut(key)}' appears twice")
        data[key] = value
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
