"""Webhooks and callbacks, sent to a real receiver from a real outbox."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import uuid
from pathlib import Path
from typing import Any

import pytest
import trustme
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from holdfast.outgoing import Outgoing
from holdfast.store.notify_rows import Mark
from holdfast.store.postgres import PostgresStore
from tests.notify.receiver import Receiver, receiving
from tests.notify.stage import FORMER, SECRET, Stage

pytestmark = pytest.mark.anyio
HOUR, DAY = 3600.0, 86_400.0


async def test_an_event_reaches_the_webhooks_that_want_it_and_no_other(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url + "/wants", "wants", ["job_failed", "job_completed"])
    await stage.webhook(receiver.url + "/other", "other", ["job_cancelled"])
    await stage.webhook(receiver.url + "/foreign", "foreign", ["job_failed"], tenant="acme")
    await stage.webhook(receiver.url + "/disabled", "disabled", ["job_failed"])
    await stage.sql("update webhooks set disabled_at = now(), disabled_reason = 'old' where name = 'disabled'")
    await stage.note("job_failed", data={"code": "LOST"})
    await stage.send()
    (request,) = receiver.requests
    assert request.path == "/wants"
    assert request.headers["content-type"] == "application/json"
    content = request.json
    assert content["type"] == "job_failed"
    assert content["timestamp"].endswith("Z")
    assert content["data"] == {
        "job_id": stage.job_id,
        "workflow_id": "maps",
        "node": None,
        "generation": 1,
        "seq": 1,
        "count": 1,
        "items": [],
        "status": "failed",
        "state": "FAILED",
        "outcome": None,
        "code": "LOST",
        "result_url": f"https://jobs.example.org/api/v1/jobs/{stage.job_id}",
    }
    assert await stage.deliveries("status, tries, answer, error, receiver") == [("sent", 1, 200, None, "webhook:wants")]


@pytest.mark.parametrize("seed", range(5))
async def test_each_event_has_one_delivery_to_each_of_its_receivers_and_to_no_other(
    stage: Stage, database_url: str, seed: int
) -> None:
    """Two processes find the receivers of drawn events at once, while events come in."""
    chance = random.Random(seed)
    events = ("job_failed", "node_failed", "task_exhausted")
    hooks = [(chance.choice("ab"), f"h{number}", chance.sample(events, chance.randint(0, 2))) for number in range(6)]
    for tenant, name, wanted in hooks:
        await stage.webhook("https://example.org/", name, wanted, tenant)
    await stage.sql("update webhooks set disabled_at = now(), disabled_reason = 'it failed' where name = 'h0'")
    drawn = [
        {"webhook": "h0"}, {"webhook": "h1"}, {"webhook": "none"}, {"email": "ann@example.org"},
        {"email": "", "problem": "it cannot be made"}, {"callback": "https://Example.org/x?key=1"},
    ]  # fmt: skip
    expected = set()
    other = Stage(PostgresStore(database_url))

    async def find_receivers(store: PostgresStore) -> None:
        holder = str(uuid.uuid4())
        while (await store.notify().claim(holder, [], 16, at_once=4, lease_seconds=60, mail_seconds=900))[0]:
            pass

    try:
        for number in range(60):
            tenant, event = chance.choice("ab"), chance.choice(events)
            rules = chance.choices(drawn, k=chance.randint(0, 3))
            outbox_id = await stage.note(event, tenant=tenant, rules=rules)
            named = {f"rule:{one['problem']}" for one in rules if "problem" in one}
            named |= {f"{kind}:{of}" for one in rules if "problem" not in one for kind, of in one.items()}
            named |= {f"webhook:{name}" for of, name, wanted in hooks[1:] if of == tenant and event in wanted}
            expected |= {(outbox_id, tenant, receiver) for receiver in named}
            if number % 7 == 0:
                await asyncio.gather(find_receivers(stage.store), find_receivers(other.store))
        await asyncio.gather(find_receivers(stage.store), find_receivers(other.store))
        await find_receivers(stage.store)
    finally:
        await other.store.close()
    found = await stage.sql("select outbox_id, tenant, receiver from deliveries")
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert await stage.sql("select outbox_id from outbox where expanded_at is null") == []
    strays = await stage.sql(
        "select d.delivery_id from deliveries d join deliveries h on h.delivery_id = d.head_id"
        " where (h.tenant, h.job_id, h.receiver, h.head_id) is distinct from"
        " (d.tenant, d.job_id, d.receiver, d.head_id)"
    )
    assert strays == [], "an event is in a mail of another job or recipient"


async def test_a_receiver_can_check_the_signature_with_any_library_of_the_standard(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    await stage.send()
    (request,) = receiver.requests
    assert Webhook(SECRET).verify(request.body, request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(FORMER).verify(request.body, request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body + b" ", request.headers)
    assert str(uuid.UUID(request.id)) == request.id


async def test_while_a_secret_is_changed_the_former_one_signs_too(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    await stage.sql("update webhooks set former_secret = %s, former_secret_until = now() + interval '1 hour'", FORMER)
    await stage.note()
    await stage.send()
    await stage.sql("update webhooks set former_secret_until = now() - interval '1 second'")
    await stage.note()
    await stage.send()
    during, after = receiver.requests
    for secret in (SECRET, FORMER):
        assert Webhook(secret).verify(during.body, during.headers)
    assert Webhook(SECRET).verify(after.body, after.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(FORMER).verify(after.body, after.headers)


async def test_a_rule_of_a_job_and_a_webhook_of_the_tenant_give_one_delivery(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    await stage.note(rules=[{"webhook": "hook"}, {"webhook": "hook"}])
    await stage.send()
    assert len(receiver.requests) == 1


async def test_a_callback_is_signed_with_the_secret_of_the_tenant(stage: Stage, receiver: Receiver) -> None:
    for tenant in ("default", "acme", "default"):
        await stage.note("job_completed", rules=[{"callback": f"{receiver.url}/done?token=abc"}], tenant=tenant)
    await stage.send()
    known = dict(await stage.sql("select tenant, secret from notify_settings"))
    assert known.keys() == {"default", "acme"}
    assert known["default"] != known["acme"]
    assert {request.path for request in receiver.requests} == {"/done?token=abc"}
    tenants = dict(await stage.sql("select delivery_id::text, tenant from deliveries"))
    for request in receiver.requests:
        assert Webhook(known[tenants[request.id]]).verify(request.body, request.headers)
        assert request.json["data"]["state"] == "COMPLETED"


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("hangs", "no answer within 0.3 s"),
        ("dribbles", "no answer within 0.3 s"),
        ("closes", "disconnected"),
        ("talks nonsense", ""),
        ("hangs in the body", "it answered 500"),
        ("sends gigabytes", "it answered 500: yyy"),
        (500, "it answered 500: well?"),
        (302, "it answered 302: well?"),
        (429, "it answered 429: well?"),
    ],
)
async def test_a_receiver_that_fails_gets_the_delivery_again_under_the_same_id(
    stage: Stage, receiver: Receiver, mode: str | int, problem: str
) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    receiver.mode, receiver.headers = mode, {"Location": f"{receiver.url}/elsewhere"}
    # Only who never begins an answer is cut at once: on a busy machine, others need more than that.
    await stage.send(stage.notifier(seconds=0.3 if mode in ("hangs", "dribbles") else 3.0))
    ((status, tries, error),) = await stage.deliveries()
    assert (status, tries) == ("waiting", 1)
    assert problem in error
    receiver.mode = 200
    await stage.retry_now()
    await stage.send()
    first, second = receiver.requests
    assert (first.id, first.body) == (second.id, second.body)
    assert {first.path, second.path} == {"/"}
    assert await stage.deliveries("status, tries, answer, error") == [("sent", 2, 200, None)]
    assert receiver.sent_bytes < 10_000_000


async def test_a_receiver_that_closes_after_the_headers_has_taken_the_delivery(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    receiver.mode = "closes after the headers"
    await stage.send()
    assert await stage.deliveries() == [("sent", 1, None)]


async def test_a_receiver_that_is_gone_is_disabled_at_once(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    receiver.mode = 410
    await stage.note()
    await stage.send()
    await stage.note()
    await stage.send()
    assert len(receiver.requests) == 1
    assert await stage.deliveries() == [("dead", 1, "it answered 410: well?")]
    assert await stage.sql("select disabled_reason, disabled_at is not null from webhooks") == [
        ("it answered 410", True)
    ]
    audited = await stage.sql("select tenant, actor, action, instance, reason from audit")
    assert audited == [("default", "holdfast", "webhook.disable", "hook", "it answered 410")]


async def test_a_rule_that_names_a_disabled_webhook_sends_nothing(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    await stage.sql("update webhooks set disabled_at = now(), disabled_reason = 'it answered 410'")
    await stage.note(rules=[{"webhook": "hook"}])
    await stage.send()
    assert await stage.deliveries() == [("dead", 1, "the webhook is disabled: it answered 410")]
    assert receiver.requests == []


async def test_a_disabled_webhook_is_an_alert_for_the_others_of_its_tenant(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url + "/gone", "gone", ["job_failed", "janitor_alert"])
    await stage.webhook(receiver.url + "/ops", "ops", ["janitor_alert"])
    await stage.webhook(receiver.url + "/other", "other", ["janitor_alert"], tenant="acme")
    receiver.mode = lambda request: 410 if request.path == "/gone" else 200
    await stage.note()
    await stage.send()
    gone, alert = receiver.requests
    assert (gone.path, alert.path, alert.json["type"]) == ("/gone", "/ops", "janitor_alert")
    said = alert.json["data"]
    assert (said["webhook"], said["reason"]) == ("gone", "webhook gone was disabled: it answered 410")


async def test_without_another_webhook_that_wants_alerts_a_disabled_one_leaves_no_event(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url, events=["job_failed", "janitor_alert"])
    receiver.mode = 410
    await stage.note()
    await stage.send()
    assert await stage.sql("select event from outbox") == [("job_failed",)]


async def test_a_webhook_that_fails_for_a_day_is_disabled_and_what_waits_is_dead(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url)
    receiver.mode = 500
    await stage.note()
    await stage.note(job_id=None)
    await stage.send()
    await stage.pass_time(DAY - HOUR)
    await stage.send()
    assert await stage.sql("select disabled_at from webhooks") == [(None,)]
    await stage.pass_time(2 * HOUR)
    await stage.send()
    ((reason,),) = await stage.sql("select disabled_reason from webhooks")
    assert reason == "it has failed for 25 hours; the last time: it answered 500: well?"
    assert {status for status, *_ in await stage.deliveries()} <= {"dead", "waiting"}
    await stage.retry_now()
    await stage.send()
    assert {status for status, *_ in await stage.deliveries()} == {"dead"}


async def test_a_success_between_keeps_a_webhook_that_fails_now_and_then(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    for mode in (500, 200, 500, 200):
        receiver.mode = mode
        await stage.note(job_id=None)
        await stage.retry_now()
        await stage.send()
        await stage.pass_time(DAY - HOUR)
    assert await stage.sql("select disabled_at from webhooks") == [(None,)]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_that_asks_for_time_gets_it_for_all_its_deliveries(
    stage: Stage, receiver: Receiver, status: int
) -> None:
    await stage.webhook(receiver.url)
    receiver.mode, receiver.headers = status, {"Retry-After": "120"}
    await stage.note()
    await stage.send()
    await stage.note(job_id=None)
    await stage.pass_time(110)
    await stage.send()
    assert len(receiver.requests) == 1
    receiver.mode = 200
    await stage.pass_time(15)
    await stage.send()
    assert len(receiver.requests) == 3
    assert [row[0] for row in await stage.deliveries()] == ["sent", "sent"]


async def test_after_three_days_a_delivery_is_dead(stage: Stage, receiver: Receiver) -> None:
    receiver.mode = 500
    await stage.note(rules=[{"callback": receiver.url}])
    await stage.send()
    await stage.pass_time(3 * DAY)
    await stage.send()
    assert await stage.deliveries() == [("dead", 2, "it answered 500: well?")]


async def test_the_deliveries_of_a_job_to_a_receiver_keep_their_order(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url, events=["node_failed", "job_failed"])
    first = await stage.note("node_failed")
    receiver.mode = 500
    await stage.send()
    await stage.note("job_failed")
    await stage.note("job_failed", job_id=str(uuid.uuid4()))
    receiver.mode = 200
    await stage.sql("delete from failing_destinations")
    await stage.send()
    # That of the other job waits for nothing.
    assert [request.json["data"]["seq"] for request in receiver.requests] == [1, 3]
    await stage.retry_now()
    await stage.send()
    assert [request.json["data"]["seq"] for request in receiver.requests] == [1, 3, 1, 2]
    assert first


async def test_a_later_delivery_waits_for_three_tries_of_an_earlier_one(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url, events=["node_failed", "job_failed"])
    receiver.mode = lambda request: 500 if request.json["type"] == "node_failed" else 200
    await stage.note("node_failed")
    await stage.note("job_failed")
    for tries in (1, 2, 3):
        assert {request.json["type"] for request in receiver.requests} <= {"node_failed"}
        await stage.retry_now()
        await stage.send()
        assert (await stage.deliveries("tries"))[0] == (tries,)
    await stage.sql("update failing_destinations set held_until = now()")
    await stage.send()
    assert "job_failed" in {request.json["type"] for request in receiver.requests}


async def test_a_later_delivery_waits_for_an_earlier_one_at_most_five_minutes(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url, events=["node_failed", "job_failed"])
    receiver.mode, receiver.headers = 503, {"Retry-After": "3600"}
    await stage.note("node_failed")
    await stage.send()
    receiver.mode = 200
    await stage.sql("delete from failing_destinations")
    await stage.note("job_failed")
    await stage.send()
    assert len(receiver.requests) == 1
    await stage.pass_time(301)
    await stage.send()
    assert [request.json["type"] for request in receiver.requests] == ["node_failed", "job_failed"]


async def test_a_receiver_that_hangs_holds_up_no_other(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url + "/hangs", "hangs", ["job_failed"])
    await stage.webhook(receiver.url + "/well", "well", ["job_completed"])
    receiver.mode = lambda request: "hangs" if request.path == "/hangs" else 200
    for _ in range(40):
        await stage.note("job_failed", job_id=str(uuid.uuid4()))
    notifier = stage.notifier(seconds=30.0)
    await notifier.begin_due()
    for _ in range(12):
        await stage.note("job_completed", job_id=str(uuid.uuid4()))
    sent: list[Any] = []
    while len(sent) < 12:
        await notifier.begin_due()
        sent = await stage.sql("select 1 from deliveries where status = 'sent'")
    assert await stage.sql("select count(*) from deliveries where holder is not null") == [(4,)]
    await receiver.end()
    await notifier.until_sent()


async def test_a_private_address_is_refused_and_not_called(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url.replace("127.0.0.1", "localhost"))
    await stage.note(rules=[{"callback": receiver.url}])
    await stage.send(stage.notifier(outgoing=Outgoing()))
    assert not receiver.requests
    errors = [error for *_, error in await stage.deliveries()]
    assert all("is not a public address; HOLDFAST_OUTGOING_ALLOW does not list it" in error for error in errors)
    assert len(errors) == 2


@pytest.mark.parametrize("name", ["hooks.test", "other.test"])
async def test_a_webhook_with_tls_is_looked_up_once_and_must_prove_its_name(
    stage: Stage, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.test").configure_cert(tls)
    look, looked = socket.getaddrinfo, []

    def found(host: Any, *more: Any, **named: Any) -> Any:
        looked.append(host)
        return look("127.0.0.1" if str(host).endswith(".test") else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    async with receiving(tls) as receiver:
        await stage.webhook(f"https://{name}:{receiver.port}/path")
        await stage.note()
        await stage.send(stage.notifier(outgoing=Outgoing([name])))
        assert looked.count(name) == 1
        ((status, _, error),) = await stage.deliveries()
        if name == "hooks.test":
            assert (status, receiver.requests[0].headers["host"]) == ("sent", f"{name}:{receiver.port}")
        else:
            assert (status, receiver.requests) == ("waiting", [])
            assert "certificate" in error.lower()


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"webhook": "nowhere"}, "there is no webhook 'nowhere'"),
        ({"callback": "ftp://host/"}, "it cannot be made: The URL of callback"),
        ({"callback": "https://ann:pw@host/"}, "it cannot be made: The URL of callback"),
        ({"callback": None}, "a rule cannot be followed: it names no webhook, no callback and no address"),
        ({}, "a rule cannot be followed: it names no webhook, no callback and no address"),
        ({"email": "", "problem": "inputs.owner is not there"}, "a rule cannot be followed: inputs.owner is not there"),
    ],
)
async def test_what_cannot_be_made_is_a_dead_delivery(stage: Stage, rule: dict[str, Any], problem: str) -> None:
    await stage.note(rules=[rule])
    await stage.send()
    ((status, tries, error),) = await stage.deliveries()
    assert (status, tries) == ("dead", 1)
    assert problem in error
    assert "pw" not in error


async def test_two_processes_at_once_send_each_delivery_once(
    stage: Stage, receiver: Receiver, database_url: str
) -> None:
    await stage.webhook(receiver.url)
    for _ in range(60):
        await stage.note(job_id=str(uuid.uuid4()))
    other = Stage(PostgresStore(database_url))
    one, two = stage.notifier(), other.notifier()
    try:
        while len(receiver.requests) < 60:
            await one.begin_due()
            await two.begin_due()
            await one.until_sent()
            await two.until_sent()
    finally:
        await other.store.close()
    assert len(receiver.ids) == len(set(receiver.ids)) == 60


async def test_a_process_that_comes_too_late_changes_nothing_of_what_another_one_tries(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    notify = stage.store.notify()
    late, other = str(uuid.uuid4()), str(uuid.uuid4())
    _, (first,) = await notify.claim(late, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    await stage.pass_time(61)
    _, (second,) = await notify.claim(other, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    assert (first.delivery_id, first.tries, second.tries) == (second.delivery_id, 1, 2)
    assert await notify.mark(first, late, Mark("dead", error="too late")) is None
    assert await stage.deliveries("status, tries, error, holder::text") == [("waiting", 2, None, other)]
    assert await notify.mark(second, other, Mark("sent", answer=200)) == 0
    assert await stage.deliveries() == [("sent", 2, None)]


async def test_a_try_that_comes_too_late_changes_nothing_of_a_later_try_of_its_own_process(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    notify, me = stage.store.notify(), str(uuid.uuid4())
    _, (first,) = await notify.claim(me, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    await stage.pass_time(61)
    _, (second,) = await notify.claim(me, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    assert await notify.mark(first, me, Mark("dead", error="too late")) is None
    assert await stage.deliveries("status, tries, error, holder::text") == [("waiting", 2, None, me)]
    assert await notify.mark(second, me, Mark("sent", answer=200)) == 0


async def test_a_try_that_comes_too_late_changes_nothing_of_a_delivery_that_a_person_sends_again(
    stage: Stage, receiver: Receiver
) -> None:
    """Its tries are counted from the beginning again: only the holder tells them apart."""
    await stage.webhook(receiver.url)
    await stage.note()
    notify = stage.store.notify()
    late, other = str(uuid.uuid4()), str(uuid.uuid4())
    _, (first,) = await notify.claim(late, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    await stage.sql("update deliveries set status = 'waiting', tries = 0, next_at = now(), holder = null")
    _, (second,) = await notify.claim(other, ["webhook"], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    assert (first.tries, second.tries) == (1, 1)
    assert await notify.mark(first, late, Mark("dead", error="too late")) is None
    assert await stage.deliveries("status, tries, error, holder::text") == [("waiting", 1, None, other)]


async def test_what_ended_long_ago_is_deleted_with_its_events(stage: Stage, receiver: Receiver) -> None:
    await stage.webhook(receiver.url)
    await stage.note()
    await stage.send()
    receiver.mode = 500
    await stage.note(job_id=None)
    await stage.send()
    await stage.pass_time(31 * DAY)
    await stage.note(job_id=None)
    await stage.sql("update outbox set expanded_at = now() where outbox_id = (select max(outbox_id) from outbox)")
    await stage.store.notify().forget(30 * DAY, 3 * DAY)
    assert await stage.deliveries() == []
    assert await stage.sql("select count(*) from outbox") == [(1,)]


async def test_what_no_process_can_send_ends_after_three_days(stage: Stage) -> None:
    await stage.note(rules=[{"email": "ann@example.org"}, {"callback": "https://example.org/"}])
    await stage.store.notify().claim(str(uuid.uuid4()), [], 16, at_once=4, lease_seconds=60, mail_seconds=900)
    await stage.pass_time(2 * DAY)
    await stage.store.notify().forget(30 * DAY, 3 * DAY)
    assert [status for status, *_ in await stage.deliveries()] == ["waiting", "waiting"]
    await stage.pass_time(2 * DAY)
    await stage.store.notify().forget(30 * DAY, 3 * DAY)
    assert [(status, error) for status, _, error in await stage.deliveries()] == [
        ("dead", "no process that delivers can send callback"),
        ("dead", "no process that delivers can send email"),
    ]
