"""What is sent to receivers: webhooks, the log of deliveries, sending again, and tests."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import ConfigDict, Field

from holdfast.errors import Refused
from holdfast.operations.identity import Permission
from holdfast.service.bodies import Body
from holdfast.service.call import Call
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.routes.verbs import LONGEST_WAIT_SECONDS
from holdfast.service.table import ListOf, Page, RouteTable
from holdfast.views.notify import Delivery, KeptWebhook, MailDomains, NewSecret, Webhook

table = RouteTable("notifications")
WebhookName = Annotated[str, Path(description="The name of a webhook.", max_length=100)]
DeliveryId = Annotated[str, Path(description="The id of a delivery.", max_length=100)]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="How long to wait for the first try.")]


class KeepWebhook(Body):
    """Where a webhook is, and what it gets."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"url": "https://portal.example/hooks", "events": ["job_failed", "job_partial"]}}
    )
    url: str = Field(min_length=1, max_length=2000)
    """Where requests are sent. The host must be public, or one that the installation allows."""
    events: list[str] = Field([], max_length=20)
    """Which events of all jobs it gets: `job_failed`, `node_failed`, `breaker_opened` and so on. None: only what
    workflows send to it by its name."""


class TryMail(Body):
    """A mail to try."""

    model_config = ConfigDict(json_schema_extra={"example": {"email": "ann@example.org"}})
    email: str = Field(min_length=1, max_length=254)
    """The address, within the mail domains of the tenant."""


class KeepMailDomains(Body):
    """To which domains a tenant may send mails."""

    model_config = ConfigDict(json_schema_extra={"example": {"domains": ["example.org"]}})
    domains: list[str] = Field(max_length=100)
    """Such as `example.org`, without what is below it. None: the tenant sends no mails."""


@table.get("/webhooks", Permission.READ, answers=ListOf(Webhook))
async def list_webhooks(call: Call) -> Response:
    """The webhooks of the tenant, by name. A secret can be read nowhere."""
    return call.items(await call.client.webhooks())


@table.put(
    "/webhooks/{name}",
    Permission.OPERATE,
    answers=KeptWebhook,
    status=201,
    also={200: "The webhook was there; it has this address and these events now, and its secret."},
    errors=(Refused,),
)
async def keep_webhook(call: Call, name: WebhookName, body: KeepWebhook) -> Response:
    """Make a webhook, or give one another address and other events.

    The answer to a new one is the only place where its secret can be read. In force within five seconds.
    """
    kept = await call.client.keep_webhook(name, body.url, events=body.events)
    return call.answer(kept, 201 if kept.is_new else 200)


@table.delete("/webhooks/{name}", Permission.OPERATE, answers=Webhook)
async def drop_webhook(call: Call, name: WebhookName) -> Response:
    """Remove a webhook. What waits for it is dead. The answer shows it as it was."""
    return call.answer(await call.client.drop_webhook(name))


@table.post("/webhooks/{name}/enable", Permission.OPERATE, answers=Webhook, errors=(Refused,))
async def enable_webhook(call: Call, name: WebhookName) -> Response:
    """Send to a webhook again that failed for a day or was gone. What is dead stays so until a person redrives it."""
    return call.answer(await call.client.enable_webhook(name))


@table.post("/webhooks/{name}/rotate", Permission.OPERATE, answers=NewSecret)
async def rotate_webhook(call: Call, name: WebhookName) -> Response:
    """Make another secret for a webhook. For a day the former one signs too, so that the receiver can change over."""
    return call.answer(await call.client.rotate_webhook(name))


@table.post("/webhooks/{name}/test", Permission.OPERATE, answers=Delivery)
async def try_webhook(call: Call, name: WebhookName, wait: Wait = 0) -> Response:
    """Send the event `test` to a webhook, through the same processes as every other event."""
    return call.answer(await call.client.test_webhook(name, seconds=wait))


@table.post("/notify/rotate", Permission.OPERATE, answers=NewSecret)
async def rotate_callback_secret(call: Call) -> Response:
    """Make another secret for the callbacks of the tenant. For a day the former one signs too."""
    return call.answer(await call.client.rotate_callback_secret())


@table.post("/notify/test", Permission.OPERATE, answers=Delivery)
async def try_mail(call: Call, body: TryMail, wait: Wait = 0) -> Response:
    """Send a test to an address, by the mail server of the processes that send."""
    return call.answer(await call.client.test_mail(body.email, seconds=wait))


@table.get("/notify/domains", Permission.READ, answers=MailDomains)
async def show_mail_domains(call: Call) -> Response:
    """The domains to which the tenant may send mails."""
    return call.answer(await call.client.mail_domains())


@table.put("/notify/domains", Permission.ADMIN, answers=MailDomains)
async def keep_mail_domains(call: Call, body: KeepMailDomains) -> Response:
    """Let the tenant send mails to these domains, and to no others.

    It is for administrators of the installation, whose mail server it is.
    """
    call.refuse_unless_installation_admin()
    return call.answer(await call.client.keep_mail_domains(body.domains))


@table.get("/deliveries", Permission.READ, answers=Page(Delivery))
async def list_deliveries(
    call: Call,
    status: Annotated[str | None, Query(max_length=20, description="`gathering`, `waiting`, `sent` or `dead`.")] = None,
    job: Annotated[str | None, Query(max_length=100, description="Only those about the job with this id.")] = None,
    webhook: Annotated[
        str | None, Query(max_length=100, description="Only those to the webhook with this name.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What is sent to receivers, newest first: each event to each receiver, with the tries and the last problem."""
    page = await call.client.deliveries(status=status, job_id=job, webhook=webhook, limit=limit, after=cursor)
    return call.page(page.deliveries, page.after)


@table.post("/deliveries/{delivery_id}/redrive", Permission.OPERATE, answers=Delivery, errors=(Refused,))
async def redrive_delivery(call: Call, delivery_id: DeliveryId) -> Response:
    """Send a dead delivery again, under the same id: for three days, like a new one."""
    return call.answer(await call.client.redrive(delivery_id))
