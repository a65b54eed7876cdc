"""The commands about what is sent to receivers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.options import STEER, After, DatabaseUrl, Json, PlainCommand, Tenant

commands = typer.Typer()


class WebhooksVerb(StrEnum):
    LIST = "list"
    ADD = "add"
    REMOVE = "remove"
    ENABLE = "enable"
    ROTATE = "rotate"


class DeliveriesVerb(StrEnum):
    LIST = "list"
    REDRIVE = "redrive"


class NotifyVerb(StrEnum):
    TEST = "test"
    DOMAINS = "domains"
    ROTATE = "rotate"


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def webhooks(
    verb: Annotated[
        WebhooksVerb, typer.Argument(metavar="list|add|remove|enable|rotate", help="What to do. Default: list.")
    ] = WebhooksVerb.LIST,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The webhook.")] = None,
    address: Annotated[
        str | None, typer.Argument(metavar="URL", help="With add: where requests are sent, such as https://host/path.")
    ] = None,
    event: Annotated[
        list[str],
        typer.Option(
            "--event",
            metavar="EVENT",
            help="An event of all jobs that it gets: failed, node_failed, breaker_opened; may be repeated. "
            "Default: only what workflows send to it by its name.",
        ),
    ] = [],  # noqa: B006
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show and make webhooks, to which events are sent by HTTP."""
    from holdfast.cli.session import Target
    from holdfast.cli.webhooks import add_webhook, change_webhook, list_webhooks

    target = Target(database_url, tenant)
    if verb is WebhooksVerb.LIST:
        return list_webhooks(as_json=as_json, target=target)
    if verb is WebhooksVerb.ADD:
        return add_webhook(name, address, event, as_json=as_json, target=target)
    return change_webhook(verb.value, name, as_json=as_json, target=target)


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def deliveries(
    verb: Annotated[DeliveriesVerb, typer.Argument(metavar="list|redrive", help="What to do. Default: list.")] = (
        DeliveriesVerb.LIST
    ),
    delivery: Annotated[
        str | None, typer.Argument(metavar="ID", help="With redrive: the dead delivery to send again.")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only these: gathering, waiting, sent or dead.")
    ] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only those about this job.")] = None,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="NAME", help="Only those to this webhook; all dead ones to redrive."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many to list.")] = 50,
    after: After = None,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Show what was sent to receivers; send it again."""
    from holdfast.cli.deliveries import list_deliveries, redrive
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    if verb is DeliveriesVerb.REDRIVE:
        return redrive(delivery, webhook=webhook, as_json=as_json, target=target)
    return list_deliveries(
        status=status, job=job, webhook=webhook, limit=limit, after=after, as_json=as_json, target=target
    )


@commands.command(cls=PlainCommand, rich_help_panel=STEER)
def notify(
    verb: Annotated[
        NotifyVerb,
        typer.Argument(
            metavar="test|domains|rotate",
            help="Send a test, show and set the domains of mails, or make another secret for callbacks.",
        ),
    ],
    domains: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOMAIN", help="With domains: where mails may go. Default: show where they may."),
    ] = None,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="NAME", help="Test this webhook.")] = None,
    email: Annotated[
        str | None, typer.Option("--email", metavar="ADDRESS", help="Send a test to this address.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="With domains: let mails go nowhere.")] = False,
    as_json: Json = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Test a receiver; set where mails may go."""
    from holdfast.cli.deliveries import mail_domains, rotate_callbacks, try_receiver
    from holdfast.cli.session import Target

    target = Target(database_url, tenant)
    if verb is NotifyVerb.ROTATE:
        return rotate_callbacks(as_json=as_json, target=target)
    if verb is NotifyVerb.DOMAINS:
        return mail_domains(domains or [], none=none, as_json=as_json, target=target)
    return try_receiver(webhook=webhook, email=email, as_json=as_json, target=target)
