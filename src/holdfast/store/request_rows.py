"""Requests of people that have a key, and their signals, as plain records."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from holdfast.remedies import Remedy


class Once(NamedTuple):
    """What makes a request happen once: its key, and the digest of what it asks for."""

    key: str
    digest: str
    verb: str
    tasks: int | None = None
    """How many tasks its plan has."""


class RequestRow(NamedTuple):
    """A request with a key that was sent."""

    digest: str
    verb: str
    tasks: int | None
    signal_id: int


class SignalRow(NamedTuple):
    """A person's signal: the owner's answer, or since when it waits for one."""

    signal_id: int
    applied: bool | None
    reason: str | None
    remedy: Remedy | None
    answered_at: datetime | None
    sent_at: datetime | None
