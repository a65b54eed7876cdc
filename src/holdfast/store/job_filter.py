"""Which jobs a list has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple


class Wanted(NamedTuple):
    """What a lookup knows of jobs: one of these."""

    correlation_id: str | None = None
    identities: Sequence[str] | None = None
    """What submissions with a key make."""
    external_id: tuple[str, str] | None = None
    """The namespace and the value."""
    digest: str | None = None
    """The sha256 of a file that the job has published."""


class JobFilter(NamedTuple):
    """Which jobs a list has; without a value, a filter lets all jobs pass."""

    statuses: Sequence[str] | None = None
    workflow_id: str | None = None
    identities: Sequence[str] | None = None
    """Only jobs that these submissions have made."""
    since: datetime | None = None
    until: datetime | None = None
    code: str | None = None
    """Only jobs that failed with this code, or in which a node or a task did."""
    fingerprint: str | None = None
    """The same for a fingerprint."""
    correlation_id: str | None = None
    text: str | None = None
    """The beginning or the end of an id, or the beginning of a correlation id or a workflow id."""
    text_identities: Sequence[str] = ()
    """What submissions with the text as their key make."""
    labels: Mapping[str, str] | None = None
    unacknowledged: bool = False
