"""What people do with webhooks and deliveries, at the database and over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from holdfast.client import Client
from holdfast.errors import Forbidden, InvalidInput, NotFound, Refused
from holdfast.operations.scope import Scope
from tests.notify.mailbox import mailbox
from tests.notify.receiver import Receiver
from tests.notify.stage import Stage
from tests.running import running
from tests.service.serving import serving_http

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["database", "http"])
async def client(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Client]:
    if request.param == "database":
        async with Client.connect(database_url, Scope(actor="ann@desk")) as opened:
            yield opened
        return
    async with serving_http(database_url) as service:
        key = await service.key("operator", tenant="default", name="ann@desk")
        async with Client.connect(service.url, api_key=key) as opened:
            yield opened


async def test_a_webhook_is_made_changed_listed_and_removed(client: Client, stage: Stage) -> None:
    made = await client.keep_webhook(
        "portal", "https://portal.example/hooks?token=abc", events=["failed", "node_failed"]
    )
    assert made.is_new
    assert made.secret is not None and made.secret.startswith("whsec_")
    assert made.webhook.events == ("job_failed", "node_failed")
    changed = await client.keep_webhook("portal", "https://portal.example/other")
    assert (changed.is_new, changed.secret, changed.webhook.events) == (False, None, ())
    await client.keep_webhook("audit", "https://audit.example/")
    listed = await client.webhooks()
    assert [(one.name, one.url, one.enabled) for one in listed] == [
        ("audit", "https://audit.example/", True),
        ("portal", "https://portal.example/other", True),
    ]
    assert (await client.drop_webhook("portal")).name == "portal"
    with pytest.raises(NotFound, match="There is no webhook 'portal'"):
        await client.drop_webhook("portal")
    audited = await stage.sql(
        "select action, instance, before, after from audit where actor like 'ann%%' order by 1, 2"
    )
    assert [row[:2] for row in audited] == [
        ("webhook.add", "audit"),
        ("webhook.add", "portal"),
        ("webhook.change", "portal"),
        ("webhook.remove", "portal"),
    ]
    assert "token" not in str(audited) and "whsec" not in str(audited)


async def test_another_address_of_a_webhook_begins_without_the_failures_of_the_former_one(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", f"{receiver.url}/former", events=["failed"])
    receiver.mode = 500
    await stage.note()
    await stage.send()
    failing = (await client.webhooks())[0].failing_since
    assert failing is not None
    await client.keep_webhook("hook", f"{receiver.url}/former", events=["failed", "partial"])
    assert (await client.webhooks())[0].failing_since == failing
    await client.keep_webhook("hook", f"{receiver.url}/other", events=["failed"])
    assert (await client.webhooks())[0].failing_since is None
    await stage.note(job_id=None)
    receiver.mode = 200
    await stage.send()
    assert receiver.requests[-1].path == "/other"


async def test_the_query_of_an_address_is_shown_to_no_reader(client: Client) -> None:
    await client.keep_webhook("portal", "https://portal.example/hooks?token=abc")
    assert [one.url for one in await client.webhooks()] == ["https://portal.example/hooks?…"]


@pytest.mark.parametrize(
    ("name", "url", "events"),
    [
        ("a b", "https://host/", []),
        ("1a", "https://host/", []),
        ("x" * 101, "https://host/", []),
        ("a", "ftp://host/", []),
        ("a", "https://ann:pw@host/", []),
        ("a", "https://host/", ["exploded"]),
    ],
)
async def test_what_is_no_webhook_is_refused(client: Client, name: str, url: str, events: list[str]) -> None:
    with pytest.raises(InvalidInput):
        await client.keep_webhook(name, url, events=events)
    assert await client.webhooks() == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8080/hooks", "127.0.0.1"),
        ("https://10.1.2.3/", "10.1.2.3"),
        ("https://169.254.169.254/latest", "169.254.169.254"),
        ("http://[::1]/", "::1"),
        ("http://[::ffff:10.0.0.1]/", "::ffff:10.0.0.1"),
        ("http://localhost:9/", "localhost"),
        ("http://a.LOCALHOST./", "a.localhost."),
        ("http://127.1/", "127.1"),
        ("http://2130706433/", "2130706433"),
        ("https://portal.example/hooks", None),
        ("https://93.184.215.14/", None),
        ("https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", None),
    ],
)
async def test_an_address_that_is_known_not_to_be_public_is_kept_with_a_warning(
    client: Client, url: str, host: str | None
) -> None:
    """It is no refusal: what may be called is known to the processes that send, and these are others."""
    for _ in range(2):
        warning = (await client.keep_webhook("portal", url)).warning
        if host is None:
            assert warning is None
        else:
            where = "it is called only where HOLDFAST_OUTGOING_ALLOW lists it"
            assert warning == f"{host} is not a public address: {where}"
    assert len(await client.webhooks()) == 1


async def test_a_new_secret_signs_beside_the_former_one(client: Client, stage: Stage, receiver: Receiver) -> None:
    first = (await client.keep_webhook("hook", receiver.url, events=["failed"])).secret
    second = await client.rotate_webhook("hook")
    assert second.former_secret_until is not None
    assert (await client.webhooks())[0].former_secret_until == second.former_secret_until
    await stage.note()
    await stage.send()
    (request,) = receiver.requests
    for secret in (str(first), second.secret):
        assert Webhook(secret).verify(request.body, request.headers)
    with pytest.raises(NotFound):
        await client.rotate_webhook("other")


async def test_a_new_secret_of_callbacks_signs_beside_the_former_one(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    first = await client.rotate_callback_secret()
    second = await client.rotate_callback_secret()
    assert first.former_secret_until is None and second.former_secret_until is not None
    await stage.note(rules=[{"callback": receiver.url}])
    await stage.send()
    (request,) = receiver.requests
    for secret in (first.secret, second.secret):
        assert Webhook(secret).verify(request.body, request.headers)


async def test_a_dead_delivery_is_sent_again_under_its_id(client: Client, stage: Stage, receiver: Receiver) -> None:
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    receiver.mode = 410
    await stage.note()
    await stage.send()
    ((dead,), _) = (page := await client.deliveries(status="dead")).deliveries, page.after
    assert (dead.kind, dead.receiver, dead.event, dead.tries, dead.answer) == ("webhook", "hook", "job_failed", 1, 410)
    assert (dead.job_id, dead.workflow_id, dead.seq) == (stage.job_id, "maps", 1)
    assert (await client.webhooks())[0].disabled_reason == "it answered 410"
    assert (await client.enable_webhook("hook")).enabled
    with pytest.raises(Refused, match="is not disabled"):
        await client.enable_webhook("hook")
    receiver.mode = 200
    again = await client.redrive(dead.id)
    assert (again.id, again.status, again.tries) == (dead.id, "waiting", 0)
    await stage.send()
    assert receiver.ids == [dead.id, dead.id]
    with pytest.raises(Refused, match="is not dead: it is sent"):
        await client.redrive(dead.id)
    with pytest.raises(NotFound):
        await client.redrive(str(uuid.uuid4()))
    with pytest.raises(NotFound):
        await client.redrive("nothing")


async def test_what_is_dead_of_a_webhook_that_is_disabled_or_removed_is_not_sent_again(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    receiver.mode = 410
    await stage.note()
    await stage.send()
    (dead,) = (await client.deliveries(status="dead")).deliveries
    with pytest.raises(Refused, match="was not sent again: webhook hook is disabled") as refused:
        await client.redrive(dead.id)
    assert "holdfast webhooks enable hook" in str(refused.value.to_problem())
    await client.drop_webhook("hook")
    with pytest.raises(Refused, match="was not sent again: there is no webhook hook"):
        await client.redrive(dead.id)
    assert (await client.deliveries()).deliveries == (dead,)


async def test_deliveries_are_listed_page_by_page_and_found_by_what_they_are_about(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    other = str(uuid.uuid4())
    for job_id in (stage.job_id, other, stage.job_id):
        await stage.note(job_id=job_id, rules=[{"callback": f"{receiver.url}/?token=abc"}])
    await stage.send()
    page = await client.deliveries(limit=4)
    rest = await client.deliveries(limit=4, after=page.after)
    everything = [*page.deliveries, *rest.deliveries]
    assert (len(page.deliveries), len(rest.deliveries), rest.after) == (4, 2, None)
    assert len({one.id for one in everything}) == 6
    assert [one.seq for one in everything] == [3, 3, 2, 2, 1, 1]
    assert "token" not in str(everything)
    assert len((await client.deliveries(job_id=other)).deliveries) == 2
    assert len((await client.deliveries(webhook="hook", status="sent")).deliveries) == 3
    assert (await client.deliveries(status="dead")).deliveries == ()
    with pytest.raises(InvalidInput, match="is not a status of a delivery"):
        await client.deliveries(status="lost")


async def test_a_disabled_webhook_and_what_is_dead_ask_for_attention(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    receiver.mode = 410
    await stage.note(rules=[{"email": "ann@example.org"}, {"callback": "ftp://host/x?key=abc"}])
    await stage.note(job_id=None, rules=[{"email": "ann@example.org"}], tenant="acme")
    await stage.send()
    await stage.sql("update deliveries set status = 'dead', ended_at = now(), error = 'no' where kind = 'email'")
    found = {(one.cause, one.details.partition(":")[0]): one for one in await client.attention()}
    assert found.keys() == {
        ("webhook_disabled", "it answered 410"),
        ("delivery_dead", "email ann@example.org"),
        ("delivery_dead", "callback ftp"),
    }
    assert "abc" not in str(found)
    disabled, dead = found["webhook_disabled", "it answered 410"], found["delivery_dead", "email ann@example.org"]
    assert (disabled.severity, disabled.instance, dead.severity, dead.count) == ("error", "hook", "warning", 1)
    assert disabled.remedy is not None and disabled.remedy.command == "holdfast webhooks enable hook"
    assert dead.remedy is not None and dead.remedy.command == "holdfast deliveries --status dead"
    await client.enable_webhook("hook")
    await stage.pass_time()
    await stage.sql("update deliveries set ended_at = ended_at - interval '25 hours'")
    assert await client.attention() == []


async def test_what_no_process_can_send_asks_for_attention(client: Client, stage: Stage, receiver: Receiver) -> None:
    """It would wait for ever in silence."""
    await stage.sql("insert into notify_settings (tenant, mail_domains) values ('default', array['example.org'])")
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    await stage.note(rules=[{"email": "ann@example.org"}])
    await stage.note(job_id=None, rules=[{"email": "ann@example.org"}], tenant="acme")
    await stage.send()
    assert await client.attention() == [], "it has just begun to wait"
    await stage.pass_time(600)
    (found,) = await client.attention()
    assert (found.cause, found.count, found.severity) == ("delivery_untried", 1, "warning")
    assert found.details == "email: no process has tried to send it for five minutes"
    assert found.remedy is not None and found.remedy.command == "holdfast deliveries --status waiting"
    assert "HOLDFAST_SMTP_URL" in found.remedy.text


async def test_a_removed_webhook_leaves_dead_what_waited_for_it(
    client: Client, stage: Stage, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", receiver.url, events=["failed"])
    receiver.mode = 500
    await stage.note()
    await stage.send()
    await client.drop_webhook("hook")
    (dead,) = (await client.deliveries()).deliveries
    assert (dead.status, dead.error) == ("dead", "the webhook was removed")


async def test_a_test_goes_through_the_processes_that_send(
    client: Client, receiver: Receiver, database_url: str
) -> None:
    await client.keep_webhook("hook", receiver.url)
    async with running(database_url, outgoing_allow=("127.0.0.1",)):
        sent = await client.test_webhook("hook")
        receiver.mode = 500
        failed = await client.test_webhook("hook")
    assert (sent.event, sent.status, sent.answer, sent.job_id) == ("test", "sent", 200, None)
    assert (failed.status, failed.error) == ("waiting", "it answered 500: well?")
    assert receiver.requests[0].json["type"] == "test"
    assert receiver.ids[0] == sent.id
    with pytest.raises(NotFound):
        await client.test_webhook("other")


async def test_a_test_without_a_process_that_sends_waits_no_longer_than_asked(
    client: Client, receiver: Receiver
) -> None:
    await client.keep_webhook("hook", receiver.url)
    sent = await client.test_webhook("hook", seconds=0.1)
    assert (sent.status, sent.tries, sent.error) == ("waiting", 0, None)


async def test_mails_go_only_where_an_administrator_lets_them(database_url: str) -> None:
    async with serving_http(database_url) as service:
        admin = await service.key("admin", tenant="*", name="ann@desk")
        operator = await service.key("operator", tenant="default", name="ben@desk")
        async with (
            Client.connect(service.url, api_key=admin) as ours,
            Client.connect(service.url, api_key=operator) as other,
            Client.connect(database_url, Scope("default")) as direct,
        ):
            assert (await other.mail_domains()).domains == ()
            kept = await ours.keep_mail_domains(["Example.ORG", "example.org", "maps.test"])
            assert kept.domains == ("example.org", "maps.test")
            assert await other.mail_domains() == kept == await direct.mail_domains()
            with pytest.raises(Forbidden):
                await other.keep_mail_domains(["evil.org"])
            for wrong in ("example.org/", "ann@example.org", "*", ""):
                with pytest.raises(InvalidInput):
                    await ours.keep_mail_domains([wrong])
            assert (await direct.keep_mail_domains([])).domains == ()


async def test_a_mail_is_tried_by_the_mail_server_of_the_processes_that_send(client: Client, database_url: str) -> None:
    async with Client.connect(database_url, Scope("default")) as direct:
        await direct.keep_mail_domains(["example.org"])
    async with mailbox() as box:
        mails: dict[str, Any] = {"smtp_url": f"smtp://127.0.0.1:{box.port}", "smtp_from": "holdfast@example.org"}
        async with running(database_url, **mails):
            sent = await client.test_mail("ann@example.org")
            refused = await client.test_mail("ann@other.org")
    assert (sent.status, sent.event, sent.receiver) == ("sent", "test", "ann@example.org")
    assert (refused.status, "mail domains" in str(refused.error)) == ("dead", True)
    assert [mail["Subject"] for mail in box.mails] == ["[holdfast] A test: mails reach you"]
    with pytest.raises(InvalidInput):
        await client.test_mail("Ann <ann@example.org>")


async def test_nothing_of_another_tenant_is_seen_or_changed(
    database_url: str, stage: Stage, receiver: Receiver
) -> None:
    async with (
        Client.connect(database_url, Scope("default")) as ours,
        Client.connect(database_url, Scope("acme")) as other,
    ):
        await ours.keep_webhook("hook", receiver.url, events=["failed"])
        receiver.mode = 410
        await stage.note()
        await stage.send()
        (dead,) = (await ours.deliveries()).deliveries
        assert (await other.webhooks(), (await other.deliveries()).deliveries) == ([], ())
        for attempt in (other.drop_webhook, other.enable_webhook, other.rotate_webhook):
            with pytest.raises(NotFound):
                await attempt("hook")
        with pytest.raises(NotFound):
            await other.redrive(dead.id)
        await other.keep_webhook("hook", "https://other.example/")
        assert [one.url for one in await ours.webhooks()] == [receiver.url]
