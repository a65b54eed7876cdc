"""Webhooks and deliveries, as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.store.notify_rows import DeliveryRow, WebhookRow, shown_receiver


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address to which events of a tenant are sent. Its secrets can be read nowhere."""

    name: str
    url: str
    """Without its query, which may be a secret."""
    events: tuple[str, ...]
    """Which events of all jobs it gets; besides, those that a workflow sends to it by its name."""
    created_at: datetime
    created_by: str
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    """Since when no try has succeeded; None: the last one has."""
    former_secret_until: datetime | None
    """Until when the former secret signs too; None: it does not."""


@dataclass(frozen=True, slots=True)
class KeptWebhook:
    """A webhook that was just made or changed."""

    webhook: Webhook
    is_new: bool
    secret: str | None
    """Of a new one the secret, which can be read nowhere else and never again."""
    warning: str | None = None
    """What keeps requests from its address, as far as that is known: the address is not public."""


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A secret that was just made."""

    secret: str
    """It can be read nowhere else and never again."""
    former_secret_until: datetime | None
    """Until when the former secret signs too; None: there was none."""


@dataclass(frozen=True, slots=True)
class MailDomains:
    """To which domains a tenant may send mails."""

    domains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one receiver."""

    id: str
    """What the receiver sees, at each try the same."""
    event: str | None
    kind: str
    """`webhook`, `callback`, `email`, `hook` of an app; or `rule`, if a rule of a workflow names no receiver."""
    receiver: str
    """The name of the webhook or of the hook, the address of the recipient, or the URL of the callback without its
    query."""
    job_id: str | None
    workflow_id: str | None
    node: str | None
    seq: int | None
    """The number of the event among those of its job."""
    status: str
    """`gathering` (for a mail), `waiting`, `sent` or `dead`."""
    tries: int
    created_at: datetime
    next_at: datetime | None
    """When it is tried again, or may be by another process."""
    ended_at: datetime | None
    answer: int | None
    """The status that the receiver has answered."""
    error: str | None
    """Why the last try failed."""
    mail_id: str | None
    """The delivery that stands for the mail that has this event."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A page of deliveries, newest first."""

    deliveries: tuple[Delivery, ...]
    after: str | None
    """The cursor of the next page; None: this was the last."""


def webhook_view(row: WebhookRow) -> Webhook:
    address, mark, _ = row.url.partition("?")
    return Webhook(
        row.name,
        f"{address}?…" if mark else address,
        tuple(row.events),
        row.created_at,
        row.created_by,
        row.disabled_at is None,
        row.disabled_at,
        row.disabled_reason,
        row.failing_since,
        row.former_secret_until,
    )


def delivery_view(row: DeliveryRow) -> Delivery:
    return Delivery(
        row.delivery_id,
        row.event,
        row.kind,
        shown_receiver(row.receiver).partition(":")[2],
        row.job_id,
        row.workflow_id,
        row.node,
        row.seq,
        row.status,
        row.tries,
        row.created_at,
        row.next_at,
        row.ended_at,
        row.answer,
        row.problem,
        row.head_id,
    )


def deliveries_view(rows: Sequence[DeliveryRow], limit: int) -> DeliveryPage:
    after = str(rows[-1].number) if len(rows) == limit else None
    return DeliveryPage(tuple(map(delivery_view, rows)), after)
