"""Whether an event has the data that `Emitter.emit` declares for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple, NotRequired, get_args, get_origin, get_overloads, get_type_hints, is_typeddict

from holdfast.core.events import Emitter, EventName, JobCreated


class Shape(NamedTuple):
    """The keys of an event's data; an event without data has none."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()

    @property
    def keys(self) -> frozenset[str]:
        return self.required | self.optional

    def fits(self, data: Mapping[str, Any]) -> bool:
        return self.required <= data.keys() <= self.keys


def check_data(event: str, data: Mapping[str, Any] | None) -> None:
    assert any(shape.fits(data or {}) for shape in SHAPES[EventName(event)]), f"5: {event} has the data {data}"


def _shapes() -> dict[EventName, list[Shape]]:
    """The shapes that the data of each event may have, as the overloads of `emit` say."""
    shapes: defaultdict[EventName, list[Shape]] = defaultdict(list)
    shapes[EventName.JOB_CREATED].append(_shape(JobCreated))
    for overload in get_overloads(Emitter.emit):
        hints = get_type_hints(overload)
        for event in get_args(hints["event"]):
            data = hints.get("data", NoneType)
            shapes[event] += [_shape(kind) for kind in get_args(data) or (data,)]
    return dict(shapes)


def _shape(kind: Any) -> Shape:
    if not is_typeddict(kind):
        return Shape()
    hints = get_type_hints(kind, include_extras=True)
    optional = {key for key, hint in hints.items() if get_origin(hint) is NotRequired or key in kind.__optional_keys__}
    return Shape(frozenset(hints.keys() - optional), frozenset(optional))


SHAPES = _shapes()
