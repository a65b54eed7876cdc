"""Turns values of Python into plain JSON data: what may be converted, how, and where a value is unfit.

Code of a user may run here, for example a property of a dataclass, and may raise anything.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from holdfast.define.source import Path, path_text

MAX_DEPTH = 128
"""How deep a value may be nested. A result or a fan-in that wraps the value must still be written and read."""
MAX_PARTS = 64 << 20
"""How many parts a value may have: a list can contain itself in small memory."""


class Unfit(ValueError):
    """A part of a value cannot become JSON. The text names its place: `output.rows[3].price is NaN`."""


class TooLarge(Unfit):
    """A value has more parts than can be stored."""


def to_plain(value: Any, name: str = "", *, max_parts: int = MAX_PARTS) -> Any:
    """The value with plain JSON types only. Raises Unfit with the place, which begins with `name`."""
    return _Conversion(max_parts).of(value, (name,) if name else ())


class _Conversion:
    """Converts one value, and counts its parts."""

    def __init__(self, max_parts: int) -> None:
        self._left = max_parts

    def of(self, value: Any, path: Path, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooLarge("it has too many parts")
        if depth > MAX_DEPTH:
            raise Unfit(f"{path_text(path[:4])}… is nested more than {MAX_DEPTH} levels deep")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str or kind is int or kind is float:
            return _checked(value, path)
        if isinstance(value, Enum):
            return self.of(value.value, path, depth + 1)
        if isinstance(value, dict):
            return dict(self._entries(dict.items(value), path, depth))
        if isinstance(value, list | tuple):
            items = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)
            return [self.of(one, (*path, index), depth + 1) for index, one in enumerate(items)]
        if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value) if not field.name.startswith("_")]
            return dict(self._entries([(name, getattr(value, name)) for name in names], path, depth))
        return self.of(_leaf(value, path), path, depth + 1)

    def _entries(self, items: Any, path: Path, depth: int) -> Iterator[tuple[str, Any]]:
        for key, item in items:
            key = key.value if isinstance(key, Enum) else key
            if not isinstance(key, str):
                raise Unfit(f"{_place(path)} has the key {key!r:.40}, which is not text")
            text = _checked(str.__str__(key), path)
            yield text, self.of(item, (*path, text), depth + 1)


def _leaf(value: Any, path: Path) -> Any:
    """The plain form of a value that has no parts."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        plain = value.item()
        if isinstance(plain, numpy.generic):
            raise _refused(value, path)
        return plain
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else float(value)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise Unfit(f"{_place(path)} is a datetime without a time zone; give it one, such as datetime.UTC")
        return value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, PurePath | UUID):
        return str(value)
    raise _refused(value, path)


def _refused(value: Any, path: Path) -> Unfit:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    hints = {"set": "; use a list", "frozenset": "; use a list", "bytes": "; use text, or publish a file"}
    return Unfit(f"{_place(path)} is of the type {name}, which JSON does not have{hints.get(name, '')}")


def _checked(value: Any, path: Path) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unfit(f"{_place(path)} is {'NaN' if math.isnan(value) else 'infinite'}, which JSON does not have")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise Unfit(f"{_place(path)} does not fit into 64 bits")
    elif not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Unfit(f"{_place(path)} contains half of a surrogate pair")
    return value


def _place(path: Path) -> str:
    return path_text(path) or "it"
