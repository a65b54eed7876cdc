"""The part of the client over a URL about what is sent to receivers."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.operations import notifications
from holdfast.remote.base import Remote, path_of
from holdfast.remote.gates import LONGEST_WAIT_SECONDS
from holdfast.views.notify import Delivery, DeliveryPage, KeptWebhook, MailDomains, NewSecret, Webhook


class RemoteNotifications(Remote):
    """Webhooks, and what is sent."""

    async def webhooks(self) -> list[Webhook]:
        return await self._list(Webhook, "/webhooks")

    async def keep_webhook(self, name: str, url: str, *, events: Sequence[str] = ()) -> KeptWebhook:
        body = {"url": url, "events": list(events)}
        return self._read(KeptWebhook, await self._send("PUT", path_of("webhooks", name), body=body))

    async def drop_webhook(self, name: str) -> Webhook:
        return self._read(Webhook, await self._send("DELETE", path_of("webhooks", name)))

    async def enable_webhook(self, name: str) -> Webhook:
        return self._read(Webhook, await self._send("POST", path_of("webhooks", name, "enable")))

    async def rotate_webhook(self, name: str) -> NewSecret:
        return self._read(NewSecret, await self._send("POST", path_of("webhooks", name, "rotate")))

    async def rotate_callback_secret(self) -> NewSecret:
        return self._read(NewSecret, await self._send("POST", "/notify/rotate"))

    async def test_webhook(self, name: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        path, query = path_of("webhooks", name, "test"), [("wait", str(wait))]
        return self._read(Delivery, await self._send("POST", path, query=query, seconds=wait))

    async def deliveries(
        self,
        *,
        status: str | None = None,
        job_id: str | None = None,
        webhook: str | None = None,
        limit: int = notifications.PAGE_LENGTH,
        after: str | None = None,
    ) -> DeliveryPage:
        found, cursor = await self._page(
            Delivery, "/deliveries", status=status, job=job_id, webhook=webhook, limit=limit, cursor=after
        )
        return DeliveryPage(tuple(found), cursor)

    async def redrive(self, delivery_id: str) -> Delivery:
        return self._read(Delivery, await self._send("POST", path_of("deliveries", delivery_id, "redrive")))

    async def mail_domains(self) -> MailDomains:
        return await self._get(MailDomains, "/notify/domains")

    async def keep_mail_domains(self, domains: Sequence[str]) -> MailDomains:
        body = {"domains": list(domains)}
        return self._read(MailDomains, await self._send("PUT", "/notify/domains", body=body, is_repeatable=True))

    async def test_mail(self, address: str, *, seconds: float = notifications.TEST_SECONDS) -> Delivery:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        body, query = {"email": address}, [("wait", str(wait))]
        return self._read(Delivery, await self._send("POST", "/notify/test", body=body, query=query, seconds=wait))
