"""What streams of events need from a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.stream_rows import JobPage, Place, StreamRow


class StreamStore(Protocol):
    """The events of one job by number, and those of all jobs by what two snapshots see. Never writes."""

    async def place(self) -> Place:
        """What is committed now."""
        ...

    async def newly_visible(
        self,
        old: str,
        new: str,
        *,
        after: tuple[str, int],
        limit: int,
        tenants: Sequence[str] | None = None,
        from_before: bool = False,
    ) -> list[StreamRow]:
        """The next events that the snapshot `new` sees and `old` does not, by job and number, of these tenants.

        With `from_before` those who follow the present do not wait for the answer.
        """
        ...

    async def has_many_new(self, old: str, new: str, limit: int) -> bool:
        """Whether `new` sees more events than `limit` that `old` does not."""
        ...

    async def job_events(self, job_id: str, tenant: str | None, after: int, limit: int) -> JobPage | None:
        """The next events of a job; None if the tenant has no such job."""
        ...
