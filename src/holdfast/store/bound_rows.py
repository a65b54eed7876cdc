"""Workers that reach the installation over HTTP, as rows. Each is bound to the credential that registered it."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.store.records import Lease, WorkerIdentity


class BoundWorker(NamedTuple):
    """A worker as it registered itself. What stands here never changes."""

    worker_id: int
    name: str
    bound_to: str
    """The credential that alone may speak for it."""
    tenant: str | None
    """Whose tasks it gets; None: those of all tenants."""
    queues: list[str] | None
    handlers: list[str]
    lease_seconds: float

    @property
    def identity(self) -> WorkerIdentity:
        return WorkerIdentity(self.worker_id, self.name)


class Wish(NamedTuple):
    """What a claim asks for."""

    claim_id: str
    limit: int
    slots: int
    """How many of the tasks can begin at once."""


class ClaimedOnce(NamedTuple):
    """What a claim got. The same claim again gets the same tasks, those left out that it has reported."""

    leases: list[Lease]
    claimed_at: int
    """When, in microseconds since 1970 by the database's clock."""
    is_repeated: bool = False


class NotClaimed(NamedTuple):
    """A claim that could not be made: another one of the same worker is under way, or the worker's lease has ended."""

    is_gone: bool


TAKEN, REJECTED, LOCKED = "taken", "rejected", "locked"
"""The outcome of a report: it counts; it changes nothing; or it can be sent again, because another session has locked
its lease."""
