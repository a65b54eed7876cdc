"""Webhooks of a tenant, the log of what is sent, sending again, and tests."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Sequence

from holdfast.define.notify import NotifyEvent, event_of, is_address
from holdfast.errors import InvalidInput, NotFound, Refused, cut
from holdfast.notify.signing import ROTATION_SECONDS, new_secret
from holdfast.operations.answering import is_ending
from holdfast.operations.cursors import number_of_cursor
from holdfast.operations.notify_ports import NotificationStore
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.outgoing import checked_http_url, warning_of
from holdfast.remedies import Remedy
from holdfast.store.notify_rows import DeliveryFilter, DeliveryRow
from holdfast.views.notify import (
    Delivery,
    DeliveryPage,
    KeptWebhook,
    MailDomains,
    NewSecret,
    Webhook,
    deliveries_view,
    delivery_view,
    webhook_view,
)

STATUSES = ("gathering", "waiting", "sent", "dead")
KINDS = ("webhook", "callback", "email")
PAGE_LENGTH = 50
MOST_DOMAINS = 100
MOST_WEBHOOKS = 100
"""How many a tenant may have: owners read them every few seconds."""
TEST_SECONDS = 30.0
LOOK_SECONDS = 0.2
_ENDING = re.compile(r"[0-9a-fA-F-]{4,36}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


async def webhooks(scope: Scope, store: OperationsStore) -> list[Webhook]:
    """The webhooks of the tenant, by name."""
    return [webhook_view(row) for row in await _of(scope, store).webhooks()]


async def keep_webhook(
    scope: Scope, store: OperationsStore, name: str, url: str, *, events: Sequence[str] = ()
) -> KeptWebhook:
    """Make a webhook, or give one another address and other events. In force within five seconds."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"'{cut(name)}' is no name of a webhook.",
            remedy="Use at most 100 letters, digits, '.', '_' and '-', and begin with a letter.",
        )
    wanted = list(dict.fromkeys(map(_event, events)))
    checked_http_url(url, f"webhook '{name}'")
    kept = _of(scope, store)
    known = await kept.webhooks()
    if len(known) >= MOST_WEBHOOKS and all(row.name != name for row in known):
        raise Refused(f"Tenant {scope.tenant} has {MOST_WEBHOOKS} webhooks, which is the most that one may have.")
    secret = new_secret()
    row, is_new = await kept.keep_webhook(name, url, wanted, secret, scope.actor)
    return KeptWebhook(webhook_view(row), is_new, secret if is_new else None, warning_of(url))


def _event(text: str) -> str:
    """The event with this name, or with this one after `job_`."""
    try:
        return str(event_of(text))
    except ValueError:
        raise InvalidInput(f"'{cut(text)}' is not an event.", remedy=f"Use some of: {', '.join(NotifyEvent)}") from None


async def drop_webhook(scope: Scope, store: OperationsStore, name: str) -> Webhook:
    """Remove a webhook. What waits for it is dead."""
    row = await _of(scope, store).drop_webhook(name, scope.actor)
    if row is None:
        raise _unknown(name)
    return webhook_view(row)


async def enable_webhook(scope: Scope, store: OperationsStore, name: str) -> Webhook:
    """Send to a webhook again that Holdfast has disabled. What is dead stays so until a person redrives it."""
    kept = _of(scope, store)
    row = await kept.enable_webhook(name, scope.actor)
    if row is None:
        await _known(kept, name)
        raise Refused(f"Webhook {name} is not disabled.", instance=name)
    return webhook_view(row)


async def rotate_webhook(scope: Scope, store: OperationsStore, name: str) -> NewSecret:
    """Make another secret for a webhook. For a day the former one signs too."""
    secret = new_secret()
    row = await _of(scope, store).rotate_webhook(name, secret, ROTATION_SECONDS, scope.actor)
    if row is None:
        raise _unknown(name)
    return NewSecret(secret, row.former_secret_until)


async def rotate_callback_secret(scope: Scope, store: OperationsStore) -> NewSecret:
    """Make another secret for the callbacks of the tenant. For a day the former one signs too."""
    secret = new_secret()
    return NewSecret(secret, await _of(scope, store).rotate_callback_secret(secret, ROTATION_SECONDS, scope.actor))


async def try_webhook(scope: Scope, store: OperationsStore, name: str, *, seconds: float = TEST_SECONDS) -> Delivery:
    """Send the event `test` to a webhook, and wait that long for its first try."""
    kept = _of(scope, store)
    await _known(kept, name)
    row = await kept.send_test("webhook", name, {"by": scope.actor}, scope.actor)
    return delivery_view(await _tried(store, kept, row, seconds))


async def mail_domains(scope: Scope, store: OperationsStore) -> MailDomains:
    """The domains to which the tenant may send mails."""
    return MailDomains(await _of(scope, store).mail_domains())


async def keep_mail_domains(scope: Scope, store: OperationsStore, domains: Sequence[str]) -> MailDomains:
    """Let the tenant send mails to these domains, and to no others."""
    scope.refuse_unless_administrator("the domains to which mails go")
    wanted = list(dict.fromkeys(one.strip().lower() for one in domains))
    for one in wanted:
        if not is_address(f"a@{one}"):
            raise InvalidInput(f"'{cut(one)}' is not a domain.", remedy="Write it like example.org.")
    if len(wanted) > MOST_DOMAINS:
        raise InvalidInput(f"A tenant has at most {MOST_DOMAINS} mail domains.")
    return MailDomains(await _of(scope, store).keep_mail_domains(wanted, scope.actor))


async def try_mail(scope: Scope, store: OperationsStore, address: str, *, seconds: float = TEST_SECONDS) -> Delivery:
    """Send a test to an address, and wait that long for its first try."""
    if not is_address(address):
        raise InvalidInput(f"'{cut(address)}' is not an e-mail address.")
    kept = _of(scope, store)
    row = await kept.send_test("email", address, {"by": scope.actor}, scope.actor)
    return delivery_view(await _tried(store, kept, row, seconds))


async def _tried(store: OperationsStore, kept: NotificationStore, row: DeliveryRow, seconds: float) -> DeliveryRow:
    """The delivery after its first try, or after that time."""
    until = time.monotonic() + seconds
    while row.status == "waiting" and row.problem is None and time.monotonic() < until and not is_ending(store):
        await asyncio.sleep(LOOK_SECONDS)
        row = await kept.delivery(row.delivery_id) or row
    return row


async def deliveries(
    scope: Scope,
    store: OperationsStore,
    *,
    status: str | None = None,
    job_id: str | None = None,
    webhook: str | None = None,
    limit: int = PAGE_LENGTH,
    after: str | None = None,
) -> DeliveryPage:
    """One page of what is sent to receivers, newest first; `after` is the cursor of the page before."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"'{cut(status)}' is not a status of a delivery.", remedy=f"Use: {', '.join(STATUSES)}")
    receiver = f"webhook:{webhook}" if webhook is not None else None
    found = await _of(scope, store).deliveries(
        DeliveryFilter(status, _job_id(job_id) if job_id is not None else None, receiver),
        number_of_cursor(after) if after is not None else None,
        checked_limit(limit),
    )
    return deliveries_view(found, limit)


async def redrive(scope: Scope, store: OperationsStore, delivery_id: str) -> Delivery:
    """Send a dead delivery again, under its id: for three days, like a new one. An ending of the id is enough."""
    kept = _of(scope, store)
    known = await _delivery_id(kept, delivery_id)
    await _refuse_without_webhook(kept, known, delivery_id)
    row = await kept.redrive(known, scope.actor)
    if row is not None:
        return delivery_view(row)
    found = await kept.delivery(known)
    if found is None:
        raise _no_delivery(delivery_id)
    raise Refused(f"Delivery {delivery_id} is not dead: it is {found.status}.", instance=delivery_id)


async def _refuse_without_webhook(kept: NotificationStore, known: str, delivery_id: str) -> None:
    """Refuse to send again what would be dead at once: its webhook is disabled or removed."""
    row = await kept.delivery(known)
    kind, _, name = row.receiver.partition(":") if row is not None and row.status == "dead" else ("", "", "")
    if kind != "webhook":
        return
    found = await kept.webhooks(name)
    if not found:
        raise Refused(
            f"Delivery {delivery_id} was not sent again: there is no webhook {name}.",
            remedy=Remedy("Make it again with", "webhooks", flags=("add", name, "URL")),
            instance=delivery_id,
        )
    if found[0].disabled_at is not None:
        raise Refused(
            f"Delivery {delivery_id} was not sent again: webhook {name} is disabled.",
            remedy=Remedy("When the receiver works again, enable it with", "webhooks", flags=("enable", name)),
            instance=delivery_id,
        )


def _of(scope: Scope, store: OperationsStore) -> NotificationStore:
    return store.notifications(scope.tenant, scope.origin)


async def _known(kept: NotificationStore, name: str) -> None:
    if not await kept.webhooks(name):
        raise _unknown(name)


def _unknown(name: str) -> NotFound:
    return NotFound(
        f"There is no webhook '{cut(name)}'.", remedy=Remedy("List the webhooks with", "webhooks"), instance=cut(name)
    )


def _no_delivery(delivery_id: str) -> NotFound:
    return NotFound(
        f"There is no delivery '{cut(delivery_id)}'.",
        remedy=Remedy("List the deliveries with", "deliveries"),
        instance=cut(delivery_id),
    )


async def _delivery_id(kept: NotificationStore, text: str) -> str:
    """The id of a delivery, from its id or from an ending that no other delivery has."""
    found = await kept.find(text.lower()) if _ENDING.fullmatch(text) else []
    if not found:
        raise _no_delivery(text)
    if len(found) > 1:
        raise InvalidInput(f"The ids of several deliveries end with '{text}'.", remedy="Use more of the id.")
    return found[0]


def _job_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidInput(f"'{cut(text)}' is not the id of a job.") from None
