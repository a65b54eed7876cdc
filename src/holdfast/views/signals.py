"""A signal that a person has sent, and the answer of the job's owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.store.request_rows import SignalRow
from holdfast.views.verbs import APPLIED, PENDING

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SignalState:
    """A signal of a person to the owner of a job, and the answer if there is one."""

    signal_id: int
    """The number that the verb was answered with."""
    job_id: str
    """The job that it was sent to."""
    answer: str
    """`pending` while the owner has not answered, then `applied` or `refused`."""
    reason: str | None
    """The owner's words."""
    remedy: str | None
    """What to do next, if it was refused."""
    sent_at: datetime | None
    """When it was sent; null once it is answered."""
    answered_at: datetime | None
    """When the owner has answered."""


def signal_view(job_id: str, row: SignalRow) -> SignalState:
    answer = PENDING if row.applied is None else APPLIED if row.applied else REFUSED
    words = str(row.remedy) if row.remedy is not None else None
    return SignalState(row.signal_id, job_id, answer, row.reason or None, words, row.sent_at, row.answered_at)
