"""The settings of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker presents itself, how much it takes on, and its intervals."""

    name: str
    queues: Sequence[str] | None
    """The queues that it serves; None: all."""
    concurrency: int
    """How many attempts run at a time."""
    claim_batch: int
    """How many tasks one claim may lease at most."""
    lease_seconds: float
    renew_seconds: float
    poll_seconds: float
    """How long an idle worker waits for a wake-up before it looks for tasks by itself."""
    grace_seconds: float
    """How long running attempts may go on after the worker was asked to stop."""
    outgoing_allow: tuple[str, ...] = ()
    """Hosts and networks that are not public and that probes may call."""
    database_url: str | None = None
    """Passed to handlers that declare `database=True`."""
    secrets_dir: Path | None = None
    """Where files have the values of secrets."""
