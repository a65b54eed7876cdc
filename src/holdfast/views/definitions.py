"""The definition and the inputs that a generation of a job follows, and how a correction changed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from holdfast.define.changes import differences
from holdfast.define.definition import Definition
from holdfast.define.definition_text import definition_text, difference_lines
from holdfast.errors import Refused
from holdfast.store.read_rows import Corrected as CorrectedRow
from holdfast.store.read_rows import Pin
from holdfast.views.encoding import HIDDEN, VERBATIM

Read = Definition | Refused
"""A stored definition, or why this version cannot read it."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A correction of a job: the generation that it began, when, by whom and why."""

    generation: int
    at: datetime
    by: str | None
    reason: str | None
    changes: tuple[str, ...]
    """`inputs.NAME`, and the parts of the workflow that differ."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input that a correction changed."""

    name: str
    change: str
    """`changed`, `new` or `gone`."""
    before: Any = field(metadata=VERBATIM)
    after: Any = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class DefinitionChanges:
    """How what a generation follows differs from what the one before followed."""

    inputs: tuple[InputChange, ...]
    workflow: tuple[str, ...]
    """The parts of the workflow that differ, in words."""
    lines: tuple[str, ...]
    """The same line by line: the name of each part, and below it what went (`-`) and what came (`+`)."""


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """The definition and the inputs that a generation of a job follows."""

    job_id: str
    generation: int
    since: int
    """The generation from which on it holds: 1, or one that a correction began."""
    workflow_id: str
    version: str
    definition_hash: str
    inputs: dict[str, Any] = field(metadata=VERBATIM)
    changes: DefinitionChanges | None
    """What differs from the generation before; None if no correction began this one."""
    corrections: tuple[Corrected, ...]
    """All corrections of the job, oldest first."""
    unreadable: str | None
    """Why this version cannot read the definition; then it is shown as it is stored."""
    definition: dict[str, Any] = field(metadata=VERBATIM)
    present: int = field(default=1, metadata=HIDDEN)
    """The generation that the job has now."""
    text: str | None = field(default=None, metadata=HIDDEN)
    """The definition as people read it; None if it cannot be read."""


def corrected_view(row: CorrectedRow | Pin | None) -> Corrected | None:
    if row is None:
        return None
    data = row.data or {}
    return Corrected(
        row.generation, row.at, data.get("actor"), data.get("reason") or None, tuple(data.get("corrected", ()))
    )


def definition_view(
    job_id: str, generation: int, pins: Sequence[Pin], stored: Mapping[str, bytes], read: Mapping[str, Read]
) -> JobDefinition:
    """`pins` are all of the job; the definitions are those of this generation and of the one before, by hash."""
    place = max(number for number, pin in enumerate(pins) if pin.generation <= generation)
    pin, definition = pins[place], read[pins[place].definition_hash]
    is_corrected = place > 0 and pin.generation == generation
    return JobDefinition(
        job_id,
        generation,
        pin.generation,
        pin.workflow_id,
        pin.version,
        pin.definition_hash,
        pin.inputs,
        _changes(pins[place - 1], pin, read) if is_corrected else None,
        tuple(one for one in map(corrected_view, pins[1:]) if one is not None),
        definition.message if isinstance(definition, Refused) else None,
        orjson.loads(stored[pin.definition_hash]) if isinstance(definition, Refused) else definition.to_json(),
        pin.present,
        definition_text(definition) if isinstance(definition, Definition) else None,
    )


def _changes(before: Pin, after: Pin, read: Mapping[str, Read]) -> DefinitionChanges:
    inputs = tuple(_input_changes(before.inputs, after.inputs))
    if before.definition_hash == after.definition_hash:
        return DefinitionChanges(inputs, (), ())
    old, new = read[before.definition_hash], read[after.definition_hash]
    if isinstance(old, Refused) or isinstance(new, Refused):
        return DefinitionChanges(inputs, ("this version cannot read both definitions",), ())
    return DefinitionChanges(inputs, tuple(differences(old, new)), tuple(difference_lines(old, new)))


def _input_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[InputChange]:
    found = []
    for name in sorted({**before, **after}):
        change = "new" if name not in before else "gone" if name not in after else "changed"
        # As JSON, because 1, 1.0 and true are equal for Python.
        if change != "changed" or _json(before[name]) != _json(after[name]):
            found.append(InputChange(name, change, before.get(name), after.get(name)))
    return found


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
