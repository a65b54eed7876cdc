"""How often and how soon a failed attempt is tried again. Pure data; core/retrying.py computes the delays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class Backoff(StrEnum):
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    SCHEDULE = "schedule"


class Jitter(StrEnum):
    NONE = "none"
    FULL = "full"
    EQUAL = "equal"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Retry:
    """A node's retry policy with every default filled in."""

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay_seconds: float = 1.0
    max_delay_seconds: float = 300.0
    jitter: Jitter = Jitter.FULL
    schedule: tuple[float, ...] = ()
    jitter_seconds: tuple[float, float] = (0.0, 0.0)
    """The least and the most that the jitter `range` adds to the pause."""
    retry_on: tuple[str, ...] | None = None
    """The codes that are retried. None: all that are not permanent."""
    stated: frozenset[str] = field(init=False, repr=False, compare=False)
    """The fields that the author of a workflow gave. The others are defaults: for a node those of its workflow, then
    those of the installation."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        # The class before @dataclass gave it slots is another one, so `super()` would not find this one.
        self = object.__new__(cls)
        object.__setattr__(self, "stated", frozenset([*cls.__match_args__[: len(values)], *named]))
        return self

    @classmethod
    def filled(cls, stated: Mapping[str, Any], default: Retry) -> Retry:
        """The retry of an author who gave these fields. The defaults adapt to them, so that they never contradict."""
        # What a default itself has adapted to does not count: a file may say something else.
        otherwise: dict[str, Any] = {
            name: getattr(default if name in default.stated else _BUILT_IN, name) for name in _FIELDS
        }
        schedule = stated.get("schedule", ())
        if schedule:
            otherwise |= {"max_retries": len(schedule), "jitter": Jitter.NONE, "jitter_seconds": (0.0, 0.0)}
        if "jitter" in stated:
            otherwise["jitter_seconds"] = (0.0, 0.0)
        given = {**otherwise, **stated}
        if "max_delay_seconds" not in stated:
            given["max_delay_seconds"] = max(given["max_delay_seconds"], given["initial_delay_seconds"], *schedule)
        if "initial_delay_seconds" not in stated:
            given["initial_delay_seconds"] = min(given["initial_delay_seconds"], given["max_delay_seconds"])
        if schedule:
            given["backoff"] = Backoff.SCHEDULE
        return cls(**given)._stating(stated)

    def with_default(self, default: Retry) -> Retry:
        """The same with other defaults."""
        return Retry.filled({name: getattr(self, name) for name in self.stated}, default)

    def forgetting(self) -> Retry:
        """The same without what the author gave: fields that differ from the built-in defaults count as given."""
        return Retry.from_json({key: value for key, value in self.to_json().items() if key != "stated"})

    def _stating(self, names: Iterable[str]) -> Self:
        object.__setattr__(self, "stated", frozenset(names))
        return self

    def to_json(self) -> dict[str, Any]:
        """Leaves out unused keys of later versions, so that upgrades do not change a definition's hash."""
        later: dict[str, Any] = {}
        if self.stated != _differing(self):
            later["stated"] = sorted(self.stated)
        if self.jitter is Jitter.RANGE:
            later["jitter_seconds"] = list(self.jitter_seconds)
        if self.retry_on is not None:
            later["retry_on"] = list(self.retry_on)
        return later | {
            "max_retries": self.max_retries,
            "backoff": str(self.backoff),
            "initial_delay_seconds": self.initial_delay_seconds,
            "max_delay_seconds": self.max_delay_seconds,
            "jitter": str(self.jitter),
            "schedule": list(self.schedule),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Retry:
        read = cls(
            max_retries=data["max_retries"],
            backoff=Backoff(data["backoff"]),
            initial_delay_seconds=data["initial_delay_seconds"],
            max_delay_seconds=data["max_delay_seconds"],
            jitter=Jitter(data["jitter"]),
            schedule=tuple(data["schedule"]),
            jitter_seconds=tuple(data.get("jitter_seconds", (0.0, 0.0))),
            retry_on=tuple(data["retry_on"]) if "retry_on" in data else None,
        )
        return read._stating(data.get("stated", _differing(read)))


_FIELDS = Retry.__match_args__
_BUILT_IN = Retry()


def _differing(retry: Retry) -> frozenset[str]:
    """The fields that the author must have given: what is not stored otherwise."""
    return frozenset(name for name in _FIELDS if getattr(retry, name) != getattr(_BUILT_IN, name))
