"""The engine end to end: an orchestrator and a worker in this process, on a real Postgres."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from holdfast.client import Client
from holdfast.define.load import load_file, load_text
from holdfast.errors import Permanent, Transient
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.remedies import Remedy
from holdfast.worker.context import AsyncContext, Context
from tests.conftest import eventually
from tests.running import client_of, nodes, registry, running, statuses

pytestmark = pytest.mark.anyio

FILES = Path(__file__).parent / "define" / "files"

ECHO = """
workflow_id: echo_test
inputs: {message: {type: string, default: hello}}
nodes:
  start: {type: start, next: say}
  say: {handler: echo, params: {message: "{{ inputs.message }}"}, next: end}
  end: {type: end}
"""


async def test_a_task_runs_and_its_output_is_the_result(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run(ECHO, {"message": "hi \u2603 'quoted' \"so\" {braces}, \\ and more"})
    assert status["status"] == "completed"
    assert status["result"] == {"echoed_params": {"message": "hi \u2603 'quoted' \"so\" {braces}, \\ and more"}}
    assert statuses(status) == {"start": "completed", "say": "completed", "end": "completed"}
    assert nodes(status)["say"]["attempt"] == 1
    assert status["counts"] | {"total": 1, "completed": 1, "failed": 0, "queued": 0, "running": 0} == status["counts"]
    assert status["created_at"] <= status["started_at"] <= status["finished_at"]


async def test_the_events_of_echo_test_come_in_the_order_of_the_contract(database_url: str) -> None:
    async with running(database_url) as engine:
        job_id = await engine.submit(ECHO)
        await engine.finished(job_id)
        events = await engine.events(job_id)
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert [e["event"] for e in events if e["node"] not in ("start", "end")] == [
        "job_created",
        "node_ready",
        "node_dispatched",
        "job_started",
        "node_completed",
        "job_completed",
    ]
    assert [(e["event"], e["node"]) for e in events if e["node"] in ("start", "end")] == [
        ("node_completed", "start"),
        ("node_completed", "end"),
    ]
    (done,) = [e for e in events if e["event"] == "node_completed" and e["node"] == "say"]
    assert done["attempt"] == 1
    assert done["data"]["worker"] and done["data"]["started_at"].endswith("Z")


async def test_every_node_type_runs_to_its_end(database_url: str) -> None:
    async def inventory(region: str, limit: int) -> dict[str, Any]:
        return {"groups": [f"{region}{n}" for n in range(limit)]}

    def stack(group: str, index: int) -> dict[str, Any]:
        return {"group": group, "index": index}

    def register(region: str) -> dict[str, Any]:
        return {"registered": region}

    async def report(**params: Any) -> str:
        return "sent"

    handlers: dict[str, Callable[..., Any]] = {
        "maps.inventory": inventory, "maps.stack": stack, "maps.register": register, "maps.report": report,
    }  # fmt: skip
    async with running(database_url, registry(**handlers)) as engine:
        full = await engine.run(load_file(FILES / "every_node_type.yaml"), {"region": "CIV", "limit": 7})
        assert full["status"] == "completed", full["error"]
        assert full["result"] == {"region": "CIV", "stacks": {"registered": "CIV"}}
        assert nodes(full)["stack"]["counts"]["completed"] == 7
        assert set(statuses(full).values()) == {"completed"}


@pytest.mark.usefixtures("each_source")
async def test_a_handler_that_exits_in_any_way_does_not_disturb_others(database_url: str) -> None:
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def on_the_loop() -> None:
        raise SystemExit(3)

    def in_a_thread() -> None:
        loop.call_soon_threadsafe(left.set)
        raise KeyboardInterrupt

    async def is_cancelled() -> None:
        raise asyncio.CancelledError

    async def beside() -> str:
        await left.wait()
        return "undisturbed"

    flow = """
workflow_id: leaving
retry: {max_retries: 1, initial_delay_seconds: 0}
nodes:
  beside: {handler: beside}
  on_the_loop: {handler: on_the_loop, importance: optional, next: in_a_thread}
  is_cancelled: {handler: is_cancelled, importance: optional, next: in_a_thread}
  in_a_thread: {handler: in_a_thread, importance: optional}
"""
    handlers = registry(on_the_loop=on_the_loop, in_a_thread=in_a_thread, is_cancelled=is_cancelled, beside=beside)
    async with running(database_url, handlers) as engine:
        status = await engine.run(flow)
    by_name = nodes(status)
    assert status["status"] == "completed"
    assert by_name["beside"]["attempt"] == 1
    assert {by_name[name]["attempt"] for name in ("on_the_loop", "in_a_thread", "is_cancelled")} == {2}


async def test_an_output_of_the_greatest_depth_can_still_be_gathered_and_wrapped(database_url: str) -> None:
    async def deep() -> Any:
        value: Any = 1
        for _ in range(128):
            value = [value]
        return value

    wrapped = '"{{ nodes.gather.output }}"'
    for _ in range(50):
        wrapped = "{v: " + wrapped + "}"
    flow = f"""
workflow_id: deep
nodes:
  each: {{type: fan_out, source: "{{{{ [1, 2] }}}}", task: {{handler: deep}}, next: gather}}
  gather: {{type: fan_in}}
result: {wrapped}
"""
    async with running(database_url, registry(deep=deep)) as engine:
        status = await engine.run(flow)
    assert status["status"] == "completed", status["error"]


async def test_the_older_spellings_run(database_url: str) -> None:
    calls = Counter[str]()

    async def validate(blob_name: str, note: str) -> dict[str, Any]:
        return {"size_mb": float(blob_name)}

    async def process() -> None:
        calls["process"] += 1

    async def tiles() -> dict[str, Any]:
        return {"tiles": [1, 2, 3]}

    async def tile(tile: int) -> list[int]:
        return [tile, tile * 10]

    async def register(metadata: list[int]) -> list[int]:
        return metadata

    handlers: dict[str, Callable[..., Any]] = {
        "raster.validate": validate, "raster.process": process, "raster.tiles": tiles, "raster.tile": tile,
        "raster.register": register,
    }  # fmt: skip
    definition = load_file(FILES / "older_spellings.yaml")
    async with running(database_url, registry(**handlers)) as engine:
        large = await engine.run(definition, {"blob_name": "5000"})
        small = await engine.run(definition, {"blob_name": "70"})
    assert (large["status"], small["status"]) == ("completed", "completed"), (large["error"], small["error"])
    assert large["version"] == "1.0"
    assert statuses(large)["process_small"] == statuses(large)["is_tiled"] == "skipped"
    assert (await_output(large, "register"), calls) == ([1, 10, 2, 20, 3, 30], {"process": 1})
    assert statuses(small)["generate_tiles"] == statuses(small)["register"] == "skipped"
    assert statuses(small)["process_medium"] == "skipped"
    assert statuses(small)["is_tiled"] == statuses(small)["END"] == "completed"


def await_output(status: dict[str, Any], node: str) -> Any:
    """The result of a workflow without `result:` is the output of the node before its end."""
    return status["result"].get(node, status["result"]) if isinstance(status["result"], dict) else status["result"]


CONDITIONS = {
    "a list of branches on a field": """
        type: conditional
        condition_field: "{{ inputs.size }}"
        branches: [{condition: "< 10", next: low}, {condition: "< 100", next: middle}, {default: true, next: high}]
    """,
    "on_true and on_false, nested": """
        type: conditional
        condition: "{{ inputs.size }} < 10"
        on_true: low
        on_false: inner
      inner:
        type: conditional
        condition: "{{ inputs.size < 100 }}"
        on_true: middle
        on_false: high
    """,
    "an object of branches on a field": """
        type: conditional
        condition_field: "{{ inputs.kind }}"
        branches: {small: low, medium: middle, default: high}
    """,
}


@pytest.mark.parametrize("spelling", CONDITIONS.values(), ids=CONDITIONS.keys())
async def test_a_condition_takes_the_first_true_branch_and_skips_the_others(database_url: str, spelling: str) -> None:
    definition = load_text(f"""
workflow_id: sizes
inputs: {{size: {{type: integer}}, kind: {{type: string}}}}
nodes:
      choose:
        {spelling.strip()}
      low: {{handler: echo}}
      middle: {{handler: echo}}
      high: {{handler: echo}}
""")
    async with running(database_url) as engine:
        for size, kind, wanted in ((5, "small", "low"), (50, "medium", "middle"), (500, "huge", "high")):
            status = await engine.run(definition, {"size": size, "kind": kind})
            by_name = statuses(status)
            assert status["status"] == "completed", status["error"]
            assert {n: by_name[n] for n in ("low", "middle", "high")} == {
                n: "completed" if n == wanted else "skipped" for n in ("low", "middle", "high")
            }


async def test_a_condition_without_a_true_branch_and_without_default_fails_the_job(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: no_branch
nodes:
  choose: {type: conditional, condition_field: "3", branches: [{condition: "> 5", next: a}]}
  a: {handler: echo}
""")
    assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")
    assert "no default" in status["error"]["message"]


DIAMOND = """
workflow_id: diamond
inputs: {left: {type: boolean}}
nodes:
  choose: {type: conditional, condition: "{{ inputs.left }}", on_true: left, on_false: right}
  left: {handler: echo, params: {side: left}, next: join}
  right: {handler: echo, params: {side: right}, next: join}
  always: {handler: echo, next: join}
  join: {handler: echo, params: {left: "{{ nodes.left.status }}"}}
"""


async def test_a_diamond_joins_over_the_side_that_was_skipped(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run(DIAMOND, {"left": False})
    assert status["status"] == "completed"
    assert statuses(status) == {
        "choose": "completed",
        "left": "skipped",
        "right": "completed",
        "always": "completed",
        "join": "completed",
    }


async def test_skips_spread_down_a_branch(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: skipping
nodes:
  choose: {type: conditional, condition: "1 > 2", on_true: a, on_false: c}
  a: {handler: echo, next: b}
  b: {handler: echo}
  c: {handler: echo}
""")
    assert status["status"] == "completed"
    assert statuses(status) == {"choose": "completed", "a": "skipped", "b": "skipped", "c": "completed"}


async def test_any_of_continues_despite_a_failure_that_is_not_critical(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: any_of
nodes:
  good: {handler: echo}
  bad: {handler: fail, params: {permanent: true}, importance: important}
  either: {handler: echo, depends_on: {any_of: [good, bad]}}
  both: {handler: echo, depends_on: {all_of: [good, bad]}, importance: important}
""")
    assert statuses(status) == {"good": "completed", "bad": "failed", "either": "completed", "both": "cancelled"}
    assert status["status"] == "partial"


FAN = """
workflow_id: fan
inputs: {items: {type: array}}
nodes:
  spread:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: work, params: {item: "{{ item }}", index: "{{ index }}"}}
    next: gather
  gather: {type: fan_in}
"""


async def work(item: Any, index: int) -> Any:
    if item == "bad":
        raise Permanent(f"item {index} is bad", code="BAD_ITEM")
    return {"item": item, "index": index}


@pytest.mark.parametrize("width", [0, 1, 40])
async def test_a_fan_out_gathers_its_items_in_order(database_url: str, width: int) -> None:
    async with running(database_url, registry(work=work)) as engine:
        status = await engine.run(FAN, {"items": list(range(width))})
        outputs = await engine.outputs(status["job_id"])
    assert status["status"] == "completed"
    assert status["result"] == {"results": [{"item": n, "index": n} for n in range(width)], "count": width}
    assert outputs["spread"] == {"fan_out_count": width}
    assert nodes(status)["spread"]["counts"]["completed"] == width


async def test_failed_items_fail_the_job_and_are_counted(database_url: str) -> None:
    async with running(database_url, registry(work=work)) as engine:
        status = await engine.run(FAN, {"items": ["a", "bad", "b", "bad"]})
    assert status["status"] == "failed"
    assert status["error"]["code"] == "BAD_ITEM"
    assert status["error"]["message"].startswith("2 of 4 items failed; the first: item ")
    assert statuses(status) == {"spread": "failed", "gather": "cancelled"}
    counts = nodes(status)["spread"]["counts"]
    assert (counts["total"], counts["completed"], counts["failed"]) == (4, 2, 2)


async def test_each_aggregation_of_a_fan_in_has_its_output(database_url: str) -> None:
    async def number(item: int) -> int:
        return item

    async with running(database_url, registry(number=number)) as engine:
        status = await engine.run("""
workflow_id: aggregations
nodes:
  spread: {type: fan_out, source: "{{ [3, 1, 2] }}", task: {handler: number, params: {item: "{{ item }}"}}}
  total: {type: fan_in, aggregation: sum, depends_on: [spread]}
  first: {type: fan_in, aggregation: first, depends_on: [spread]}
  last: {type: fan_in, aggregation: last, depends_on: [spread]}
  flat: {type: fan_in, aggregation: concat, depends_on: [spread]}
""")
        outputs = await engine.outputs(status["job_id"])
    assert status["status"] == "completed", status["error"]
    assert outputs["total"] == {"total": 6, "count": 3}
    assert (outputs["first"], outputs["last"]) == ({"result": 3, "count": 3}, {"result": 2, "count": 3})
    assert outputs["flat"] == {"results": [3, 1, 2], "count": 3}


@pytest.mark.parametrize(
    ("importance", "wanted"), [("critical", "failed"), ("important", "partial"), ("optional", "completed")]
)
async def test_the_importance_of_a_failed_node_decides_the_status_of_the_job(
    database_url: str, importance: str, wanted: str
) -> None:
    async with running(database_url) as engine:
        status = await engine.run(f"""
workflow_id: importance
nodes:
  good: {{handler: echo}}
  bad: {{handler: fail, params: {{permanent: true, error_message: no luck}}, importance: {importance}}}
  after: {{handler: echo, depends_on: [bad], importance: {importance}}}
""")
        events = [e["event"] for e in await engine.events(status["job_id"])]
    assert status["status"] == wanted
    assert statuses(status)["bad"] == "failed"
    assert statuses(status)["after"] == ("completed" if importance == "optional" else "cancelled")
    assert events[-1] == f"job_{wanted}"
    if importance != "optional":
        assert status["error"]["message"] == "no luck"


@pytest.mark.usefixtures("each_source")
async def test_a_transient_failure_is_retried_until_it_succeeds(database_url: str) -> None:
    attempts = Counter[str]()

    async def flaky() -> int:
        attempts["flaky"] += 1
        if attempts["flaky"] < 3:
            raise Transient("not yet", code="BUSY")
        return attempts["flaky"]

    async with running(database_url, registry(flaky=flaky)) as engine:
        status = await engine.run("""
workflow_id: retries
nodes:
  a: {handler: flaky, retry: {max_retries: 3, backoff: fixed, initial_delay_seconds: 0.05, jitter: none}}
""")
        events = await engine.events(status["job_id"])
    assert (status["status"], status["result"], attempts["flaky"]) == ("completed", 3, 3)
    assert nodes(status)["a"]["attempt"] == 3
    scheduled = [e for e in events if e["event"] == "node_retry_scheduled"]
    assert [(e["attempt"], e["data"]["code"]) for e in scheduled] == [(1, "BUSY"), (2, "BUSY")]


async def test_invariant_9_a_spent_budget_fails_the_node(database_url: str) -> None:
    attempts = Counter[str]()

    def always() -> None:
        attempts["always"] += 1
        raise ValueError("broken\nin two lines")

    async with running(database_url, registry(always=always)) as engine:
        status = await engine.run("""
workflow_id: spent
nodes:
  a: {handler: always, retry: {max_attempts: 2, backoff: fixed, initial_delay_seconds: 0.01}}
""")
        logs = await engine.query("select attempt, log from holdfast.attempts order by attempt")
    assert (status["status"], attempts["always"]) == ("failed", 3)
    assert (status["error"]["code"], status["error"]["class"]) == ("HANDLER_ERROR", "transient")
    assert (status["error"]["attempt"], status["error"]["message"]) == (3, "ValueError: broken in two lines")
    assert [attempt for attempt, _ in logs] == [1, 2, 3]
    assert all("Traceback" in log and "ValueError: broken" in log for _, log in logs)


async def test_a_permanent_failure_is_not_retried(database_url: str) -> None:
    attempts = Counter[str]()

    async def never() -> None:
        attempts["never"] += 1
        raise Permanent("no such region", code="NO_REGION")

    async with running(database_url, registry(never=never)) as engine:
        status = await engine.run("workflow_id: permanent\nnodes: {a: {handler: never}}")
    assert attempts["never"] == 1
    assert (status["error"]["code"], status["error"]["class"]) == ("NO_REGION", "permanent")


async def test_wrong_arguments_are_permanent(database_url: str) -> None:
    async with running(database_url, registry(work=work)) as engine:
        status = await engine.run("workflow_id: wrong\nnodes: {a: {handler: work, params: {item: 1, indx: 2}}}")
    assert (status["status"], status["error"]["code"]) == ("failed", "CONTRACT_VIOLATION")


@pytest.mark.usefixtures("each_source")
async def test_a_cancel_stops_queued_tasks_and_no_new_task_starts(database_url: str) -> None:
    started, seen = asyncio.Event(), []

    async def wait(**params: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    async with running(database_url, registry(wait=wait), grace_seconds=0.2, concurrency=1) as engine:
        job_id = await engine.submit(
            """
workflow_id: cancelled
inputs: {items: {type: array}}
nodes:
  spread: {type: fan_out, source: "{{ inputs.items }}", task: {handler: wait}, next: after}
  after: {handler: echo}
""",
            {"items": list(range(20))},
        )
        await asyncio.wait_for(started.wait(), 20)
        signal_id = await Client(engine.store, Scope(actor="ann")).cancel(job_id, reason="changed my mind")
        status = await engine.finished(job_id)
        assert await engine.store.answer(signal_id) == (True, "cancelled", None)
        seen = await engine.query("select status, count(*) from holdfast.tasks group by status")
        assert await engine.query("select count(*) from holdfast.queue") == [(0,)]
        again = await engine.client.cancel(job_id)

        async def answered() -> Any:
            return await engine.store.answer(again)

        remedy = Remedy("See how it ended with", "status", job_id)
        assert await eventually(answered) == (False, "too late, it is already cancelled", remedy)
    assert status["status"] == "cancelled"
    assert status["error"]["message"] == "cancelled by ann: changed my mind"
    assert statuses(status) == {"spread": "cancelled", "after": "cancelled"}
    assert seen == [("cancelled", 20)]


async def test_an_owner_refuses_a_cancel_whose_plan_is_outdated_invariant_12(
    database_url: str,
) -> None:
    async with running(database_url, registry()) as engine:
        job_id = await engine.submit("workflow_id: later\nnodes: {a: {handler: sleep, params: {duration_seconds: 60}}}")

        async def answer(signal_id: int) -> Any:
            async def answered() -> Any:
                return await engine.store.answer(signal_id)

            return await eventually(answered)

        shown = await engine.client.plan(job_id, VerbRequest(Verb.CANCEL))
        assert (await answer(await engine.client.pause(job_id)))[0]
        refusal = await answer(await engine.client.cancel(job_id, plan_id=shown.plan_id))
        assert refusal == (
            False,
            "the job has changed since this plan was made",
            Remedy("Look at the plan again, and use its new id."),
        )
        shown = await engine.client.plan(job_id, VerbRequest(Verb.CANCEL))
        assert (await answer(await engine.client.cancel(job_id, plan_id=shown.plan_id)))[0]


async def test_a_job_that_takes_too_long_fails_at_its_timeout(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: slow
timeout_seconds: 0.5
nodes:
  a: {handler: sleep, params: {duration_seconds: 60}, next: b}
  b: {handler: echo}
""")
    assert (status["status"], status["error"]["code"]) == ("failed", "JOB_TIMEOUT")
    assert statuses(status)["a"] == "failed"


@pytest.mark.usefixtures("each_source")
async def test_an_attempt_that_takes_too_long_is_ended_and_retried(database_url: str) -> None:
    attempts = Counter[str]()

    async def slow_once() -> str:
        attempts["slow"] += 1
        if attempts["slow"] == 1:
            await asyncio.Event().wait()
        return "quick"

    async with running(database_url, registry(slow_once=slow_once)) as engine:
        status = await engine.run("""
workflow_id: slow_attempt
nodes: {a: {handler: slow_once, timeout_seconds: 0.2, retry: {backoff: fixed, initial_delay_seconds: 0.01}}}
""")
        events = await engine.events(status["job_id"])
    assert (status["status"], status["result"]) == ("completed", "quick")
    assert [e["data"]["code"] for e in events if e["event"] == "node_retry_scheduled"] == ["TIMEOUT"]


async def test_a_template_error_fails_the_node_before_anything_is_dispatched(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: template
nodes:
  a: {handler: echo, params: {list: [1]}, next: b}
  b: {handler: echo, params: {x: "{{ nodes.a.output.echoed_params.list[7] }}"}}
""")
        events = [e["event"] for e in await engine.events(status["job_id"]) if e["node"] == "b"]
        tasks = await engine.query("select node from holdfast.tasks")
    assert (status["status"], status["error"]["code"]) == ("failed", "TEMPLATE_ERROR")
    assert events == ["node_ready", "node_failed"]
    assert tasks == [("a",)]


async def test_a_task_whose_handler_no_worker_has_stays_queued_and_visible(database_url: str) -> None:
    async with running(database_url) as engine:
        job_id = await engine.submit("workflow_id: unknown\nnodes: {a: {handler: not.here}}")

        async def dispatched() -> bool:
            return bool((await engine.node(job_id, "a"))["status"] == "dispatched")

        await eventually(dispatched)
        await engine.run(ECHO)
        status = await engine.status(job_id)
        lanes = (await engine.reader.fleet()).unserved
    assert (status["status"], statuses(status), status["error"]) == ("running", {"a": "dispatched"}, None)
    assert [(lane.queue, lane.handler, lane.tasks) for lane in lanes] == [("default", "not.here", 1)]


async def test_invariant_14_a_job_submitted_while_no_service_runs_is_picked_up_later(database_url: str) -> None:
    async with client_of(database_url) as engine:
        job_id = await engine.submit(ECHO, {"message": "early"})
        assert (await engine.status(job_id))["status"] == "pending"
        async with running(database_url):
            status = await engine.finished(job_id)
    assert status["result"] == {"echoed_params": {"message": "early"}}


async def test_invariant_14_the_same_submission_twice_is_one_job_that_runs_once(database_url: str) -> None:
    runs = Counter[str]()

    async def count() -> int:
        runs["count"] += 1
        return runs["count"]

    workflow = load_text("workflow_id: once\nnodes: {a: {handler: count}}")
    async with running(database_url, registry(count=count)) as engine:
        first = await engine.submit(workflow)
        assert await engine.submit(workflow) == first
        await engine.finished(first)
        again = await engine.client.submit(workflow)
        assert (again.job_id, again.answer, again.result) == (first, "already_completed", 1)
    assert runs["count"] == 1


async def test_a_node_may_have_a_name_that_means_something_to_postgres(database_url: str) -> None:
    async with running(database_url) as engine:
        status = await engine.run("""
workflow_id: names
nodes:
  "null": {type: fan_out, source: "{{ [1, 2] }}", task: {handler: echo}, next: choose}
  choose: {type: conditional, condition: "1 < 2", on_true: "NULL", on_false: default}
  "NULL": {handler: echo}
  default: {handler: echo}
""")
    assert status["status"] == "completed", status["error"]
    assert statuses(status) == {"null": "completed", "choose": "completed", "NULL": "completed", "default": "skipped"}


async def test_an_output_that_postgres_cannot_store_fails_the_node_and_nothing_else(database_url: str) -> None:
    async def nul() -> str:
        return "a\0b"

    async def surrogate(**params: Any) -> None:
        raise RuntimeError("bad \ud800 and \0 here")

    async with running(database_url, registry(nul=nul, surrogate=surrogate)) as engine:
        refused = await engine.run("workflow_id: nul\nnodes: {a: {handler: nul}}")
        odd = await engine.run("workflow_id: odd\nnodes: {a: {handler: surrogate, retry: {max_retries: 0}}}")
        fine = await engine.run(ECHO)
    assert (refused["error"]["code"], refused["error"]["class"]) == ("PAYLOAD_REFUSED", "permanent")
    assert odd["error"]["message"] == "RuntimeError: bad ? and here"
    assert fine["status"] == "completed"


async def test_the_text_of_a_backslash_u0000_is_not_a_nul_character(database_url: str) -> None:
    async def harmless() -> str:
        return "the escape \\u0000 as six letters"

    async with running(database_url, registry(harmless=harmless)) as engine:
        status = await engine.run("workflow_id: harmless\nnodes: {a: {handler: harmless}}")
    assert (status["status"], status["result"]) == ("completed", "the escape \\u0000 as six letters")


@pytest.mark.usefixtures("each_source")
async def test_a_context_has_the_job_the_node_and_the_attempt(database_url: str) -> None:
    seen: list[Any] = []

    async def aware(*, ctx: AsyncContext) -> None:
        seen.append((ctx.job_id, ctx.node, ctx.index, ctx.attempt, ctx.generation, ctx.inputs, ctx.resume_point))

    def plain(*, context: Context) -> None:
        seen.append((context.job_id, context.node, context.index, context.cancelled, context.inputs))

    async with running(database_url, registry(aware=aware, plain=plain)) as engine:
        status = await engine.run(
            """
workflow_id: context
inputs: {region: {type: string}}
nodes:
  a: {handler: aware, next: b}
  b: {type: fan_out, source: "{{ [1] }}", task: {handler: plain}}
""",
            {"region": "CIV"},
        )
    job_id = status["job_id"]
    assert seen == [
        (job_id, "a", None, 1, 1, {"region": "CIV"}, None),
        (job_id, "b", 0, False, {"region": "CIV"}),
    ]


@pytest.mark.usefixtures("each_source")
async def test_invariant_8_counters_equal_tasks_however_the_items_end(database_url: str) -> None:
    async def mixed(index: int) -> int:
        if index % 7 == 3:
            raise Permanent("unlucky")
        if index % 5 == 1:
            raise Transient("tired")
        return index

    async with running(database_url, registry(mixed=mixed)) as engine:
        status = await engine.run(
            """
workflow_id: mixed
inputs: {items: {type: array}}
nodes:
  spread:
    type: fan_out
    source: "{{ inputs.items }}"
    importance: important
    task:
      handler: mixed
      params: {index: "{{ index }}"}
      retry: {max_retries: 1, backoff: fixed, initial_delay_seconds: 0.01}
""",
            {"items": list(range(300))},
        )
        counted = await engine.query(
            "select width, completed_count, failed_count,"
            " (select count(*) from holdfast.tasks t where t.status = 'completed'),"
            " (select count(*) from holdfast.tasks t where t.status = 'failed') from holdfast.nodes"
        )
        ended = await engine.query(
            "select count(*), count(distinct item) from holdfast.events"
            " where event in ('task_completed', 'task_failed')"
        )
    failed = sum(index % 7 == 3 or index % 5 == 1 for index in range(300))
    assert counted == [(300, 300 - failed, failed, 300 - failed, failed)]
    assert ended == [(300, 300)]
    assert status["status"] == "partial"


@pytest.mark.usefixtures("each_source")
async def test_a_cancel_during_the_last_task_is_answered_as_too_late(database_url: str) -> None:
    began, released = Event(), Event()

    def last() -> str:
        began.set()
        released.wait(30)
        return "done"

    async with running(database_url, registry(last=last), grace_seconds=60.0) as engine:
        job_id = await engine.submit("workflow_id: late\nnodes: {a: {handler: last, next: end}, end: {type: end}}")
        assert await asyncio.to_thread(began.wait, 30)
        signal_id = await engine.client.cancel(job_id)

        async def is_stopping() -> bool:
            return bool((await engine.status(job_id))["reason"] == "stopping")

        await eventually(is_stopping)
        assert await engine.store.answer(signal_id) is None, "the effect of the cancel is not known yet"
        released.set()
        status = await engine.finished(job_id)
        answer = await engine.store.answer(signal_id)
    assert answer == (False, "too late: its last tasks have finished, and it is completed", None)
    assert (status["status"], status["error"], set(statuses(status).values())) == ("completed", None, {"completed"})
    assert status["outcome"]["recovery"] == []
