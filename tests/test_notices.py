"""What the outbox has after a real run: which events, for which receivers, and how many items."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.define.load import load_text
from holdfast.errors import HoldfastError, InvalidInput, Permanent, Refused
from holdfast.operations.batches import SubmitRequest
from holdfast.operations.verbs import Verb, VerbRequest
from tests.conftest import eventually
from tests.running import Engine, client_of, registry, running

pytestmark = pytest.mark.anyio

STACKS = """
workflow_id: stacks
inputs: {owner: {type: string, default: ops@example.org}, items: {type: array}}
notify:
  - on: [partial, failed, task_exhausted]
    email: "{{ inputs.owner }}"
  - on: completed
    webhook: done
nodes:
  each:
    type: fan_out
    source: "{{ inputs['items'] }}"
    tolerate: {failures: 100%}
    task: {handler: stack, params: {index: "{{ index }}"}}
  all: {type: fan_in, depends_on: each}
"""
ONE = "workflow_id: one\nnodes: {stack: {handler: stack, params: {index: 1}}}\n"
MAIL = {"email": "ops@example.org"}


def odd_ones_fail(index: int) -> int:
    if index % 2:
        raise Permanent(f"nothing covers {index}", "NO_COVERAGE")
    return index


HANDLERS = registry(stack=odd_ones_fail)


async def outbox(engine: Engine, job_id: str) -> list[dict[str, Any]]:
    columns = ("event", "node", "count", "items", "data", "rules", "seq", "generation", "tenant", "workflow_id")
    rows = await engine.query(f"select {', '.join(columns)} from outbox where job_id = %s order by seq", job_id)
    return [dict(zip(columns, row, strict=True)) for row in rows]


async def noted(engine: Engine, job_id: str) -> list[tuple[str, list[dict[str, str]]]]:
    return [(row["event"], row["rules"]) for row in await outbox(engine, job_id)]


async def test_the_end_of_a_job_without_failures_reaches_its_receivers(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(STACKS, {"items": [*range(1)]})
        status = await engine.finished(job_id)
        assert status["status"] == "completed"
        (row,) = await outbox(engine, job_id)
        (end,) = [event for event in await engine.events(job_id) if event["event"] == "job_completed"]
    assert row | {"event": "job_completed", "node": None, "count": 1, "items": [], "data": {}} == row
    assert row["rules"] == [{"webhook": "done"}]
    assert (row["seq"], row["generation"], row["workflow_id"]) == (end["seq"], 1, "stacks")


async def test_many_failed_items_are_few_rows_that_count_them(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(STACKS, {"items": [*range(400)]})
        await engine.finished(job_id)
        rows = await outbox(engine, job_id)
    items = [row for row in rows if row["event"] == "task_exhausted"]
    assert sum(row["count"] for row in items) == 200
    assert len(items) < 100
    assert all(len(row["items"]) == min(row["count"], 100) for row in items)
    assert {item for row in items for item in row["items"]} <= set(range(1, 400, 2))
    assert items[0]["data"] == {"code": "NO_COVERAGE", "message": f"nothing covers {items[0]['items'][0]}"}
    assert [row["event"] for row in rows if row["node"] is None] == ["job_partial"]


async def test_a_job_without_receivers_leaves_the_outbox_empty(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(ONE)
        assert (await engine.finished(job_id))["status"] == "failed"
        assert await outbox(engine, job_id) == []


async def test_an_address_that_cannot_be_made_fails_no_job_and_says_why(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(STACKS, {"items": [*range(3)], "owner": "Ops <ops@example.org>"})
        assert (await engine.finished(job_id))["status"] == "partial"
        rows = await outbox(engine, job_id)
    problem = "notify.email gives 'Ops <ops@example.org>', which is not an e-mail address"
    assert {str(row["rules"]) for row in rows} == {str([{"email": "", "problem": problem}])}


async def test_a_submission_names_receivers_of_its_own(database_url: str) -> None:
    rules: list[dict[str, Any]] = [
        {"on": ["failed"], "email": "me@example.org"},
        {"on": "node_failed", "webhook": "pager"},
    ]
    async with running(database_url, HANDLERS) as engine:
        made = await engine.client.submit(load_text(ONE), notify=rules, callback_url="https://portal.example/done")
        await engine.finished(made.job_id)
        assert await noted(engine, made.job_id) == [
            ("node_failed", [{"webhook": "pager"}]),
            ("job_failed", [{"email": "me@example.org"}, {"callback": "https://portal.example/done"}]),
        ]
        shown = await engine.status(made.job_id)
    assert shown["notify"] == [
        {"on": ["job_failed"], "email": "me@example.org"},
        {"on": ["node_failed"], "webhook": "pager"},
    ]


async def test_a_batch_of_submissions_names_receivers_too(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        (made,) = await engine.client.submit_batch(
            [SubmitRequest(load_text(ONE), notify=[{"on": ["failed"], "webhook": "pager"}])]
        )
        assert not isinstance(made, HoldfastError)
        await engine.finished(made.job_id)
        assert await noted(engine, made.job_id) == [("job_failed", [{"webhook": "pager"}])]


async def test_a_receiver_whom_two_rules_name_is_named_once(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        made = await engine.client.submit(
            load_text(STACKS), {"items": [*range(2)]}, notify=[{"on": ["partial"], "email": "ops@example.org"}]
        )
        await engine.finished(made.job_id)
        assert ("job_partial", [MAIL]) in await noted(engine, made.job_id)


async def test_webhooks_of_the_tenant_need_no_rule_and_get_only_what_they_subscribe_to(database_url: str) -> None:
    async with client_of(database_url) as before:
        for tenant, name, disabled in (
            ("default", "pager", None),
            ("default", "old", "now(), 'it was gone'"),
            ("other", "o", None),
        ):
            events = ["node_failed"] if name == "pager" else ["job_failed"]
            await before.query(
                "insert into webhooks (tenant, name, url, events, secret, created_by, disabled_at, disabled_reason)"
                f" values (%s, %s, 'https://x.example', %s, 's', 'someone', {disabled or 'null, null'})",
                tenant, name, events,
            )  # fmt: skip
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(ONE)
        await engine.finished(job_id)
        assert await noted(engine, job_id) == [("node_failed", [])]


async def test_a_webhook_that_is_added_gets_events_within_seconds_without_a_restart(database_url: str) -> None:
    async with running(database_url, HANDLERS, owner_scan_seconds=0.1) as engine:
        await engine.finished(await engine.submit(ONE, key="before"))
        await engine.query(
            "insert into webhooks (tenant, name, url, events, secret, created_by)"
            " values ('default', 'w', 'https://x', '{job_failed}', 's', 'someone')"
        )

        async def is_noted() -> bool:
            made = await engine.client.submit(load_text(ONE), force=True)
            await engine.finished(made.job_id)
            return bool(await outbox(engine, made.job_id))

        await eventually(is_noted)


async def test_a_breaker_that_a_person_opens_or_closes_is_an_event_for_webhooks(database_url: str) -> None:
    async with client_of(database_url) as engine:
        flow = load_text("workflow_id: w\nbreakers: {api: {}}\nnodes: {a: {handler: stack, breaker: api}}\n")
        async with running(database_url, HANDLERS):
            await engine.submit(flow)

            async def is_known() -> bool:
                return bool(await engine.client.breakers())

            await eventually(is_known)
        await engine.client.change_breaker("api", "open")
        assert await engine.query("select 1 from outbox") == []
        await engine.query(
            "insert into webhooks (tenant, name, url, events, secret, created_by)"
            " values ('default', 'w', 'https://x', '{breaker_closed,breaker_opened}', 's', 'someone')"
        )
        await engine.client.change_breaker("api", "close")
        with pytest.raises(Refused):
            await engine.client.change_breaker("api", "close")
        await engine.client.change_breaker("api", "open", reason="maintenance")
        rows = await engine.query("select event, tenant, job_id, data ->> 'breaker' from outbox order by outbox_id")
    assert rows == [("breaker_closed", "default", None, "api"), ("breaker_opened", "default", None, "api")]


async def test_each_generation_has_a_notice_of_its_own_end(database_url: str) -> None:
    async with running(database_url, HANDLERS) as engine:
        job_id = await engine.submit(STACKS, {"items": [*range(2)]})
        await engine.finished(job_id)
        plan = await engine.client.plan(job_id, VerbRequest(Verb.RETRY, node="each"))
        assert (await engine.client.carry_out(plan)).answer == "applied"
        await engine.finished(job_id)
        rows = await outbox(engine, job_id)
    ends = [(row["generation"], row["event"]) for row in rows if row["node"] is None]
    assert ends == [(1, "job_partial"), (2, "job_partial")]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"on": ["fialed"], "webhook": "w"}, "There is no event 'fialed' of a job."),
        ({"on": ["janitor_alert"], "webhook": "w"}, "There is no event 'janitor_alert' of a job."),
        ({"on": [], "webhook": "w"}, "A receiver has no event."),
        ({"on": ["failed"]}, "A receiver needs either an address or a webhook."),
        ({"on": ["failed"], "webhook": "a b"}, "'a b' is not the name of a webhook."),
        ({"on": ["failed"], "email": "a@b\nBcc: c@d"}, "is not an e-mail address."),
        ({"on": ["failed"], "email": "{{ inputs.owner }}"}, "is not an e-mail address."),
        ({"on": ["failed"], "callback": "https://x.example"}, "A receiver has no 'callback'."),
    ],
)
async def test_a_receiver_that_is_none_is_refused_and_makes_no_job(
    database_url: str, rule: dict[str, Any], said: str
) -> None:
    async with client_of(database_url) as engine:
        with pytest.raises(InvalidInput) as refused:
            await engine.client.submit(load_text(ONE), notify=[rule])
        assert said in refused.value.message
        assert await engine.query("select 1 from jobs") == []
