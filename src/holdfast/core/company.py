"""Whether a wide job has others beside it: large batches are quickest for the one, and make the others wait."""

from __future__ import annotations

from collections.abc import Mapping

WIDE_FROM = 20
"""A job with so many entries in one batch is a wide one."""
MEMORY_SECONDS = 2.0


class Company:
    """Remembers who was seen lately. With nobody beside a wide job, or no wide job at all, batches may be large."""

    def __init__(self) -> None:
        self._wide_job = self._other_job = ""
        self._wide_until = self._other_until = float("-inf")

    def forget(self) -> None:
        """The clock has stepped back: what was lately is not known any more."""
        self._wide_until = self._other_until = float("-inf")

    def saw(self, entries: Mapping[str, int], now: float) -> None:
        """A batch, as job -> how much of it was that job's."""
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

    def wide_job(self, now: float) -> str | None:
        """The wide job that should make room for others now; None: there is none, or nobody is beside it."""
        return self._wide_job if now < self._wide_until and now < self._other_until else None
