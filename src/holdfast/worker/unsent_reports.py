"""Reports that the worker has not delivered yet: those that the next turn sends, and those that wait for a lock."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.store.leases import Held
from holdfast.store.records import Report

PAUSE_SECONDS = (0.1, 5.0)
"""How long a report waits before it is sent again: at first, and at most. Each pause is twice as long as the last."""


class UnsentReports:
    """A report leaves with `take`. It comes back by `put_back` or `hold` if it could not be delivered."""

    def __init__(self) -> None:
        self.ready: list[Report] = []
        """The next `take` returns these."""
        self._locked: dict[Held, tuple[float, Report]] = {}
        """Another session keeps the lease of these locked: when to send each again."""
        self._pauses: dict[Held, float] = {}

    def add(self, reports: Iterable[Report]) -> None:
        self.ready += reports

    def take(self, now: float) -> list[Report]:
        """Everything that should be sent now, the reports whose pause is over included."""
        due = [key for key, (at, _) in self._locked.items() if at <= now]
        reports, self.ready = [*self.ready, *(self._locked.pop(key)[1] for key in due)], []
        return reports

    def put_back(self, reports: list[Report]) -> None:
        """The reports may not have arrived: the next `take` returns them first."""
        self.ready = reports + self.ready

    def hold(self, report: Report, now: float) -> None:
        """Send a report again after a pause: another session keeps its lease locked."""
        key = key_of(report)
        least, most = PAUSE_SECONDS
        pause = min(most, 2 * self._pauses[key]) if key in self._pauses else least
        self._pauses[key] = pause
        self._locked[key] = now + pause, report

    @property
    def locked_count(self) -> int:
        return len(self._locked)

    def seconds_until_due(self, now: float) -> float | None:
        """Until the first pause is over; None if no report waits for a lock."""
        return max(0.0, min(at for at, _ in self._locked.values()) - now) if self._locked else None

    def is_locked(self, key: Held) -> bool:
        return key in self._locked

    def __contains__(self, key: Held) -> bool:
        return key in self._locked or any(key_of(report) == key for report in self.ready)

    def settle(self, key: Held) -> None:
        """The report was accepted, or refused for good."""
        self._pauses.pop(key, None)

    def drop(self, key: Held) -> None:
        """Discard the report of a lease that is no longer valid."""
        self.ready = [report for report in self.ready if key_of(report) != key]
        self._locked.pop(key, None)
        self._pauses.pop(key, None)

    def clear(self) -> None:
        self.ready.clear()
        self._locked.clear()
        self._pauses.clear()


def key_of(report: Report) -> Held:
    return (report.job_id, report.node, report.item, report.epoch)
