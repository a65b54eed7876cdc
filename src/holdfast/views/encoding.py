"""From a view to JSON: one function for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from holdfast.moments import moment

LEAVES = frozenset({str, int, float, bool, type(None)})
"""Most values: they are JSON as they are."""
HIDDEN: Mapping[str, Any] = {"json": None}
"""Metadata of a field that programs may use and JSON leaves out."""
LOCAL: Mapping[str, Any] = {"json": None, "local": True}
"""Metadata of a field that is of use only in the process that made the view: it never travels."""
IF_ANY: Mapping[str, Any] = {"if_any": True}
"""Metadata of a field that JSON leaves out while it is None or an empty tuple."""
VERBATIM: Mapping[str, Any] = {"verbatim": True}
"""Metadata of a field that holds JSON already, however large: it is not copied."""


def named(key: str) -> Mapping[str, Any]:
    """Metadata of a field whose key Python does not take as a name."""
    return {"json": key}


def to_json(view: Any) -> Any:
    """What `json.dumps` takes: views become objects with their fields in order, times RFC 3339 texts in UTC."""
    if type(view) in LEAVES:
        return view
    if is_dataclass(view) and not isinstance(view, type):
        answer = {}
        for name, key, metadata in _keys(type(view)):
            value = getattr(view, name)
            if "if_any" not in metadata or (value is not None and value != ()):
                answer[key] = value if "verbatim" in metadata else to_json(value)
        return answer
    if isinstance(view, datetime):
        return moment(view)
    if isinstance(view, Enum):
        return view.value
    if isinstance(view, list | tuple):
        return [to_json(one) for one in view]
    if isinstance(view, Mapping):
        return {key: to_json(value) for key, value in view.items()}
    return view


@cache
def _keys(kind: Any) -> tuple[tuple[str, str, Mapping[str, Any]], ...]:
    """Each field of a view with its key in JSON."""
    found = ((one.name, one.metadata.get("json", one.name), one.metadata) for one in fields(kind))
    return tuple((name, key, metadata) for name, key, metadata in found if key is not None)
