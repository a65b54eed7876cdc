"""Postgres array literals, written directly: a cycle sends its rows as columns, a thousand at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from holdfast.core.failing import Failure


def plain(values: Iterable[Any]) -> str:
    """Numbers, booleans, uuids and words that need no quoting; None is null."""
    given = tuple(values)
    if None not in given:
        if given and given.count(given[0]) == len(given):
            return "{" + ",".join([str(given[0])] * len(given)) + "}"
        return "{" + ",".join(map(str, given)) + "}"
    return "{" + ",".join(["null" if v is None else str(v) for v in given]) + "}"


def texts(values: Iterable[str | None]) -> str:
    """Any text. NUL cannot be stored by Postgres and is dropped. A column repeats itself: each is quoted once."""
    given = tuple(values)
    quoted = {v: "null" if v is None else _quoted(v) for v in set(given)}
    return "{" + ",".join([quoted[v] for v in given]) + "}"


def jsons(values: Iterable[Any]) -> str:
    """JSON values; bytes are taken as JSON that is already written, None is null."""
    return "{" + ",".join(["null" if v is None else _quoted(_json(v)) for v in values]) + "}"


def failures(values: Iterable[Failure | None]) -> str:
    """Failures as JSON values; None is null."""
    return jsons([None if v is None else v.to_json() for v in values])


def _json(value: Any) -> str:
    return (value if isinstance(value, bytes) else orjson.dumps(value)).decode()


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    if "\0" in text:
        text = text.replace("\0", "")
    return f'"{text}"'
