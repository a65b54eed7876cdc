"""How a definition looks to people: YAML, part by part, with every default filled in and without empty keys."""

from __future__ import annotations

import io
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from typing import Any

from holdfast.define.definition import Definition

LINES_AROUND = 1
"""How many lines without a change are shown on either side of one."""
_NAMED = {"nodes": "node", "inputs": "input", "breakers": "breaker"}
"""The parts that are lists of named ones, and what one of them is called."""
_AS_IT_IS = frozenset({"params", "enum", "output_schema"})
"""Keys whose values are data of the author: null and empty texts are values there."""


def definition_text(definition: Definition) -> str:
    """The whole definition."""
    return _text(_shown(definition))


def difference_lines(before: Definition, after: Definition) -> list[str]:
    """The parts that differ, each with its name and the lines that went and came: `- title: tital`."""
    old, new = _parts(before), _parts(after)
    lines: list[str] = []
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            lines += [name, *_changed_lines(old.get(name, ""), new.get(name, ""))]
    return lines


def _changed_lines(before: str, after: str) -> Iterator[str]:
    compared = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=LINES_AROUND)
    # The first three lines name the files and the place of the first change.
    for line in islice(compared, 3, None):
        yield "    …" if line.startswith("@@") else f"  {line[0]} {line[1:]}".rstrip()


def _parts(definition: Definition) -> dict[str, str]:
    """The text of each named part, and of what is left, by what people call it."""
    shown = _shown(definition)
    named = {f"{word} {name}": _text(part) for key, word in _NAMED.items() for name, part in shown.pop(key, {}).items()}
    return {"workflow": _text(shown)} | named


def _shown(definition: Definition) -> dict[str, Any]:
    data = definition.to_json()
    # They say where values come from, and are no part of what runs.
    data.pop("stated_of_breakers", None)
    shown: dict[str, Any] = _with_values(data)
    for key in _NAMED:
        if key in shown:
            shown[key] = {one.pop("name"): one for one in shown[key]}
    return {key: shown[key] for key in sorted(shown, key=lambda key: key in _NAMED)}


def _with_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_values(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, one in value.items():
        if f"has_{key}" in value:
            if value[f"has_{key}"]:
                kept[key] = one
        elif key in _AS_IT_IS and one:
            kept[key] = one
        elif not key.startswith("has_") and one not in (None, "", [], {}):
            kept[key] = _with_values(one)
    return kept


def _text(data: Any) -> str:
    # Most commands never show a definition: they need not wait for this import.
    from ruamel.yaml import YAML

    writer = YAML()
    writer.width = 110
    # Lists stand below their key, as people write them.
    writer.indent(mapping=2, sequence=4, offset=2)
    buffer = io.StringIO()
    writer.dump(data, buffer)
    return buffer.getvalue()
