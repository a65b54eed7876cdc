"""Secrets end to end: only the handler sees the value; everything that is kept or shown has the reference or a mask."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.client import Client
from holdfast.define.load import load_text
from holdfast.define.registry import Registry
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.views.encoding import to_json
from tests import secret_handlers
from tests.cli.conftest import HOLDFAST
from tests.conftest import eventually
from tests.docs.pages import ROOT
from tests.notify.mailbox import mailbox
from tests.notify.receiver import receiving
from tests.running import HOME, Engine, client_of, nodes, running
from tests.running import registry as registry_of
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

BETRAYAL = """
workflow_id: betrayal
inputs: {how: {type: string, default: none}}
nodes:
  tell:
    handler: betray.WHERE
    importance: important
    params: {token: "{{ secrets.CANARY }}", header: "Bearer {{ secrets.CANARY }} of {{ 'me' }}"}
    next: each
  each:
    type: fan_out
    importance: important
    tolerate: {failures: 100%}
    source: "{{ ['permanent', 'transient', 'code', 'named', 'cut', 'crash'] }}"
    task:
      handler: fail.WHERE
      params: {token: "{{ secrets.CANARY }}", how: "{{ item }}"}
      retry: {max_retries: 1, initial_delay_seconds: 0}
    next: gather
  gather: {type: fan_in, importance: important}
"""
LENGTH = """
workflow_id: length
inputs: {text: {type: string, default: ""}}
nodes: {a: {handler: check.length, params: {text: "PARAM"}}}
"""


def handlers(**more: Any) -> Registry:
    known = registry_of(**more)
    known.add_module(secret_handlers)
    return known


def new_canary() -> str:
    """Text that looks different in every form."""
    return f'ca+n"ä/ry\\ {uuid.uuid4().hex[:10]}=?'


def forms_of(secret: str) -> list[str]:
    """How it may stand in JSON of JSON, in addresses and in headers; written without what masks it."""
    once = json.dumps(secret)[1:-1]
    readable = json.dumps(secret, ensure_ascii=False)[1:-1]
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]
    return [
        secret, once, readable, json.dumps(once)[1:-1], json.dumps(readable, ensure_ascii=False)[1:-1],
        quote(secret), quote(secret, safe=""), encoded, encoded.replace("+", "-").replace("/", "_"),
        secret[10:-2], secret.encode().hex(),
    ]  # fmt: skip


def assert_hidden(secret: str, text: str, where: str) -> None:
    for form in forms_of(secret):
        at = text.find(form)
        assert at < 0, f"{where} has {form!r}: …{text[max(0, at - 100) : at + 100]}…"


async def every_row(engine: Engine) -> list[tuple[str, str]]:
    """Each row of each table of the database as JSON, and the name of its table."""
    tables = await engine.query(
        "select schemaname || '.' || tablename from pg_tables"
        " where schemaname not in ('pg_catalog', 'information_schema')"
    )
    return [
        (str(table), str(row[0]))
        for (table,) in tables
        for row in await engine.query(f"select row_to_json(t)::text from {table} t")
    ]


async def every_answer(service: Service, job_id: str) -> list[str]:
    """What the service says about the job of `BETRAYAL`, and its events as a stream."""
    reader, answers = await service.as_role("viewer"), []
    for path in ("", "/nodes", "/events", "/why", "/definition", "/nodes/each/tasks", "/nodes/each/failures",
                 "/tasks/tell/-1", "/tasks/each/0", "/results/tell", "/artifacts", "/timeline", "/stream"):  # fmt: skip
        answer = await reader.get(f"{API}/jobs/{job_id}{path}")
        assert answer.status_code == 200, path
        answers.append(answer.text)
    answers.append((await reader.get("/metrics")).text)
    assert "event: end" in answers[-2] and "holdfast_" in answers[-1]
    return answers


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    secret = new_canary()
    monkeypatch.setenv("HOLDFAST_SECRET_CANARY", secret)
    return secret


@pytest.fixture
def records() -> Iterator[list[str]]:
    """What a program with logging of its own gets to see."""
    seen: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(self.format(record))

    keeping = Keeping()
    logging.getLogger().addHandler(keeping)
    yield seen
    logging.getLogger().removeHandler(keeping)


@pytest.mark.parametrize("where", ["here", "apart"])
async def test_a_secret_is_in_no_table_log_event_payload_or_answer(
    where: str, canary: str, database_url: str, capfd: pytest.CaptureFixture[str], records: list[str]
) -> None:
    before = {file for file in HOME.rglob("*") if file.is_file()}
    async with running(database_url, handlers(), payload_inline_bytes=50_000) as engine:
        job_id = await engine.submit(BETRAYAL.replace("WHERE", where))
        status = await engine.finished(job_id)
        assert nodes(status)["tell"]["status"] == "completed", nodes(status)["tell"]
        rows = await every_row(engine)
        answers = [
            json.dumps(status),
            json.dumps(await engine.events(job_id)),
            json.dumps(await engine.outputs(job_id)),
        ]
        attempts = await engine.client.attempts(job_id)
        answers += [json.dumps(to_json(one)) for one in attempts]
        async with serving_http(database_url) as service:
            answers += await every_answer(service, job_id)
    payloads = [file for file in HOME.rglob("*") if file.is_file() and file not in before]
    assert len(rows) > 30 and payloads and records
    for table, row in rows:
        assert_hidden(canary, row, table)
    for answer_text in answers:
        assert_hidden(canary, answer_text, "an answer")
    for file in payloads:
        assert_hidden(canary, file.read_text(errors="replace"), str(file))
    for record in records:
        assert_hidden(canary, record, "a record of the log")
    printed = capfd.readouterr()
    assert_hidden(canary, printed.out + printed.err, "what the process prints")
    # It was all there, and stays where only the workflow put it.
    log = next(one.log for one in attempts if one.node == "tell")
    assert log is not None and "the key is ***" in log and "Traceback" in log and "from a thread" in printed.out + log
    tasks = [json.loads(row) for table, row in rows if table == "holdfast.tasks"]
    assert {task["params"]["token"] for task in tasks if task["node"] in ("tell", "each")} == {"{{ secrets.CANARY }}"}
    codes = {task["item"]: task["error"]["code"] for task in tasks if task["node"] == "each" and task["error"]}
    assert codes[0] == "NO_LUCK" and codes[2] == "HANDLER_ERROR"


async def test_a_worker_over_http_tells_the_service_no_secret(database_url: str, tmp_path: Path) -> None:
    """The service does not know the value: it could not mask it."""
    secret = new_canary()
    async with running(database_url, work=False) as engine, serving_http(database_url) as service:
        own = {"HOLDFAST_URL": service.url, "HOLDFAST_API_KEY": await service.key("worker")}
        process = await asyncio.create_subprocess_exec(
            *HOLDFAST, "worker", "--handlers", "tests.secret_handlers",
            env=os.environ | own | {"HOLDFAST_SECRET_CANARY": secret, "HOLDFAST_HOME": str(tmp_path)}, cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            job_id = await engine.submit(BETRAYAL.replace("WHERE", "here"))
            status = await engine.finished(job_id, 60)
        finally:
            process.terminate()
            said = (await process.communicate())[0].decode()
        assert nodes(status)["tell"]["status"] == "completed", said
        rows, answers = await every_row(engine), await every_answer(service, job_id)
        log = next(one.log for one in await engine.client.attempts(job_id) if one.node == "tell")
    assert log is not None and "the key is ***" in log
    for table, row in rows:
        assert_hidden(secret, row, table)
    for answer in answers:
        assert_hidden(secret, answer, "an answer")
    assert_hidden(secret, said, "what the worker prints")


async def test_text_that_came_as_data_never_becomes_a_secret(canary: str, database_url: str) -> None:
    reference = "{{ secrets.CANARY }}"
    async with running(database_url, handlers()) as engine:
        plain = await engine.run(LENGTH.replace("PARAM", "{{ inputs.text }}"), {"text": reference})
        assert plain["result"] == len(reference)
        mixed = LENGTH.replace("PARAM", "{{ secrets.CANARY }} {{ inputs.text }}")
        harmless = await engine.run(mixed, {"text": "and more"})
        assert harmless["result"] == len(f"{canary} and more")
        attack = await engine.finished(await engine.submit(mixed, {"text": reference}, key="attack"))
    error = nodes(attack)["a"]["error"]
    assert (
        error["code"] == "CONTRACT_VIOLATION" and "params.text refers to the secrets CANARY, CANARY" in error["message"]
    )


async def test_a_missing_secret_fails_with_its_own_code_and_a_job_resumes_once_it_is_there(
    database_url: str, tmp_path: Path
) -> None:
    async with running(database_url, handlers(), secrets_dir=tmp_path) as engine:
        job_id = await engine.submit(LENGTH.replace("PARAM", "{{ secrets.LATE }}"))
        error = nodes(await engine.finished(job_id))["a"]["error"]
        assert (error["code"], error["class"], error["attempt"]) == ("SECRET_MISSING", "permanent", 1)
        assert "no secret LATE for the tenant default" in error["message"]
        assert "HOLDFAST_SECRET_LATE" in error["message"] and "default/LATE and LATE" in error["message"]
        assert error["hint"].startswith("Give every worker of the queue the secret")
        (tmp_path / "LATE").write_text("now it is here\n")
        await engine.client.send(job_id, VerbRequest(Verb.RESUME))

        async def is_completed() -> dict[str, Any] | None:
            status = await engine.status(job_id)
            return status if status["status"] == "completed" else None

        assert (await eventually(is_completed))["result"] == len("now it is here")


async def test_each_tenant_has_its_own_secrets(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "of default")
    monkeypatch.setenv("HOLDFAST_SECRET_ACME__KEY", "of acme in a variable")
    (tmp_path / "Tenant B").mkdir()
    (tmp_path / "Tenant B" / "KEY").write_text("of B in a file")
    lengths = {}
    async with running(database_url, handlers(), secrets_dir=tmp_path) as engine:
        for tenant in ("default", "acme", "Tenant B", "ACME", "..", "other"):
            client = Client(engine.store, Scope(tenant))
            job_id = (await client.submit(load_text(LENGTH.replace("PARAM", "{{ secrets.KEY }}")))).job_id
            status = await engine.finished(job_id)
            lengths[tenant] = status["result"] if status["status"] == "completed" else status["error"]["code"]
    missing = "SECRET_MISSING"
    assert lengths == {
        "default": len("of default"), "acme": len("of acme in a variable"), "Tenant B": len("of B in a file"),
        "ACME": missing, "..": missing, "other": missing,
    }  # fmt: skip


async def test_a_process_of_a_handler_has_no_variables_of_secrets_and_is_used_once(
    canary: str, database_url: str
) -> None:
    text = """
    workflow_id: looks
    nodes:
      one: {handler: look.around, params: {token: "{{ secrets.CANARY }}"}, next: two}
      two: {handler: look.around, params: {token: "{{ secrets.CANARY }}"}}
    """
    async with running(database_url, handlers()) as engine:
        job_id = await engine.submit(text)
        await engine.finished(job_id)
        found = await engine.outputs(job_id)
    assert found["one"]["variables"] == found["two"]["variables"] == []
    assert found["one"]["pid"] != found["two"]["pid"]


NOTIFYING = """
workflow_id: notifying
notify:
  - {on: [failed, partial], email: ann@example.org}
nodes:
  each:
    type: fan_out
    source: "{{ ['permanent', 'cut', 'crash'] }}"
    task:
      handler: fail.apart
      params: {token: "{{ secrets.CANARY }}", how: "{{ item }}"}
      retry: {max_retries: 0}
"""


async def test_a_secret_is_in_no_mail_and_no_webhook(canary: str, database_url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        async with mailbox() as box, receiving() as receiver:
            settings: dict[str, Any] = {
                "outgoing_allow": ("127.0.0.1",), "smtp_from": "holdfast@example.org",
                "smtp_url": f"smtp://127.0.0.1:{box.port}",
            }  # fmt: skip
            async with client_of(database_url) as engine:
                await engine.query(
                    "insert into holdfast.notify_settings (tenant, mail_domains)"
                    " values ('default', array['example.org'])"
                )
                async with running(database_url, handlers(), **settings):
                    definition = load_text(NOTIFYING)
                    job_id = (await engine.client.submit(definition, callback_url=f"{receiver.url}/ended")).job_id
                    await engine.finished(job_id)

                    async def all_came() -> bool:
                        return bool(box.mails) and bool(receiver.requests)

                    await eventually(all_came)
            for mail in box.mails:
                part = mail.get_body(("plain",))
                # It tells of the item that failed first, whichever that is; of the second the end is cut off.
                assert part is not None and ("***" in part.get_content() or "(cut off)" in part.get_content())
                for one in mail.walk():
                    if not one.is_multipart():
                        assert_hidden(canary, str(one.get_content()), "a mail")
                assert_hidden(canary, str(mail), "a mail")
            for request in receiver.requests:
                assert_hidden(canary, request.body.decode(), "a webhook")
                assert_hidden(canary, str(request.headers), "a webhook")


async def test_params_given_by_hand_a_batch_and_an_undo_have_the_value_too(canary: str, database_url: str) -> None:
    text = """
    workflow_id: more
    nodes:
      one: {handler: check.length, params: {text: "{{ secrets.CANARY }}"}, compensate: take.back, next: each}
      each: {type: fan_out, source: "{{ [1, 2] }}", task: {handler: echo}, next: sum}
      sum:
        type: fan_in
        handler: check.length
        params: {text: "<{{ secrets.CANARY }}>"}
        batch: {handler: check.length, params: {text: "batch {{ secrets.CANARY }}", whole: "{{ item }}"}, size: 1}
    """
    async with running(database_url, handlers()) as engine:
        job_id = await engine.submit(text)
        assert (await engine.finished(job_id))["result"] == len(f"<{canary}>")
        rows = await engine.query("select output from tasks where job_id = %s and node = 'sum' and item >= 0", job_id)
        assert rows == [(len(f"batch {canary}"),)] * 2
        given = {"text": "{{ secrets.CANARY }}", "whole": "by hand"}
        await engine.client.send(job_id, VerbRequest(Verb.CLEAR, "one", params=given), reason="by hand")

        async def is_completed(generation: int, status: str) -> bool:
            now = await engine.status(job_id)
            return bool(now["generation"] == generation and now["status"] == status)

        await eventually(lambda: is_completed(2, "completed"))
        assert (await engine.outputs(job_id))["one"] == len(canary)
        await engine.client.send(job_id, VerbRequest(Verb.UNDO), reason="take it back")
        await eventually(lambda: is_completed(3, "cancelled"))
        assert (await engine.status(job_id))["error"]["code"] == "UNDONE"
        assert nodes(await engine.status(job_id))["one"]["status"] == "cancelled"
