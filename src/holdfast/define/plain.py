"""What counts as plain JSON data: values that survive the way into the database and back unchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import orjson

from holdfast.define.source import Path

MAX_DEPTH = 64
MAX_FAULTS = 20
SHOWN_LENGTH = 100


def faults(value: Any, path: Path = ()) -> list[tuple[Path, str]]:
    """Where and why a value is not plain; the first few only, for a value may have thousands."""
    found: list[tuple[Path, str]] = []
    for fault in _walk(value, path, 0):
        found.append(fault)
        if len(found) == MAX_FAULTS:
            break
    return found


def canonical_size(value: Any) -> int:
    """The size in bytes of a plain value as canonical JSON."""
    return len(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def shortened(value: Any) -> str:
    """A plain value as JSON, for a sentence: no more of it than anybody reads."""
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= SHOWN_LENGTH else f"{text[: SHOWN_LENGTH - 1]}…"


def kind_of(value: Any) -> str:
    """What a plain value is, in the words of JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = (str, int, float, list | tuple)
    names = ("a string", "an integer", "a number", "an array")
    return next((name for kind, name in zip(kinds, names, strict=True) if isinstance(value, kind)), "an object")


def parse_json(text: str) -> Any:
    """Strict JSON: no NaN, no duplicate keys. Raises ValueError with a message for people."""
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
            yield from ((path, f"has a key that {fault}") for fault in _text_faults(key))
            yield from _walk(item, (*path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index), depth + 1)
    else:
        yield path, f"is a {type(value).__name__}, which is not JSON"


def _text_faults(text: str) -> Iterator[str]:
    if "\0" in text:
        yield "holds a NUL character"
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        yield "holds half of a surrogate pair"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"the key '{key}' is given twice")
        data[key] = value
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
