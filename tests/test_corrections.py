"""Corrections end to end: a wrong input, a typo in the file, changed items; what completed stays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast import Client, Context, load_text
from holdfast.define.registry import Registry
from holdfast.errors import InvalidInput, NotFound, Refused, Unreachable
from holdfast.operations.verbs import Correction, Plan, Stale, Verb, VerbRequest
from tests.conftest import eventually
from tests.running import Engine, registry, running

pytestmark = pytest.mark.anyio

FLOW = """
workflow_id: stacks
inputs:
  limit: {type: integer, default: 3}
  groups: {type: array, default: [{id: 0, size: 1}, {id: 1, size: 9}, {id: 2, size: 2}]}
nodes:
  inventory: {handler: echo_params, params: {title: "stacks"}, next: stack}
  stack:
    type: fan_out
    source: "{{ inputs.groups }}"
    item_key: "{{ item.id }}"
    task: {handler: stack, params: {size: "{{ item.size }}", limit: "{{ inputs.limit }}"}, retry: {max_retries: 0}}
    next: all
  all: {type: fan_in, next: register}
  register: {handler: echo_params, params: {count: "{{ nodes.all.output.count }}", title: "tital"}}
"""


class Handlers:
    """Notes what ran, and what its context said."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.seen: list[tuple[int, Any]] = []
        self.spoils = False

    def stack(self, ctx: Context, size: int, limit: int) -> dict[str, Any]:
        self.ran["stack"] += 1
        self.seen.append((ctx.generation, ctx.inputs["limit"]))
        if self.spoils:
            return {"nothing": None}
        if size > limit:
            raise ValueError(f"{size} is larger than {limit}")
        return {"size": size, "limit": limit}

    def echo_params(self, **params: Any) -> dict[str, Any]:
        self.ran["echo_params"] += 1
        return params

    @property
    def registry(self) -> Registry:
        def stack(ctx: Context, size: int, limit: int) -> dict[str, Any]:
            return self.stack(ctx, size, limit)

        def echo_params(**params: Any) -> dict[str, Any]:
            return self.echo_params(**params)

        def echo_all(**params: Any) -> dict[str, Any]:
            return {"params_echoed": self.echo_params(**params)}

        return registry(stack=stack, echo_params=echo_params, echo_all=echo_all)


def asked(verb: Verb = Verb.RESUME, node: str | None = None, **correction: Any) -> VerbRequest:
    if "text" in correction:
        correction["definition"] = load_text(correction.pop("text"))
    return VerbRequest(verb, node, correction=Correction(**correction))


async def corrected(engine: Engine, job_id: str, request: VerbRequest) -> tuple[Plan, dict[str, Any]]:
    plan = await engine.client.plan(job_id, request)
    result = await engine.client.carry_out(plan, seconds=20)
    assert result.is_applied, result
    generation = plan.generation + 1

    async def has_ended() -> bool:
        status = await engine.status(job_id)
        return status["generation"] == generation and status["finished_at"] is not None

    await eventually(has_ended, 30.0)
    return plan, await engine.status(job_id)


def actions(plan: Plan) -> dict[str, tuple[str, int | None]]:
    return {step.node: (step.action, step.items) for step in plan.steps if not step.is_kept}


async def test_a_wrong_input_a_typo_and_other_items_are_corrected_in_turn(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
        assert (await engine.status(job_id))["status"] == "failed"
        work.ran.clear()

        plan, status = await corrected(engine, job_id, asked(inputs={"limit": 10}, stale=Stale.KEEP))
        assert plan.corrected == ("inputs.limit",)
        assert status["status"] == "completed" and work.ran == {"stack": 1, "echo_params": 1}
        assert work.seen[-1] == (2, 10), "a handler sees the corrected inputs and the new generation"

        work.ran.clear()
        text = FLOW.replace("tital", "title").replace("workflow_id: stacks", "workflow_id: stacks\nversion: 2")
        plan, status = await corrected(engine, job_id, asked(text=text, stale=Stale.RERUN))
        assert actions(plan) == {"register": ("rerun", 1)} and "title" in plan.steps[-1].reason
        assert status["result"]["title"] == "title" and status["version"] == "2"
        assert work.ran == {"echo_params": 1}

        work.ran.clear()
        groups = [{"id": 0, "size": 1}, {"id": 7, "size": 5}, {"id": 1, "size": 8}]
        plan, status = await corrected(engine, job_id, asked(inputs={"groups": groups}, stale=Stale.RERUN))
        assert actions(plan)["stack"] == ("rerun", 3), "two are stale: one had been kept with another limit"
        assert status["status"] == "completed" and status["result"]["count"] == 3
        stack = next(node for node in status["nodes"] if node["node"] == "stack")
        assert stack["counts"] == stack["counts"] | {"total": 3, "completed": 3, "skipped": 0}
        results = [one async for one in engine.client.results(job_id, "stack")]
        assert [(one.item, one.status) for one in results][2] == (2, "skipped")

        events = await engine.events(job_id)
        recovered = [one["data"] for one in events if one["event"] == "job_recovered"]
        assert recovered[0]["corrected"] == ["inputs.limit"]
        pins = await engine.query("select generation, version, inputs->>'limit' from pins order by generation")
        assert pins == [(1, "1", "3"), (2, "1", "10"), (3, "2", "10"), (4, "2", "10")]


async def test_of_1924_items_with_one_corrected_one_new_and_one_gone_two_run(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        groups = [{"id": n, "size": 1} for n in range(1924)]
        status = await engine.finished(await engine.submit(FLOW, {"groups": groups}), 60.0)
        assert status["status"] == "completed" and work.ran["stack"] == 1924
        work.ran.clear()
        changed = [one for one in groups if one["id"] != 1500]
        changed[17] = {"id": 17, "size": 2}
        changed.insert(900, {"id": 5000, "size": 1})
        request = asked(inputs={"groups": changed}, stale=Stale.RERUN)
        plan, status = await corrected(engine, status["job_id"], request)
        assert actions(plan)["stack"] == ("rerun", 2) and work.ran["stack"] == 2
        assert "1,922 the same, 1 stale, 1 new, 1 gone" in next(s.reason for s in plan.steps if s.node == "stack")
        assert status["result"]["count"] == 1924


async def test_corrections_that_cannot_be_are_refused_and_change_nothing(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW, {"limit": 10}))["job_id"]
        client = engine.client
        with pytest.raises(Refused, match="changes nothing") as same:
            await client.plan(job_id, asked(inputs={"limit": 10}))
        assert "needs no correction" in str(same.value.remedy)
        with pytest.raises(InvalidInput, match="do not fit"):
            await client.plan(job_id, asked(inputs={"limit": "many", "unknown": 1}))
        with pytest.raises(Refused, match="it is of workflow stacks"):
            await client.plan(job_id, asked(text=FLOW.replace("workflow_id: stacks", "workflow_id: other")))
        no_list = asked(text=FLOW.replace('"{{ inputs.groups }}"', '"{{ inputs.limit }}"'), stale=Stale.RERUN)
        with pytest.raises(InvalidInput, match="the source of stack gives no list now: it is an integer"):
            await client.plan(job_id, no_list)
        with pytest.raises(Refused, match="another item_key would match none of its items") as other_key:
            await client.plan(job_id, asked(text=FLOW.replace("{{ item.id }}", "{{ item.size }}"), stale=Stale.RERUN))
        assert [one.path for one in other_key.value.errors] == ["nodes.stack.item_key"]
        undecided = await client.plan(job_id, asked(inputs={"limit": 11}))
        assert isinstance(undecided.refusal, Refused) and "--stale" in str(undecided.refusal.remedy)
        with pytest.raises(Refused, match="stack"):
            await client.carry_out(undecided)
        with pytest.raises(NotFound, match="no node"):
            await client.plan(job_id, asked(Verb.RETRY, "nix", inputs={"limit": 12}))
        await engine.query("update tasks set item_key = null where node = 'stack' and item = 1")
        with pytest.raises(Refused, match="earlier version"):
            await client.plan(job_id, asked(inputs={"limit": 12}, stale=Stale.RERUN))
        status = await engine.status(job_id)
        assert (status["generation"], status["inputs"]["limit"]) == (1, 10)
        assert await engine.query("select 1 from pins") == []


async def test_kept_outputs_must_keep_the_contract_of_the_corrected_workflow(database_url: str) -> None:
    schema = "output_schema: {type: object, properties: {size: {type: integer, maximum: 5}}}"
    text = FLOW.replace("retry: {max_retries: 0}}", f"retry: {{max_retries: 0}}, {schema}}}")
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW, {"limit": 10}))["job_id"]
        with pytest.raises(Refused, match="break the contract") as refused:
            await engine.client.plan(job_id, asked(text=text))
        assert [one.path for one in refused.value.errors] == ["stack[1]"]
        with pytest.raises(Refused, match="break the contract") as refused:
            await engine.client.plan(job_id, asked(text=text.replace("tital", "title")))
        reasons = [one.message for one in refused.value.errors]
        assert len(reasons) == 2 and "stack[1]" in reasons[0] and reasons[1].endswith("in another way: register")
        loose = text.replace("maximum: 5", "maximum: 50").replace("tital", "title")
        plan, status = await corrected(engine, job_id, asked(text=loose, stale=Stale.RERUN))
        assert actions(plan) == {"register": ("rerun", 1)} and status["status"] == "completed"


async def test_outputs_that_are_not_kept_need_not_keep_the_contract_of_the_corrected_workflow(
    database_url: str,
) -> None:
    small = "output_schema: {type: object, properties: {size: {type: integer, maximum: 5}}}"
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        groups = [{"id": 0, "size": 1}, {"id": 1, "size": 9}, {"id": 2, "size": 2}, {"id": 3, "size": 8}]
        job_id = (await engine.run(FLOW, {"limit": 10, "groups": groups}))["job_id"]
        text = FLOW.replace("retry: {max_retries: 0}}", f"retry: {{max_retries: 0}}, {small}}}")
        other = {"groups": [{"id": 0, "size": 1}, {"id": 1, "size": 3}, {"id": 2, "size": 2}]}
        with pytest.raises(Refused, match="break the contract") as refused:
            await engine.client.plan(job_id, asked(text=text, inputs=other, stale=Stale.KEEP))
        assert [one.path for one in refused.value.errors] == ["stack[1]"], "what is gone is not kept"
        plan, status = await corrected(engine, job_id, asked(text=text, inputs=other, stale=Stale.RERUN))
        assert actions(plan)["stack"] == ("rerun", 1) and status["status"] == "completed"
        strict = "output_schema: {type: object, required: [params_echoed]}"
        text = text.replace(small, strict).replace("{handler: stack,", "{handler: echo_all,")
        plan, status = await corrected(engine, job_id, asked(text=text, stale=Stale.RERUN))
        assert actions(plan)["stack"] == ("rerun", 3) and status["status"] == "completed"


PAGES = """
workflow_id: pages
nodes:
  each:
    type: fan_out
    source: "{{ [1, 2, 3, 4] }}"
    task: {handler: echo_params, params: {n: "{{ item }}"}}
    next: all
  all:
    type: fan_in
    handler: last
    LAST
    batch: {handler: page, size: 2, BATCH}
"""


@pytest.mark.parametrize(
    ("last", "batch", "broken"),
    [
        ("output_schema: {type: integer}", "params: {}", []),
        ("params: {}", "output_schema: {type: string}", []),
        ("output_schema: {type: string}", "params: {}", ["all"]),
        ("params: {}", "output_schema: {type: integer}", ["all[0]", "all[1]"]),
    ],
)
async def test_batches_and_the_task_behind_them_have_contracts_of_their_own(
    database_url: str, last: str, batch: str, broken: list[str]
) -> None:
    def page(page: Any) -> str:
        return "page"

    def count() -> int:
        return 4

    work = Handlers()
    known = registry(page=page, last=count, echo_params=work.echo_params)
    async with running(database_url, known) as engine:
        plain = PAGES.replace("LAST", "params: {}").replace("BATCH", "params: {}")
        job_id = (await engine.run(plain))["job_id"]
        request = asked(text=PAGES.replace("LAST", last).replace("BATCH", batch))
        if broken:
            with pytest.raises(Refused, match="break the contract") as refused:
                await engine.client.plan(job_id, request)
            assert [one.path for one in refused.value.errors] == broken
        else:
            _, status = await corrected(engine, job_id, request)
            assert status["status"] == "completed" and work.ran == {"echo_params": 4}


async def test_a_kept_task_that_runs_again_later_keeps_the_contract_that_a_correction_brought(
    database_url: str,
) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW, {"limit": 10}))["job_id"]
        strict = "output_schema: {type: object, required: [size]}"
        text = FLOW.replace("retry: {max_retries: 0}}", f"retry: {{max_retries: 0}}, {strict}}}")
        plan, status = await corrected(engine, job_id, asked(text=text))
        assert actions(plan) == {} and status["status"] == "completed"
        work.spoils = True
        _, status = await corrected(engine, job_id, VerbRequest(Verb.CLEAR, "stack", (1,)))
        assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")


async def test_only_the_batch_of_a_corrected_item_runs_again(database_url: str) -> None:
    ran: list[Any] = []

    def page(page: dict[str, Any], ctx: Context) -> int:
        results = [one["n"] for one in ctx.results(page["node"], page["offset"], page["limit"])]
        ran.append(results)
        return sum(results)

    def last(ctx: Context) -> int:
        return sum(ctx.results("all"))

    work = Handlers()
    known = registry(page=page, last=last, echo_params=work.echo_params)
    text = PAGES.replace("LAST", "rerun: {within_hours: 1}").replace("BATCH", "params: {}")
    text = text.replace("{{ [1, 2, 3, 4] }}", "{{ inputs.numbers }}")
    text = text.replace("nodes:", "inputs: {numbers: {type: array, default: [1, 2, 3, 4, 5]}}\nnodes:", 1)
    text = text.replace("source:", 'item_key: "{{ item // 10 }}"\n    source:').replace(
        "[1, 2, 3, 4, 5]", "[1, 12, 23, 34]"
    )
    async with running(database_url, known) as engine:
        job_id = (await engine.run(text))["job_id"]
        assert sorted(ran) == [[1, 12], [23, 34]]
        ran.clear()
        plan, status = await corrected(engine, job_id, asked(inputs={"numbers": [1, 12, 29, 34]}, stale=Stale.RERUN))
        assert actions(plan) == {"each": ("rerun", 1), "all": ("rerun", 2)}
        assert ran == [[29, 34]] and status["result"] == 76 and status["status"] == "completed"
        await engine.query("update tasks set finished_at = finished_at - interval '2 hours' where node = 'all'")
        late = await engine.client.plan(job_id, asked(inputs={"numbers": [1, 12, 29, 35]}, stale=Stale.RERUN))
        assert late.refusal is not None and "these are over" in str(late.refusal)


async def test_a_corrected_job_keeps_its_identity_and_its_key(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        first = await engine.run(FLOW)
        keyed = await engine.client.submit(load_text(FLOW), {"limit": 4}, key="monday")
        await engine.finished(keyed.job_id)
        for job_id in (first["job_id"], keyed.job_id):
            await corrected(engine, job_id, asked(inputs={"limit": 10}, stale=Stale.KEEP))
        again = await engine.client.submit(load_text(FLOW))
        assert (again.answer, again.job_id) == ("already_completed", first["job_id"])
        again = await engine.client.submit(load_text(FLOW), {"limit": 4}, key="monday")
        assert (again.answer, again.job_id) == ("already_completed", keyed.job_id)
        other = await engine.client.submit(load_text(FLOW), {"limit": 10})
        assert other.answer == "created" and other.job_id not in (first["job_id"], keyed.job_id)
        await engine.finished(other.job_id)


async def test_a_plan_of_a_correction_is_carried_out_exactly_or_not_at_all(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
        first = await engine.client.plan(job_id, asked(inputs={"limit": 9}, stale=Stale.KEEP))
        again = await engine.client.plan(job_id, asked(inputs={"limit": 9}, stale=Stale.KEEP))
        assert first.plan_id == again.plan_id
        _, status = await corrected(engine, job_id, asked(inputs={"limit": 10}, stale=Stale.KEEP))
        with pytest.raises(Refused, match="has changed since"):
            await engine.client.carry_out(first, seconds=20)
        forged = replace(first, plan_id="0123456789abcdef")
        with pytest.raises(Refused, match="has changed since"):
            await engine.client.carry_out(forged, seconds=20)
        assert (await engine.status(job_id))["generation"] == status["generation"] == 2


async def test_one_task_runs_again_with_the_params_that_a_person_gives(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
        work.ran.clear()
        request = VerbRequest(Verb.CLEAR, "stack", (1,), params={"size": 2, "limit": 3})
        _, status = await corrected(engine, job_id, request)
        assert status["status"] == "completed" and work.ran == {"stack": 1, "echo_params": 1}
        given = await engine.client.params(job_id, "stack", index=1)
        assert given.value == {"size": 2, "limit": 3}
        assert [one.corrected for one in await engine.client.tasks(job_id, node="stack")] == [None, True, None]
        whole = [await engine.client.task_details(job_id, "stack", index=item) for item in (0, 1)]
        assert [one.corrected for one in whole] == [False, True]
        assert next(one for one in status["nodes"] if one["node"] == "stack")["corrected"] == 1
        plan = await engine.client.plan(job_id, asked(inputs={"limit": 4}, stale=Stale.RERUN))
        assert actions(plan)["stack"] == ("rerun", 2), "what a person gave stays"


async def test_what_a_person_gave_a_task_stays_though_a_correction_runs_the_task_again(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
        await corrected(engine, job_id, VerbRequest(Verb.CLEAR, "stack", (1,), params={"size": 7, "limit": 3}))
        assert (await engine.client.params(job_id, "stack", index=1)).status == "failed"
        for limit in (5, 6):
            _, status = await corrected(engine, job_id, asked(inputs={"limit": limit}, stale=Stale.KEEP))
            given = await engine.client.params(job_id, "stack", index=1)
            assert (given.value, status["status"]) == ({"size": 7, "limit": 3}, "failed")


async def test_a_plan_of_a_correction_writes_nothing_until_it_is_carried_out(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
        before = await engine.query("select count(*) from workflows")
        request = asked(text=FLOW.replace("tital", "title"), inputs={"limit": 10}, stale=Stale.RERUN)
        plan = await engine.client.plan(job_id, request)
        assert await engine.query("select count(*) from plans") == [(0,)]
        assert await engine.query("select count(*) from workflows") == before
        with pytest.raises(Refused, match="has changed since"):
            await engine.client.send(job_id, replace(request, plan_id="0123456789abcdef"))
        signal_id = await engine.client.send(job_id, replace(request, plan_id=plan.plan_id), reason="mended")
        answer = await engine.client.answer(signal_id, seconds=20)
        assert answer is not None and answer.applied
        assert await engine.query("select plan_id from plans") == [(plan.plan_id,)]


async def test_a_correction_is_planned_on_a_database_that_takes_no_writes(database_url: str) -> None:
    work = Handlers()
    async with running(database_url, work.registry) as engine:
        job_id = (await engine.run(FLOW))["job_id"]
    name = conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        try:
            async with Client.connect(database_url) as client:
                plan = await client.plan(job_id, asked(inputs={"limit": 10}, stale=Stale.KEEP))
                assert actions(plan)["stack"] == ("rerun", 1)
                with pytest.raises(Unreachable, match="takes no writes"):
                    await client.carry_out(plan)
        finally:
            connection.execute(f"set default_transaction_read_only = off; alter database {name} reset all".encode())
