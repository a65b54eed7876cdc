"""Whether a wide job crowds others: large steps are quickest for the wide job, and make the others wait."""

from __future__ import annotations

from collections.abc import Mapping

WIDE_FROM = 20
"""A job with this many entries in one step is a wide one."""
MEMORY_SECONDS = 2.0


class CrowdingMonitor:
    """Remembers which jobs were there in the last seconds. A wide job that is alone may take large steps."""

    def __init__(self) -> None:
        self._wide_job = self._other_job = ""
        self._wide_until = self._other_until = float("-inf")

    def forget(self) -> None:
        """The clock has stepped back: what happened in the last seconds is not known any more."""
        self._wide_until = self._other_until = float("-inf")

    def observe(self, entries: Mapping[str, int], now: float) -> None:
        """One step: how many of its entries belong to each job."""
        if not entries:
            return
        widest = max(entries, key=entries.__getitem__)
        if entries[widest] >= WIDE_FROM:
            self._wide_job, self._wide_until = widest, now + MEMORY_SECONDS
            if self._other_job == widest:
                # It looked small while it was young.
                self._other_until = float("-inf")
        if now < self._wide_until:
            other = next((job_id for job_id in entries if job_id != self._wide_job), None)
            if other is not None:
                self._other_job, self._other_until = other, now + MEMORY_SECONDS

    def job_to_throttle(self, now: float) -> str | None:
        """The wide job that should make room for others now; None: there is none, or it is alone."""
        return self._wide_job if now < self._wide_until and now < self._other_until else None
