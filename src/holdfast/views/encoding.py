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
    kind: Any = type(view)
    if kind in LEAVES:
        return view
    keys = _keys(kind)
    if keys is not None:
        answer = {}
        for name, key, is_verbatim, is_optional in keys:
            value = getattr(view, name)
            if is_optional and (value is None or value == ()):
                continue
            # Most fields are leaves. A list of many views has many thousands of them: each is looked at here.
            answer[key] = value if is_verbatim or type(value) in LEAVES else to_json(value)
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
def _keys(kind: Any) -> tuple[tuple[str, str, bool, bool], ...] | None:
    """Each field of a view with its key in JSON, whether it is JSON already, and whether it may be left out.

    None: it is no view.
    """
    if not is_dataclass(kind):
        return None
    found = ((one.name, one.metadata.get("json", one.name), one.metadata) for one in fields(kind))
    return tuple((name, key, "verbatim" in given, "if_any" in given) for name, key, given in found if key is not None)
