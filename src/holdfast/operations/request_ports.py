"""What operations need from a store about requests that have a key, and about signals."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.store.audit_rows import Origin
from holdfast.store.request_rows import Once, RequestRow, SignalRow


class RequestStore(Protocol):
    """The requests of one tenant."""

    async def send(
        self,
        job_id: str,
        once: Once,
        kind: str,
        actor: str,
        reason: str,
        data: dict[str, Any] | None,
        origin: Origin = ...,
    ) -> RequestRow | None:
        """Put a signal into the inbox of a job, unless the key was used before; None if there is no such job.

        Returns the request that has the key now: this one, or the earlier one.
        """
        ...

    async def request(self, job_id: str, key: str) -> RequestRow | None:
        """The request to a job that has that key, or None."""
        ...

    async def signal(self, job_id: str, signal_id: int) -> SignalRow | None:
        """A person's signal to a job: the owner's answer, or that it waits; None if it is neither."""
        ...

    async def submitter(self, job_id: str) -> str | None:
        """Who submitted a job, if it came with an identity."""
        ...
