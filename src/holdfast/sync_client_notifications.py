"""The part of `SyncClient` about what is sent to receivers: webhooks, deliveries and tests."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.operations import notifications
from holdfast.sync_client_gates import Face
from holdfast.views.notify import Delivery, DeliveryPage, KeptWebhook, MailDomains, NewSecret, Webhook


class SyncNotifications(Face):
    """Webhooks, and what is sent."""

    def webhooks(self) -> list[Webhook]:
        """The webhooks of the tenant, by name."""
        return self._loop.run(self._client.webhooks())

    def keep_webhook(self, name: str, url: str, *, events: Sequence[str] = ()) -> KeptWebhook:
        """Make a webhook, or give one another address and other events.

        The answer to a new one has its secret, which can never be read again. Without `events` it gets only what
        workflows send to it by its name. In force within five seconds.
        """
        return self._loop.run(self._client.keep_webhook(name, url, events=events))

    def drop_webhook(self, name: str) -> Webhook:
        """Remove a webhook. What waits for it is dead."""
        return self._loop.run(self._client.drop_webhook(name))

    def enable_webhook(self, name: str) -> Webhook:
        """Send to a webhook again that Holdfast has disabled. What is dead stays so until a person redrives it."""
        return self._loop.run(self._client.enable_webhook(name))

    def rotate_webhook(self, name: str) -> NewSecret:
        """Make another secret for a webhook. For a day the former one signs too."""
        return self._loop.run(self._client.rotate_webhook(name))

    def rotate_callback_secret(self) -> NewSecret:
        """Make another secret for the callbacks of the tenant. For a day the former one signs too."""
        return self._loop.run(self._client.rotate_callback_secret())

    def test_webhook(self, name: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        """Send the event `test` to a webhook, and wait that long for its first try."""
        return self._loop.run(self._client.test_webhook(name, seconds=seconds))

    def deliveries(
        self,
        *,
        status: str | None = None,
        job_id: str | None = None,
        webhook: str | None = None,
        limit: int = notifications.PAGE_LENGTH,
        after: str | None = None,
    ) -> DeliveryPage:
        """One page of what is sent to receivers, newest first; `after` is the cursor of the page before."""
        return self._loop.run(
            self._client.deliveries(status=status, job_id=job_id, webhook=webhook, limit=limit, after=after)
        )

    def redrive(self, delivery_id: str) -> Delivery:
        """Send a dead delivery again, under its id: for three days, like a new one."""
        return self._loop.run(self._client.redrive(delivery_id))

    def mail_domains(self) -> MailDomains:
        """The domains to which the tenant may send mails."""
        return self._loop.run(self._client.mail_domains())

    def keep_mail_domains(self, domains: Sequence[str]) -> MailDomains:
        """Let the tenant send mails to these domains, and to no others. For administrators of the installation."""
        return self._loop.run(self._client.keep_mail_domains(domains))

    def test_mail(self, address: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        """Send a test to an address, and wait that long for its first try."""
        return self._loop.run(self._client.test_mail(address, seconds=seconds))
