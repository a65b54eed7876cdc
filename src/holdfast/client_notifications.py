"""The part of `Client` about what is sent to receivers: webhooks, deliveries and tests."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client_gates import Bound
from holdfast.operations import notifications
from holdfast.views.notify import Delivery, DeliveryPage, KeptWebhook, MailDomains, NewSecret, Webhook


class Notifications(Bound):
    """Webhooks, and what is sent."""

    async def webhooks(self) -> list[Webhook]:
        """The webhooks of the tenant, by name."""
        return await notifications.webhooks(self._scope, self._store)

    async def keep_webhook(self, name: str, url: str, *, events: Sequence[str] = ()) -> KeptWebhook:
        """Make a webhook, or give one another address and other events.

        The answer to a new one has its secret, which can never be read again. Without `events` it gets only what
        workflows send to it by its name. In force within five seconds.
        """
        return await notifications.keep_webhook(self._scope, self._store, name, url, events=events)

    async def drop_webhook(self, name: str) -> Webhook:
        """Remove a webhook. What waits for it is dead."""
        return await notifications.drop_webhook(self._scope, self._store, name)

    async def enable_webhook(self, name: str) -> Webhook:
        """Send to a webhook again that Holdfast has disabled. What is dead stays so until a person redrives it."""
        return await notifications.enable_webhook(self._scope, self._store, name)

    async def rotate_webhook(self, name: str) -> NewSecret:
        """Make another secret for a webhook. For a day the former one signs too."""
        return await notifications.rotate_webhook(self._scope, self._store, name)

    async def rotate_callback_secret(self) -> NewSecret:
        """Make another secret for the callbacks of the tenant. For a day the former one signs too."""
        return await notifications.rotate_callback_secret(self._scope, self._store)

    async def test_webhook(self, name: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        """Send the event `test` to a webhook, and wait that long for its first try."""
        return await notifications.try_webhook(self._scope, self._store, name, seconds=seconds)

    async def deliveries(
        self,
        *,
        status: str | None = None,
        job_id: str | None = None,
        webhook: str | None = None,
        limit: int = notifications.PAGE_LENGTH,
        after: str | None = None,
    ) -> DeliveryPage:
        """One page of what is sent to receivers, newest first; `after` is the cursor of the page before."""
        return await notifications.deliveries(
            self._scope, self._store, status=status, job_id=job_id, webhook=webhook, limit=limit, after=after
        )

    async def redrive(self, delivery_id: str) -> Delivery:
        """Send a dead delivery again, under its id: for three days, like a new one."""
        return await notifications.redrive(self._scope, self._store, delivery_id)

    async def mail_domains(self) -> MailDomains:
        """The domains to which the tenant may send mails."""
        return await notifications.mail_domains(self._scope, self._store)

    async def keep_mail_domains(self, domains: Sequence[str]) -> MailDomains:
        """Let the tenant send mails to these domains, and to no others. For administrators of the installation."""
        return await notifications.keep_mail_domains(self._scope, self._store, domains)

    async def test_mail(self, address: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        """Send a test to an address, and wait that long for its first try."""
        return await notifications.try_mail(self._scope, self._store, address, seconds=seconds)
