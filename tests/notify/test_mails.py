"""Mails, sent to a real mail server from a real outbox."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import AsyncIterator
from email.headerregistry import Address
from pathlib import Path
from string import Template
from typing import Any

import pytest
import trustme

from holdfast.errors import InvalidInput, Permanent
from holdfast.notify.mail import checked_sender, load_templates
from holdfast.notify.mail_sender import MailSender
from holdfast.notify.mail_server import MailServer, checked_mail_server
from holdfast.notify.service import MAIL_SECONDS, Notifier
from holdfast.store.notify_rows import JobFacts
from tests.notify.mailbox import PASSWORD, USER, Mailbox, mailbox
from tests.notify.stage import Stage
from tests.running import registry, running

pytestmark = pytest.mark.anyio

SENDER = Address("Holdfast", addr_spec="holdfast@example.org")
ANN = {"email": "ann@example.org"}
FACTS = JobFacts(
    "failed",
    1,
    {},
    "LOST in each[3]: <b>gone</b>",
    "7 of 9 tasks are done and stay; maps: 7 in silver/",
    "holdfast resume 01a1",
)


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    with warnings.catch_warnings():
        async with mailbox() as opened:
            yield opened


@pytest.fixture
async def allowed(stage: Stage) -> None:
    await stage.sql("insert into notify_settings (tenant, mail_domains) values ('default', array['example.org'])")


def sender_to(box: Mailbox, seconds: float = 5.0, templates: Path | None = None, *, has_ui: bool = True) -> MailSender:
    server, public_url = checked_mail_server(f"smtp://127.0.0.1:{box.port}"), "https://jobs.example.org"
    return MailSender(server, SENDER, load_templates(templates), public_url, has_ui=has_ui, seconds=seconds)


def mailing(stage: Stage, box: Mailbox, facts: JobFacts | None = FACTS, **more: Any) -> Notifier:
    async def look(tenant: str, job_id: str) -> JobFacts | None:
        return facts

    return Notifier(stage.store.notify(), {"email": sender_to(box, **more)}, look)


def text_of(mail: Any, kind: str = "plain") -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


async def test_a_mail_says_what_failed_what_survived_and_which_command_continues(
    stage: Stage, box: Mailbox, allowed: None
) -> None:
    await stage.note(
        "task_exhausted", node="each", items=[3, 5], rules=[ANN], data={"code": "LOST", "message": "<b>gone"}
    )
    await stage.note("job_failed", rules=[ANN])
    await stage.send(mailing(stage, box))
    (mail,) = box.mails
    assert mail["To"] == "ann@example.org"
    assert mail["From"] == "Holdfast <holdfast@example.org>"
    assert mail["Subject"] == "[holdfast] maps failed: LOST in each[3]: <b>gone</b>"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = text_of(mail)
    assert "What failed    LOST in each[3]: <b>gone</b>" in text
    assert "What survived  7 of 9 tasks are done and stay; maps: 7 in silver/" in text
    assert "To continue    holdfast resume 01a1" in text
    assert f"More           https://jobs.example.org/jobs/{stage.job_id}" in text.splitlines()
    assert "2 items failed in each (LOST: <b>gone)" in text
    assert "the job is failed" in text
    assert f"Job {stage.job_id} of workflow maps, tenant default, generation 1." in text
    markup = text_of(mail, "html")
    assert "<b>gone" not in markup and "&lt;b&gt;gone" in markup
    assert "<code>holdfast resume 01a1</code>" in markup
    page = f"https://jobs.example.org/jobs/{stage.job_id}"
    assert f'<a href="{page}">{page}</a>' in markup


async def test_where_there_is_no_web_ui_a_mail_links_to_the_job_as_json(
    stage: Stage, box: Mailbox, allowed: None
) -> None:
    await stage.note("job_failed", rules=[ANN])
    await stage.send(mailing(stage, box, has_ui=False))
    (mail,) = box.mails
    assert f"More           https://jobs.example.org/api/v1/jobs/{stage.job_id}" in text_of(mail).splitlines()


async def test_a_job_has_one_mail_at_its_first_failure_then_one_per_quarter_and_one_at_its_end(
    stage: Stage, box: Mailbox, allowed: None
) -> None:
    notifier = mailing(stage, box)
    await stage.note("task_exhausted", node="each", items=[0], rules=[ANN])
    await stage.send(notifier)
    assert len(box.mails) == 1
    for item in range(1, 30):
        await stage.note("task_exhausted", node="each", items=[item], rules=[ANN])
        await stage.send(notifier)
    assert len(box.mails) == 1
    await stage.pass_time(MAIL_SECONDS - 30)
    await stage.send(notifier)
    assert len(box.mails) == 1
    await stage.pass_time(31)
    await stage.send(notifier)
    assert len(box.mails) == 2
    await stage.note("task_exhausted", node="each", items=[30], rules=[ANN])
    await stage.note("job_failed", rules=[ANN])
    await stage.send(notifier)
    assert [text_of(mail).count("UTC  1 item failed in each") for mail in box.mails] == [1, 29, 1]
    assert "the job is failed" in text_of(box.mails[2])
    first, second, third = box.mails
    assert second["In-Reply-To"] == third["References"] == first["Message-ID"]
    assert len({mail["Message-ID"] for mail in box.mails}) == 3
    assert await stage.sql("select status, count(*), count(distinct head_id) from deliveries group by 1") == [
        ("sent", 32, 3)
    ]


async def test_each_recipient_has_a_mail_of_its_own(stage: Stage, box: Mailbox, allowed: None) -> None:
    await stage.note(rules=[ANN, {"email": "ben@example.org"}, ANN])
    await stage.send(mailing(stage, box))
    assert sorted(box.recipients) == [["ann@example.org"], ["ben@example.org"]]
    assert sorted(mail["To"] for mail in box.mails) == ["ann@example.org", "ben@example.org"]


async def test_each_job_has_its_own_mails(stage: Stage, box: Mailbox, allowed: None) -> None:
    for _ in range(3):
        await stage.note(rules=[ANN], job_id=str(uuid.uuid4()))
    await stage.send(mailing(stage, box))
    assert len(box.mails) == 3
    assert all(mail["In-Reply-To"] is None for mail in box.mails)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("ann@other.org", "other.org is not among the mail domains of tenant default"),
        ("ann@sub.example.org", "sub.example.org is not among the mail domains"),
        ("ann@example.org\nBcc: ben@example.org", "is not an e-mail address"),
        ("Ann <ann@example.org>", "is not an e-mail address"),
        ("ann@example.org, ben@example.org", "is not an e-mail address"),
        ("ann@evil.org@example.org", "is not an e-mail address"),
    ],
)
async def test_a_mail_goes_to_no_address_that_the_tenant_may_not_name(
    stage: Stage, box: Mailbox, allowed: None, address: str, problem: str
) -> None:
    await stage.note(rules=[{"email": address}])
    await stage.send(mailing(stage, box))
    ((status, tries, error),) = await stage.deliveries()
    assert (status, tries) == ("dead", 1)
    assert problem in error
    assert not box.mails


async def test_without_mail_domains_no_mail_is_sent(stage: Stage, box: Mailbox) -> None:
    await stage.note(rules=[ANN])
    await stage.send(mailing(stage, box))
    assert [status for status, *_ in await stage.deliveries()] == ["dead"]
    assert not box.mails


async def test_nothing_of_a_job_gets_into_the_headers(stage: Stage, box: Mailbox, allowed: None) -> None:
    await stage.note(rules=[ANN])
    facts = FACTS._replace(failed="LOST: a\r\nBcc: ben@example.org\r\n\r\nbody \x00 " + "x" * 500)
    await stage.send(mailing(stage, box, facts))
    (mail,) = box.mails
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("[holdfast] maps failed: LOST: a Bcc: ben@example.org body")
    assert box.recipients == [["ann@example.org"]]


@pytest.mark.parametrize(
    ("mode", "status", "problem"),
    [
        ("knows no recipient", "dead", "the mail server says 550: there is no such person"),
        ("has no room", "waiting", "the mail server says 452: the mailbox is full"),
        ("refuses the mail", "dead", "the mail server says 554: this looks like an advertisement"),
        ("is busy", "waiting", "the mail server says 451: come again"),
        ("is cut after the mail", "waiting", "the mail server cannot be used"),
    ],
)
async def test_what_the_mail_server_says_decides_whether_the_mail_is_tried_again(
    stage: Stage, box: Mailbox, allowed: None, mode: str, status: str, problem: str
) -> None:
    box.mode = mode
    await stage.note("task_exhausted", rules=[ANN])
    await stage.note("job_failed", rules=[ANN])
    notifier = mailing(stage, box)
    await stage.send(notifier)
    rows = await stage.deliveries()
    assert [row[:2] for row in rows] == [(status, 1), (status, 1)]
    assert problem in rows[0][2]
    box.mode = "takes"
    if status == "dead":
        (dead, _) = await stage.sql("select delivery_id::text from deliveries order by outbox_id")
        assert await stage.store.notifications("default").redrive(dead[0], "ann") is not None
    await stage.retry_now()
    await stage.send(notifier)
    assert [row[0] for row in await stage.deliveries()] == ["sent", "sent"]
    # A mail that came twice has one id.
    assert len({mail["Message-ID"] for mail in box.mails}) == 1


async def test_a_mail_server_that_is_down_is_tried_again(stage: Stage, box: Mailbox, allowed: None) -> None:
    await stage.note(rules=[ANN])
    down = MailSender(MailServer("smtp", "127.0.0.1", 9), SENDER, load_templates(None), None)

    async def look(tenant: str, job_id: str) -> JobFacts | None:
        return None

    await stage.send(Notifier(stage.store.notify(), {"email": down}, look))
    assert [row[0] for row in await stage.deliveries()] == ["waiting"]
    await stage.retry_now()
    await stage.send(mailing(stage, box, None))
    assert len(box.mails) == 1


@pytest.mark.parametrize("scheme", ["smtps", "starttls"])
async def test_a_mail_goes_through_tls_with_a_login(
    stage: Stage, allowed: None, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with mailbox(scheme, authority) as box:
            url = f"{scheme}://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{box.port}"

            async def look(tenant: str, job_id: str) -> JobFacts | None:
                return None

            def notifier(url: str) -> Notifier:
                sender = MailSender(checked_mail_server(url), SENDER, load_templates(None), None, seconds=5.0)
                return Notifier(stage.store.notify(), {"email": sender}, look)

            await stage.note(rules=[ANN])
            await stage.send(notifier(url))
            ((status, _, error),) = await stage.deliveries()
            assert (status, box.mails) == ("waiting", []), "a certificate of an unknown authority was taken"
            assert PASSWORD not in error
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            await stage.retry_now()
            await stage.send(notifier(url.replace("correct", "wrong")))
            assert [row[0] for row in await stage.deliveries()] == ["waiting"]
            await stage.retry_now()
            await stage.send(notifier(url))
            assert (len(box.mails), box.users) == (1, [USER])


async def test_an_installation_replaces_the_templates(
    stage: Stage, box: Mailbox, allowed: None, tmp_path: Path
) -> None:
    (tmp_path / "subject.txt").write_text("$workflow: $status")
    (tmp_path / "mail.txt").write_text("$failed | $command | $job")
    await stage.note(rules=[ANN])
    await stage.send(mailing(stage, box, templates=tmp_path))
    (mail,) = box.mails
    assert mail["Subject"] == "maps: failed"
    assert text_of(mail).strip() == f"LOST in each[3]: <b>gone</b> | holdfast resume 01a1 | {stage.job_id}"
    assert "What survived" in text_of(mail, "html")


@pytest.mark.parametrize("broken", ["$nothing", "100 $ for you", "${"])
async def test_a_template_that_cannot_be_filled_in_is_a_dead_delivery(
    stage: Stage, box: Mailbox, allowed: None, tmp_path: Path, broken: str
) -> None:
    (tmp_path / "mail.txt").write_text(broken)
    await stage.note(rules=[ANN])
    await stage.send(mailing(stage, box, templates=tmp_path))
    ((status, _, error),) = await stage.deliveries()
    assert status == "dead"
    assert "a template of the mail cannot be filled in" in error


def test_every_template_of_ours_can_be_filled_in() -> None:
    known = dict.fromkeys(("headline", "facts", "events", "about"), "x")
    for template in load_templates(None):
        assert isinstance(template, Template)
        assert "$" not in template.substitute(known)


async def test_a_mail_about_no_job_names_none(stage: Stage, box: Mailbox, allowed: None) -> None:
    await stage.store.notifications("default").send_test("email", "ann@example.org", {"by": "ben@desk"}, "ben@desk")
    await stage.send(mailing(stage, box))
    (mail,) = box.mails
    for text in (text_of(mail), text_of(mail, "html")):
        assert "a test by ben@desk" in text and "Tenant default." in text
        assert "Job" not in text and "generation" not in text


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://mail.example.org", "not the address of a mail server"),
        ("smtp://", "not the address of a mail server"),
        ("smtp://mail.example.org/path", "not the address of a mail server"),
        ("smtps://ann@mail.example.org", "a user or a password, and not both"),
        ("smtp://ann:quiet-word@mail.example.org", "would send a password without TLS"),
    ],
)
def test_a_wrong_mail_server_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        checked_mail_server(url)
    assert "quiet-word" not in str(refused.value.to_problem())


def test_the_ports_of_mail_servers_are_known() -> None:
    urls = ("smtp://m.test", "smtps://m.test", "starttls://a:b@m.test", "smtp://m.test:2525")
    assert [checked_mail_server(url).port for url in urls] == [25, 465, 587, 2525]
    with pytest.raises(InvalidInput, match="HOLDFAST_SMTP_FROM is not an address"):
        checked_sender("Holdfast")


async def test_a_job_with_fifty_failed_items_gives_at_most_two_mails(
    stage: Stage, box: Mailbox, allowed: None, database_url: str
) -> None:
    def draw(item: int) -> int:
        raise Permanent(f"nothing covers {item}", "NO_COVERAGE")

    flow = """
workflow_id: stacks
notify: [{on: [failed, task_exhausted], email: ann@example.org}]
nodes:
  each:
    type: fan_out
    source: "{{ range(50) }}"
    task: {handler: draw, params: {item: "{{ item }}"}, retry: {max_retries: 0}}
"""
    flow = flow.replace("{{ range(50) }}", "{{ " + str([*range(50)]) + " }}")
    mails: dict[str, Any] = {"smtp_url": f"smtp://127.0.0.1:{box.port}", "smtp_from": "holdfast@example.org"}
    async with running(database_url, registry(draw=draw), **mails) as engine:
        status = await engine.run(flow)
    assert status["status"] == "failed"
    assert 1 <= len(box.mails) <= 2
    last = text_of(box.mails[-1])
    assert "NO_COVERAGE in each" in last
    assert f"holdfast resume {status['job_id']}" in last
    noted = await stage.sql("select sum(o.count) from outbox o where o.event = 'task_exhausted'")
    assert noted == [(50,)]
    assert {row[0] for row in await stage.deliveries()} == {"sent"}


async def test_the_mail_of_a_partial_job_names_what_failed_in_which_node(
    stage: Stage, box: Mailbox, allowed: None, database_url: str
) -> None:
    def draw(tile: int) -> int:
        if tile > 1:
            raise Permanent(f"nothing covers {tile}", "NO_COVERAGE")
        return tile

    flow = """
workflow_id: stacks
inputs: {tiles: {type: array}, others: {type: array}}
notify: [{on: partial, email: ann@example.org}]
nodes:
  each:
    type: fan_out
    source: "{{ inputs.tiles }}"
    tolerate: {failures: 100%}
    task: {handler: draw, params: {tile: "{{ item }}"}}
  others:
    type: fan_out
    source: "{{ inputs.others }}"
    tolerate: {failures: 100%}
    task: {handler: draw, params: {tile: "{{ item }}"}}
"""
    mails: dict[str, Any] = {"smtp_url": f"smtp://127.0.0.1:{box.port}", "smtp_from": "holdfast@example.org"}
    async with running(database_url, registry(draw=draw), **mails) as engine:
        for tiles, others in (([1, 2, 3], [1]), ([5, 1], [6])):
            assert (await engine.run(flow, {"tiles": tiles, "others": others}))["status"] == "partial"
    assert [mail["Subject"].removeprefix("[holdfast] stacks partial: ") for mail in box.mails] == [
        "NO_COVERAGE in each[1]: 2 of 3 items failed; the first: nothing covers 2",
        "NO_COVERAGE in each[0]: 1 of 2 items failed; the first: nothing covers 5; and in 1 more node",
    ]
