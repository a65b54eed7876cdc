"""What operations about webhooks and deliveries need from a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from holdfast.store.audit_rows import Origin
from holdfast.store.notify_rows import DeliveryFilter, DeliveryRow, WebhookRow


class NotificationStore(Protocol):
    """The webhooks and the deliveries of one tenant."""

    async def webhooks(self, name: str | None = None) -> list[WebhookRow]:
        """The webhooks by name, or the one with that name."""
        ...

    async def keep_webhook(
        self, name: str, url: str, events: Sequence[str], secret: str, actor: str
    ) -> tuple[WebhookRow, bool]:
        """Make a webhook with that secret, or give one another address and other events; and whether it is new."""
        ...

    async def drop_webhook(self, name: str, actor: str) -> WebhookRow | None:
        """Remove a webhook; what waits for it is dead."""
        ...

    async def enable_webhook(self, name: str, actor: str) -> WebhookRow | None:
        """Send to a disabled webhook again; None if it is not disabled."""
        ...

    async def rotate_webhook(self, name: str, secret: str, seconds: float, actor: str) -> WebhookRow | None:
        """Sign with that secret from now on, and for so long with the former one, too."""
        ...

    async def rotate_callback_secret(self, secret: str, seconds: float, actor: str) -> datetime | None:
        """The same for callbacks; until when the former secret signs, if there was one."""
        ...

    async def mail_domains(self) -> tuple[str, ...]:
        """The domains to which the tenant may send mails."""
        ...

    async def keep_mail_domains(self, domains: Sequence[str], actor: str) -> tuple[str, ...]:
        """Let the tenant send mails to these domains, and to no others."""
        ...

    async def deliveries(self, wanted: DeliveryFilter, before: int | None, limit: int) -> list[DeliveryRow]:
        """One page of deliveries, newest first: those before the one with that number."""
        ...

    async def delivery(self, delivery_id: str) -> DeliveryRow | None: ...

    async def find(self, ending: str) -> list[str]:
        """The ids that end so, at most two of them."""
        ...

    async def redrive(self, delivery_id: str, actor: str) -> DeliveryRow | None:
        """Send a dead delivery again; None if it is not dead."""
        ...

    async def send_test(self, kind: str, target: str, data: Mapping[str, Any], actor: str) -> DeliveryRow:
        """Send a test to one receiver."""
        ...


class HasNotifications(Protocol):
    """A store with what is sent."""

    def notifications(self, tenant: str, origin: Origin = ...) -> NotificationStore: ...
