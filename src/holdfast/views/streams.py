"""What a stream of events brings."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.views.history import Event


@dataclass(frozen=True, slots=True)
class Streamed:
    """One step of a stream: an event, or word that what was read before may not hold any more."""

    cursor: str
    """Give it as `after` to continue after this step."""
    event: Event | None
    """None: events may be missing here. Read again what you need, then go on."""

    @property
    def is_reset(self) -> bool:
        return self.event is None
