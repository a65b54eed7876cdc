"""How often and how soon a failed attempt is tried again. Pure data; core/retrying.py computes the delays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Backoff(StrEnum):
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    SCHEDULE = "schedule"


class Jitter(StrEnum):
    NONE = "none"
    FULL = "full"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class Retry:
    """A node's retry policy with every default filled in."""

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay_seconds: float = 1.0
    max_delay_seconds: float = 300.0
    jitter: Jitter = Jitter.FULL
    schedule: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "max_retries": self.max_retries,
            "backoff": str(self.backoff),
            "initial_delay_seconds": self.initial_delay_seconds,
            "max_delay_seconds": self.max_delay_seconds,
            "jitter": str(self.jitter),
            "schedule": list(self.schedule),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Retry:
        return cls(
            max_retries=data["max_retries"],
            backoff=Backoff(data["backoff"]),
            initial_delay_seconds=data["initial_delay_seconds"],
            max_delay_seconds=data["max_delay_seconds"],
            jitter=Jitter(data["jitter"]),
            schedule=tuple(data["schedule"]),
        )
