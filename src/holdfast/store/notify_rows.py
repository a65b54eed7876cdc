"""Rows of what is sent to receivers. Plain data; reads nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple


def shown_receiver(receiver: str) -> str:
    """A receiver without the query of its URL, which may be a secret."""
    address, mark, _ = receiver.partition("?")
    return f"{address}?…" if mark and receiver.startswith("callback:") else receiver


class NotedEvent(NamedTuple):
    """An event that has receivers, as its owner has written it."""

    event: str
    created_at: datetime
    job_id: str | None = None
    workflow_id: str | None = None
    node: str | None = None
    generation: int | None = None
    seq: int | None = None
    times: int = 1
    """How often it happened in the commit that noted it."""
    items: tuple[int, ...] = ()
    data: dict[str, Any] | None = None


class JobFacts(NamedTuple):
    """How a job stands when something is sent about it."""

    status: str
    generation: int
    outcome: dict[str, Any]
    failed: str
    """What failed, in one line; empty if nothing did."""
    survived: str
    """What is done and stays, in one line."""
    command: str
    """What continues it; empty if nothing would."""


class ClaimedDelivery(NamedTuple):
    """What this process sends now: the events, and what is known of their receiver."""

    delivery_id: str
    tenant: str
    kind: str
    receiver: str
    tries: int
    """With this one."""
    waited_seconds: float
    """Since when it is tried."""
    failures: int
    """How often its destination has failed in a row."""
    events: tuple[NotedEvent, ...] = ()
    job_id: str | None = None
    url: str | None = None
    """Where the webhook is; None: there is no such webhook."""
    secret: str | None = None
    former_secret: str | None = None
    """The one before, for as long as it signs too."""
    disabled_reason: str | None = None
    mail_domains: tuple[str, ...] = ()
    first_id: str | None = None
    """The delivery that stands for the first mail of the job to this recipient."""
    facts: JobFacts | None = None
    """How the job stands, if that is said of it."""

    @property
    def way(self) -> str:
        """What a process must have to send it: of a hook that very hook, else the way of its kind."""
        return self.receiver if self.kind == "hook" else self.kind

    @property
    def target(self) -> str:
        """The name of the webhook or of the hook, the URL of the callback, or the address of the recipient."""
        return self.receiver.partition(":")[2]

    @property
    def shown_receiver(self) -> str:
        """As people see it: without the query of a callback's URL, which may be a secret."""
        return shown_receiver(self.receiver)


class Mark(NamedTuple):
    """How a try has ended."""

    status: str
    """`sent`, `waiting` (for the next try) or `dead`."""
    pause_seconds: float = 0.0
    """How long the next try waits."""
    held_seconds: float | None = None
    """How long nothing is sent to the destination; None: it is not to blame."""
    answer: int | None = None
    error: str | None = None


class WebhookRow(NamedTuple):
    """A webhook, without its secrets."""

    name: str
    url: str
    events: tuple[str, ...]
    created_at: datetime
    created_by: str
    disabled_at: datetime | None
    disabled_reason: str | None
    former_secret_until: datetime | None
    failing_since: datetime | None


class DeliveryRow(NamedTuple):
    """A delivery, as people look at it. An event that was deleted has left nothing but its deliveries."""

    delivery_id: str
    number: int
    kind: str
    receiver: str
    status: str
    tries: int
    created_at: datetime
    event: str | None
    job_id: str | None
    workflow_id: str | None
    node: str | None
    seq: int | None
    head_id: str | None
    next_at: datetime | None
    ended_at: datetime | None
    answer: int | None
    problem: str | None


class DeliveryFilter(NamedTuple):
    """Filters of deliveries; None is any."""

    status: str | None = None
    job_id: str | None = None
    receiver: str | None = None
