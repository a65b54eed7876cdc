"""`holdfast webhooks`, `holdfast deliveries` and `holdfast notify`, as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Command


def put_dead(url: str, name: str, number: int = 1) -> None:
    """Dead deliveries to a webhook, as a process that sends leaves them."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        for _ in range(number):
            connection.execute(
                "with o as (insert into outbox (tenant, event, expanded_at) values ('default', 'job_failed', now())"
                " returning *) insert into deliveries (outbox_id, tenant, kind, receiver, destination, status, tries,"
                " ended_at, error)"
                " select o.outbox_id, o.tenant, 'webhook', %(to)s, %(to)s, 'dead', 3, now(), 'it failed' from o",
                {"to": f"webhook:{name}"},
            )


def test_a_secret_is_all_that_adding_a_webhook_prints_on_stdout(database: Command) -> None:
    assert "has no webhooks" in database("webhooks").out
    made = database("webhooks", "add", "portal", "https://portal.example/", "--event", "failed")
    assert made.code == 0
    assert made.out.startswith("whsec_") and len(made.out.split()) == 1
    assert "shown only now" in made.err
    rotated = database("webhooks", "rotate", "portal")
    assert rotated.out.startswith("whsec_") and rotated.out != made.out
    assert "the former one signs too" in rotated.err
    shown = database("webhooks").out
    assert "portal" in shown and "job_failed" in shown and "works" in shown and "whsec" not in shown
    assert database("webhooks", "remove", "portal").code == 0
    assert database("webhooks", "remove", "portal").code == 5


def test_an_address_that_is_not_public_is_warned_of_where_it_is_given(database: Command, tmp_path: Path) -> None:
    made = database("webhooks", "add", "portal", "http://10.0.0.7/hooks")
    assert made.code == 0 and made.out.startswith("whsec_") and len(made.out.split()) == 1
    where = "it is called only where HOLDFAST_OUTGOING_ALLOW lists it, in the settings of the processes that send"
    assert f"warning: 10.0.0.7 is not a public address: {where}." in " ".join(made.err.split())
    assert "holdfast notify test --webhook portal" in made.err
    (tmp_path / "flow.yaml").write_text("workflow_id: w\nnodes: {a: {handler: echo}}\n")
    sent = database("submit", str(tmp_path / "flow.yaml"), "--callback-url", "http://localhost:9/done")
    assert sent.code == 0
    assert f"warning: localhost is not a public address: {where}." in " ".join(sent.err.split())
    assert "warning" not in database("webhooks", "add", "portal", "https://portal.example/hooks").err


def test_a_webhook_that_fails_or_is_disabled_says_for_how_long(database: Command, database_url: str) -> None:
    for name in ("fails", "gone"):
        database("webhooks", "add", name, "https://portal.example/")
    with psycopg.connect(database_url, autocommit=True, options="-c search_path=holdfast") as connection:
        connection.execute(
            "insert into failing_destinations (tenant, destination, failing_since)"
            " values ('default', 'webhook:fails', now() - interval '2 hours 1 minute')"
        )
        connection.execute(
            "update webhooks set disabled_at = now() - interval '3 hours 1 minute', disabled_reason = 'it answered 410'"
            " where name = 'gone'"
        )
    shown = " ".join(database("webhooks").out.split())
    assert "failing for 2 h 1 min" in shown and "disabled 3 h 1 min ago: it answered 410" in shown
    assert shown.count("ago") == 1


@pytest.mark.parametrize("words", [["add"], ["add", "a"], ["remove"], ["enable"], ["rotate"]])
def test_what_is_missing_is_named(database: Command, words: list[str]) -> None:
    refused = database("webhooks", *words)
    assert refused.code == 2
    assert "needs" in refused.err


def test_dead_deliveries_are_listed_and_sent_again(database: Command, database_url: str) -> None:
    assert "There is no delivery" in database("deliveries").out
    database("webhooks", "add", "portal", "https://portal.example/")
    put_dead(database_url, "portal", 3)
    put_dead(database_url, "other")
    listed = database("deliveries")
    assert "webhook portal" in listed.out and "dead, 3 tries" in listed.out and "it failed" in listed.out
    assert "holdfast deliveries redrive ID" in listed.err
    one = database("deliveries", "--webhook", "portal", "--limit", "1", "--json").json
    (dead,) = one["deliveries"]
    assert database("deliveries", "redrive", dead["id"][-8:]).out == "1 delivery will be sent again.\n"
    assert database("deliveries", "redrive", "--webhook", "portal").out == "2 deliveries will be sent again.\n"
    statuses = [each["status"] for each in database("deliveries", "--json").json["deliveries"]]
    assert sorted(statuses) == ["dead", "waiting", "waiting", "waiting"]
    refused = database("deliveries", "redrive", "--webhook", "other")
    assert (refused.code, "there is no webhook other" in refused.err) == (4, True)
    assert database("deliveries", "redrive").code == 2
    assert database("deliveries", "redrive", dead["id"]).code == 4


def test_mails_that_no_process_tries_name_the_settings_of_a_mail_server(database: Command, database_url: str) -> None:
    put_dead(database_url, "portal")
    with psycopg.connect(database_url, autocommit=True, options="-c search_path=holdfast") as connection:
        connection.execute(
            "update deliveries set kind = 'email', receiver = 'email:ann@example.org', status = 'waiting', tries = 0,"
            " error = null"
        )
        assert "HOLDFAST_SMTP_URL" not in database("deliveries").err
        connection.execute("update deliveries set created_at = now() - interval '2 minutes'")
    assert "No process tries the mails." in (said := database("deliveries").err)
    assert "if HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM are set for it: holdfast up" in said


def test_deliveries_fit_into_a_terminal_and_name_each_problem_once(database: Command, database_url: str) -> None:
    put_dead(database_url, "portal", 5)
    lines = database("deliveries").out.splitlines()
    assert len(lines) == 7
    assert all("dead, 3 tries  webhook portal" in line for line in lines[1:6])
    assert lines[6].endswith(" and 2 more: it failed")


def test_a_test_says_that_no_process_sends(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.deliveries.TEST_SECONDS", 0.1)
    database("webhooks", "add", "portal", "https://portal.example/")
    mail = database("notify", "test", "--email", "ann@example.org")
    assert (mail.code, mail.out) == (6, "No process has tried it yet.\n")
    assert "if HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM are set for it" in mail.err
    tried = database("notify", "test", "--webhook", "portal")
    assert (tried.code, tried.out) == (6, "No process has tried it yet.\n")
    assert "holdfast up" in tried.err
    assert database("notify", "test").code == 2
    assert database("notify", "test", "--webhook", "other").code == 5


def test_the_secret_of_callbacks_is_shown_once(database: Command) -> None:
    first, second = database("notify", "rotate"), database("notify", "rotate", "--json")
    assert first.out.startswith("whsec_")
    assert json.loads(second.out)["former_secret_until"] is not None
