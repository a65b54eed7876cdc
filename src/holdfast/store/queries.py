"""Loads the named statements from `sql/*.sql`: `-- name: x` begins one, the lines under it say what for."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from holdfast.errors import Bug

_HEADING = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def query(name: str) -> bytes:
    """The statement of that name. Bytes, because the driver takes them as trusted text."""
    found = _all_queries().get(name)
    if found is None:
        raise Bug(f"there is no statement named {name} in store/sql")
    return found


@cache
def _all_queries() -> dict[str, bytes]:
    statements: dict[str, bytes] = {}
    for file in sorted(resources.files("holdfast.store.sql").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _HEADING.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in statements:
                raise Bug(f"two statements are named {name}")
            lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
            statements[name] = "\n".join(lines).strip().rstrip(";").encode()
    return statements
