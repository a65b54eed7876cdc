"""What the store gives to those who follow events: rows, and where a reader of all jobs stands."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple


class StreamRow(NamedTuple):
    """An event, with what its listeners choose by."""

    seq: int
    job_id: str
    event: str
    node: str | None
    item: int | None
    attempt: int | None
    at: datetime
    data: dict[str, Any] | None
    tenant: str
    workflow_id: str


class Place(NamedTuple):
    """What is committed at one moment, in one history of a database.

    `snapshot` is a snapshot of Postgres as text. Two histories have nothing in common: another server, a promoted
    standby, or another database. `pruned` is the youngest transaction whose events are deleted.
    """

    history: str
    snapshot: str
    pruned: int | None


class JobPage(NamedTuple):
    """The next events of a job. With `is_over` the job had ended with the event `last_seq` when they were read."""

    is_over: bool
    last_seq: int
    rows: list[StreamRow]
