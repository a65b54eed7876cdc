"""What attempts print, as rows: parts of running attempts, and where a page of ended ones begins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from holdfast.store.leases import Held


class OutputPart(NamedTuple):
    """Lines that a running attempt has printed. `part` counts from 1; `log_times` are as in `worker/output.py`."""

    held: Held
    part: int
    started_at: float
    log: str
    log_times: list[list[int]]


class RunningPart(NamedTuple):
    """The same, as a reader sees it."""

    node: str
    item: int
    attempt: int
    worker: str
    started_at: datetime
    part: int
    log: str
    log_times: list[list[int]]


class AfterAttempt(NamedTuple):
    """Where the next page of ended attempts begins."""

    time: datetime | None = None
    node: str = ""
    item: int = -2
    attempt: int = 0


Seen = Mapping[tuple[str, int, int], int]
"""By node, item and attempt: the last part that the reader has seen."""
