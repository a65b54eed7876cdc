"""Loads the named statements from `sql/catalog.sql`: `-- name: x` begins one, the lines under it say what for."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_HEADING = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def query(name: str) -> bytes:
    """The statement of that name. Bytes, because the driver takes them as trusted text."""
    return _all_queries()[name]


@cache
def _all_queries() -> dict[str, bytes]:
    text = resources.files("holdfast.apps.catalog.sql").joinpath("catalog.sql").read_text(encoding="utf-8")
    parts = _HEADING.split(text)
    return {name: _without_comments(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _without_comments(body: str) -> bytes:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().rstrip(";").encode()
