"""Reports that another session's lock keeps from being taken: each is sent again after a pause that grows."""

from __future__ import annotations

from holdfast.store.interface import Report
from holdfast.store.leases import Held

PAUSE_SECONDS = (0.1, 5.0)
"""At first, and at most."""


class KeptReports:
    """Those that wait for their next time, and how long each has waited for it."""

    def __init__(self) -> None:
        self._waiting: dict[Held, tuple[float, Report]] = {}
        self._pauses: dict[Held, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Held) -> bool:
        return key in self._waiting

    def keep(self, report: Report, now: float) -> None:
        key = key_of(report)
        least, most = PAUSE_SECONDS
        pause = min(most, 2 * self._pauses[key]) if key in self._pauses else least
        self._pauses[key] = pause
        self._waiting[key] = now + pause, report

    def take_due(self, now: float) -> list[Report]:
        """Those whose time has come: they are sent again, and kept again if need be."""
        due = [key for key, (at, _) in self._waiting.items() if at <= now]
        return [self._waiting.pop(key)[1] for key in due]

    def seconds_left(self, now: float) -> float | None:
        """Until the next one is due; None if there is none."""
        return max(0.0, min(at for at, _ in self._waiting.values()) - now) if self._waiting else None

    def forget(self, key: Held) -> None:
        """It has been taken, or refused for good."""
        self._pauses.pop(key, None)

    def drop(self, key: Held) -> None:
        """Nobody wants it any more."""
        self._waiting.pop(key, None)
        self.forget(key)

    def clear(self) -> None:
        self._waiting.clear()
        self._pauses.clear()


def key_of(report: Report) -> Held:
    return (report.job_id, report.node, report.item, report.epoch)
