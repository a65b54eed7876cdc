"""`holdfast deliveries` and `holdfast notify`: what is sent to receivers, sending it again, and tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin, drive, has_database, where
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.webhooks import show_secret
from holdfast.cli.words import counted, cut, elapsed, short
from holdfast.client import Client
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.notify import Delivery, DeliveryPage

SHOWN_CHARACTERS = 200
SHOWN_IDS = 3
"""How many deliveries are named with their common problem."""
UNTRIED = timedelta(minutes=1)
TEST_SECONDS = 30.0
NEEDS_MAIL_SERVER = (
    "A process with an orchestrator sends mails if HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM are set for it"
)


def list_deliveries(
    *,
    status: str | None,
    job: str | None,
    webhook: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
    target: Target,
) -> int:
    wanted = {"status": status, "job": job, "webhook": webhook}
    return drive(_list(begin(target), wanted, limit, after, as_json=as_json, target=target))


async def _list(
    settings: Settings, wanted: dict[str, str | None], limit: int, after: str | None, *, as_json: bool, target: Target
) -> int:
    page = DeliveryPage((), None)
    if has_database(settings):
        async with open_client(settings) as client:
            job = wanted["job"]
            page = await client.deliveries(
                status=wanted["status"],
                job_id=await client.find_job(job) if job is not None else None,
                webhook=wanted["webhook"],
                limit=limit,
                after=after,
            )
    if as_json:
        more = {"after": page.after} if page.after is not None else {}
        answer_json({"deliveries": to_json(page.deliveries)} | more)
    elif page.deliveries:
        _show(page.deliveries)
        if any(one.status == "dead" for one in page.deliveries):
            say(f"  → Send a dead one again: {target.command('deliveries redrive ID')}")
        if any(map(_waits_for_a_mail_server, page.deliveries)):
            say(f"  → No process tries the mails. {NEEDS_MAIL_SERVER}: {target.command('up')}")
        if page.after is not None:
            older = target.command(f"deliveries --limit {limit} --after {page.after}")
            say(f"  → Older ones, with the same filters: {older}")
    else:
        answer(f"There is no delivery{where(settings)}.")
    return ExitCode.DONE


def _show(deliveries: Sequence[Delivery]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("delivery", "age", "event", "job", "status"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("to", overflow="fold")
    problems: dict[str, list[str]] = {}
    for one in deliveries:
        table.add_row(
            short(one.id),
            elapsed(one.created_at, None),
            one.event or "",
            short(one.job_id) if one.job_id is not None else "",
            f"{one.status}, {counted(one.tries, 'try', 'tries')}" if one.tries else one.status,
            cut(f"{one.kind} {one.receiver}", 60),
        )
        if one.error is not None:
            problems.setdefault(cut(one.error, SHOWN_CHARACTERS), []).append(short(one.id))
    show(table)
    for problem, ids in problems.items():
        more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
        answer(f"{', '.join(ids[:SHOWN_IDS])}{more}: {problem}")


def _waits_for_a_mail_server(one: Delivery) -> bool:
    """Any process with a mail server would have tried it by now."""
    waited = datetime.now(UTC) - one.created_at
    return one.kind == "email" and one.status == "waiting" and not one.tries and waited > UNTRIED


def redrive(delivery_id: str | None, *, webhook: str | None, as_json: bool, target: Target) -> int:
    if (delivery_id is None) == (webhook is None):
        raise InvalidInput(
            "`deliveries redrive` needs the id of a delivery, or --webhook for all that are dead of one.",
            remedy=f"List the dead ones with: {target.command('deliveries --status dead')}",
        )
    return drive(_redrive(begin(target), delivery_id, webhook, as_json=as_json))


async def _redrive(settings: Settings, delivery_id: str | None, webhook: str | None, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        if delivery_id is not None:
            done = [await client.redrive(delivery_id)]
        else:
            done = await _redrive_all(client, str(webhook))
    if as_json:
        answer_json({"deliveries": to_json(done)})
    else:
        answer(f"{counted(len(done), 'delivery', 'deliveries')} will be sent again.")
    return ExitCode.DONE


async def _redrive_all(client: Client, webhook: str) -> list[Delivery]:
    """All that are dead of a webhook, the oldest first: their receiver gets them in their order."""
    found: list[Delivery] = []
    page = await client.deliveries(status="dead", webhook=webhook, limit=500)
    found += page.deliveries
    while page.after is not None:
        page = await client.deliveries(status="dead", webhook=webhook, limit=500, after=page.after)
        found += page.deliveries
    done: list[Delivery] = []
    refused: Refused | None = None
    for one in reversed(found):
        try:
            done.append(await client.redrive(one.id))
        except Refused as reason:
            # Another person was first; or none of them can be sent.
            refused = reason
    if refused is not None and not done:
        raise refused
    return done


def try_receiver(*, webhook: str | None, email: str | None, as_json: bool, target: Target) -> int:
    if (webhook is None) == (email is None):
        raise InvalidInput(
            "`notify test` needs a receiver.",
            remedy=f"Name one: {target.command('notify test --webhook NAME')}, or --email ADDRESS",
        )
    return drive(_test(begin(target), webhook, email, as_json=as_json, target=target))


async def _test(settings: Settings, webhook: str | None, email: str | None, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        if webhook is not None:
            sent = await client.test_webhook(webhook, seconds=TEST_SECONDS)
        else:
            sent = await client.test_mail(str(email), seconds=TEST_SECONDS)
    if as_json:
        answer_json(to_json(sent))
    elif sent.status == "sent":
        answered = f": it answered {sent.answer}" if sent.answer is not None else ""
        answer(f"{sent.kind} {sent.receiver} has it{answered}. The id is {sent.id}.")
    elif sent.error is not None:
        answer(f"{sent.kind} {sent.receiver} does not get it: {sent.error}")
    else:
        answer("No process has tried it yet.")
        sender = NEEDS_MAIL_SERVER if sent.kind == "email" else "A process with an orchestrator sends it"
        say(f"  → {sender}: {target.command('up')}")
    return ExitCode.DONE if sent.status == "sent" else ExitCode.UNREACHABLE


def rotate_callbacks(*, as_json: bool, target: Target) -> int:
    return drive(_rotate(begin(target), as_json=as_json))


async def _rotate(settings: Settings, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        made = await client.rotate_callback_secret()
    if as_json:
        answer_json(to_json(made))
    else:
        show_secret(made, f"callbacks of tenant {settings.tenant}")
    return ExitCode.DONE


def mail_domains(domains: Sequence[str], *, none: bool, as_json: bool, target: Target) -> int:
    if domains and none:
        raise InvalidInput("`notify domains` takes domains, or --none.", remedy="Give one of them.")
    return drive(_domains(begin(target), domains, none=none, as_json=as_json, target=target))


async def _domains(settings: Settings, domains: Sequence[str], *, none: bool, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        is_change = bool(domains) or none
        kept = await client.keep_mail_domains(domains) if is_change else await client.mail_domains()
    if as_json:
        answer_json(to_json(kept))
    elif kept.domains:
        answer(f"Mails of tenant {settings.tenant} may go to: {', '.join(kept.domains)}")
    else:
        answer(f"Mails of tenant {settings.tenant} may go nowhere.")
        say(f"  → Allow a domain: {target.command('notify domains example.org')}")
    return ExitCode.DONE
