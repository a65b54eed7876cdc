"""Undo end to end: what is taken back, what every verb does afterwards, and what the page about it says."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from holdfast import SyncClient, load_text
from holdfast.errors import NotFound, Refused
from holdfast.operations.verbs import Verb, VerbRequest
from holdfast.views.encoding import to_json
from tests.conftest import eventually
from tests.docs.pages import ROOT, prose
from tests.running import Engine, nodes, running, statuses
from tests.undoing import ORDER, Shop, carried_out, ended

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs" / "how-to" / "undo-a-job.md"
WHOLE, PARTIAL, FAILED = "whole", "partial", "failed"
NEW_JOB = "runs price, reserve, charge, ship as a new job"
CELLS = {
    ("resume", WHOLE): "runs reserve, charge, ship",
    ("resume", PARTIAL): "runs charge, ship",
    ("resume", FAILED): "runs ship",
    ("retry NODE", WHOLE): "refused: reserve was undone, and charge needs its result",
    ("retry NODE", PARTIAL): "runs charge, ship",
    ("retry NODE", FAILED): "refused: charge is completed",
    ("submit, same inputs", WHOLE): "runs nothing; names resume",
    ("submit, same inputs", PARTIAL): "runs nothing; names resume",
    ("submit, same inputs", FAILED): "runs nothing; names undo",
    ("submit --resume", WHOLE): "runs reserve, charge, ship",
    ("submit --resume", PARTIAL): "runs charge, ship",
    ("submit --resume", FAILED): "runs ship",
    ("submit --force", WHOLE): NEW_JOB,
    ("submit --force", PARTIAL): NEW_JOB,
    ("submit --force", FAILED): NEW_JOB,
    ("undo", WHOLE): "refused: all that can be undone is undone already",
    ("undo", PARTIAL): "undoes reserve",
    ("undo", FAILED): "undoes charge, reserve",
}
"""What a command does after an undo: by its row and its column on the page."""
UNDOES = {"release": "reserve", "refund": "charge", "recall": "ship"}
MANY = """
workflow_id: many
inputs: {text: {type: string, default: ""}}
nodes:
  each:
    type: fan_out
    source: "{{ [0, 1, 2, 3] }}"
    task: {handler: each, params: {item: "{{ item }}", text: "{{ inputs.text }}"}, compensate: undo_each,
           retry: {max_retries: 0}}
    next: all
  all:
    type: fan_in
    handler: last
    compensate: undo_last
    batch: {handler: page, size: 2, compensate: undo_page}
"""


def table() -> dict[tuple[str, str], str]:
    """The cells of "What happens next", without the marks of code."""
    text = prose(PAGE).partition("## What happens next")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    head, _, *lines = [[cell.replace("`", "") for cell in row] for row in rows]
    columns = [next(name for name in (WHOLE, PARTIAL, FAILED) if name in title) for title in head[1:]]
    return {(row[0], column): cell for row in lines for column, cell in zip(columns, row[1:], strict=True)}


def test_the_table_of_the_page_has_exactly_the_cells_that_are_tested() -> None:
    assert len(CELLS) == 18
    assert table() == CELLS


async def undone(engine: Engine, shop: Shop, column: str) -> tuple[str, int]:
    """An order that was undone in that way, and its generation; what failed is mended."""
    job_id = (await engine.run(ORDER))["job_id"]
    shop.refuses = {"refund"} if column == FAILED else set()
    plan, status = await carried_out(engine, job_id, Verb.UNDO, "charge" if column == PARTIAL else None)
    assert status["status"] == "cancelled" and status["reason"] == "undone"
    assert status["error"]["code"] == ("UNDO_INCOMPLETE" if column == FAILED else "UNDONE")
    left = {WHOLE: set(), PARTIAL: {"reserve"}, FAILED: {"reserve", "charge"}}
    assert shop.there == left[column]
    shop.refuses.clear()
    shop.did.clear()
    return job_id, plan.generation + 1


async def done_by(engine: Engine, shop: Shop, row: str, job_id: str, generation: int) -> str:
    """What the command of a row does, as the page says it."""
    if row.startswith("submit"):
        how = row.removeprefix("submit").strip(" -,")
        answer = await engine.client.submit(load_text(ORDER), resume=how == "resume", force=how == "force")
        answer = await engine.client.settle_submission(answer, seconds=20)
        if how == "same inputs":
            assert answer.answer == "previously_failed" and answer.job_id == job_id and answer.advice is not None
            assert (await engine.status(job_id))["generation"] == generation and shop.did == []
            return f"runs nothing; names {answer.advice.words('').split()[0]}"
        await ended(engine, answer.job_id, generation + 1 if how == "resume" else 1)
        return ran(shop) + (" as a new job" if answer.job_id != job_id else "")
    try:
        verb = Verb(row.partition(" ")[0])
        await carried_out(engine, job_id, verb, "charge" if row.endswith("NODE") else None)
    except Refused as refused:
        assert shop.did == [] and (await engine.status(job_id))["generation"] == generation
        return f"refused: {str(refused).partition(f'by {verb}: ')[2].rstrip('.')}"
    return ran(shop)


def ran(shop: Shop) -> str:
    undoes = [UNDOES[name] for name in shop.did if name in UNDOES]
    assert not undoes or len(undoes) == len(shop.did)
    return f"undoes {', '.join(undoes)}" if undoes else f"runs {', '.join(shop.did)}"


@pytest.mark.parametrize(("row", "column"), CELLS)
async def test_after_an_undo_a_command_does_what_the_page_says(database_url: str, row: str, column: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id, generation = await undone(engine, shop, column)
        before = set(shop.there)
        cell = await done_by(engine, shop, row, job_id, generation)
        assert cell == CELLS[row, column]
        status = await engine.status(job_id)
        if cell.startswith("runs") and cell not in (NEW_JOB, "runs nothing; names resume", "runs nothing; names undo"):
            assert status["status"] == "completed" and status["result"] == "parcel"
            assert shop.there == {"reserve", "charge", "ship"}
        elif cell.startswith("undoes"):
            assert status["status"] == "cancelled" and shop.there == set()
        elif cell != NEW_JOB:
            assert status["status"] == "cancelled" and shop.there == before


async def test_a_node_is_retried_after_a_whole_undo_once_what_comes_before_it_has_run(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id, _ = await undone(engine, shop, WHOLE)
        _, status = await carried_out(engine, job_id, Verb.RETRY, "reserve")
        assert ran(shop) == "runs reserve, charge, ship" and status["status"] == "completed"


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_compensation_gets_the_params_and_the_output_of_its_task_however_large(
    database_url: str, size: int
) -> None:
    shop, text = Shop(), "x" * size
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER, {"text": text}))["job_id"]
        plan, status = await carried_out(engine, job_id, Verb.UNDO)
        assert status["status"] == "cancelled" and plan.tasks == 3
        assert shop.given == {
            "recall": (None, "parcel" + text),
            "refund": ({"amount": 30}, {"paid": 30}),
            "release": ({"book": "atlas", "text": text}, "atlas" + text),
        }
        assert shop.did[-3:] == ["recall", "refund", "release"], "from the end to the beginning"


@pytest.mark.parametrize("size", [1, 100_000])
async def test_items_batches_and_what_runs_behind_them_are_undone(database_url: str, size: int) -> None:
    shop, text = Shop(), "x" * size
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(MANY, {"text": text}))["job_id"]
        assert len(shop.there) == 7
        shop.did.clear()
        plan, status = await carried_out(engine, job_id, Verb.UNDO)
        assert [(step.node, step.items) for step in plan.steps] == [("all", 1), ("all", 2), ("each", 4)]
        assert status["status"] == "cancelled" and shop.there == set()
        assert shop.did[0] == "undo last"
        assert set(shop.did[1:3]) == {"undo page 0", "undo page 2"}
        assert set(shop.did[3:]) == {f"undo each {item}" for item in range(4)}
        assert Counter(shop.did).most_common(1)[0][1] == 1
        assert shop.given["undo each 3"] == ({"item": 3, "text": text}, {"item": 3, "text": text})
        assert nodes(status)["each"]["undo"] == {"undone": 4, "failed": 0, "error": None, "is_over": True}
        shop.did.clear()
        _, status = await carried_out(engine, job_id, Verb.RESUME)
        assert status["status"] == "completed" and len(shop.there) == len(shop.did) == 7


async def test_of_a_fan_out_only_the_item_is_left_that_cannot_be_undone(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(MANY))["job_id"]
        shop.refuses = {"undo each 2"}
        _, status = await carried_out(engine, job_id, Verb.UNDO)
        assert status["error"]["code"] == "UNDO_INCOMPLETE" and shop.there == {"each 2"}
        undo = nodes(status)["each"]["undo"]
        assert (undo["undone"], undo["failed"], undo["error"]["message"]) == (
            3, 1, "ConnectionError: undo each 2 is closed",
        )  # fmt: skip
        tasks = [to_json(task) for task in await engine.client.tasks(job_id, node="each")]
        assert [task["status"] for task in tasks] == ["cancelled", "cancelled", "completed", "cancelled"]
        assert [task["index"] for task in tasks if "undo_error" in task] == [2]
        assert tasks[2]["undo_error"]["code"] == "HANDLER_ERROR"
        shop.refuses.clear()
        shop.did.clear()
        plan, status = await carried_out(engine, job_id, Verb.UNDO)
        assert plan.tasks == 1 and shop.did == ["undo each 2"] and status["error"]["code"] == "UNDONE"


async def test_each_completion_is_undone_at_most_once_and_each_new_one_can_be_undone_again(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        for number in (1, 2, 3):
            await carried_out(engine, job_id, Verb.UNDO)
            with pytest.raises(Refused, match="all that can be undone is undone already"):
                await engine.client.plan(job_id, VerbRequest(Verb.UNDO))
            counted = Counter(shop.did)
            assert all(counted[name] == counted[done] == number for name, done in UNDOES.items())
            await carried_out(engine, job_id, Verb.RESUME)
        assert (await engine.status(job_id))["status"] == "completed"


async def test_of_two_people_who_undo_a_job_at_once_one_succeeds(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        plan = await engine.client.plan(job_id, VerbRequest(Verb.UNDO))
        both = [engine.client.carry_out(plan, exactly=True, seconds=20) for _ in range(2)]
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert sorted(isinstance(answer, Refused) for answer in answers) == [False, True]
        await ended(engine, job_id, 2)
        assert all(shop.did.count(name) == 1 for name in UNDOES)


async def test_a_compensation_is_retried_in_its_own_queue_and_by_its_own_rule(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        shop.refuses = {"refund"}
        await carried_out(engine, job_id, Verb.UNDO)
        assert shop.did.count("refund") == 2, "max_retries is 1"
        events = [event for event in await engine.events(job_id) if event["node"] == "charge"]
        started = next(event for event in events if event["event"] == "node_undo_started")
        assert started["data"] == {"tasks": 1, "queue": "money", "handler": "refund"}
        failed = events[-1]
        assert failed["event"] == "node_undo_failed"
        assert failed["data"] == {
            "undone": 0, "failed": 1, "status": "completed", "code": "HANDLER_ERROR",
            "message": "ConnectionError: refund is closed",
        }  # fmt: skip


async def test_a_node_that_a_person_has_dealt_with_counts_as_undone_and_the_undo_goes_on(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id, _ = await undone(engine, shop, FAILED)
        plan, status = await carried_out(engine, job_id, Verb.SKIP, "charge")
        assert plan.undoes and plan.asks
        assert ran(shop) == "undoes reserve" and status["error"]["code"] == "UNDONE"
        by = [event["data"].get("by") for event in await engine.events(job_id) if event["event"] == "node_undone"]
        assert by == [None, engine.client.scope.actor, None]
        (task,) = await engine.client.tasks(job_id, node="charge")
        assert (task.status, task.undo_error) == ("cancelled", None)


async def test_a_failed_undo_from_a_node_on_is_advised_from_that_node_on(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        shop.refuses = {"refund"}
        _, status = await carried_out(engine, job_id, Verb.UNDO, "charge")
        first = status["outcome"]["recovery"][0]
        assert first["command"] == f"holdfast undo {job_id} --from charge --yes"
        assert first["request"]["path"].endswith(f"/{job_id}/undo") and first["request"]["body"] == {"node": "charge"}
        assert status["error"]["hint"].endswith(f"holdfast undo {job_id} --from charge")


async def test_a_job_that_fails_undoes_itself_if_its_workflow_says_so_and_a_resume_runs_all_again(
    database_url: str,
) -> None:
    shop = Shop()
    shop.refuses = {"ship"}
    async with running(database_url, shop.registry) as engine:
        status = await engine.run(ORDER.replace("workflow_id: order", "workflow_id: order\non_failure: compensate"))
        assert shop.did == ["price", "reserve", "charge", "ship", "refund", "release"]
        assert (status["status"], status["reason"], status["generation"]) == ("failed", "undone", 2)
        assert status["error"]["message"] == "ConnectionError: ship is closed", "the error is why it failed"
        assert statuses(status) == {
            "price": "completed", "reserve": "cancelled", "charge": "cancelled", "ship": "failed",
        }  # fmt: skip
        recovered = [event["data"] for event in await engine.events(status["job_id"]) if "recovered" in event["event"]]
        assert recovered[0]["actor"] == "on_failure: compensate"
        shop.refuses.clear()
        shop.did.clear()
        _, status = await carried_out(engine, status["job_id"], Verb.RESUME)
        assert status["status"] == "completed" and ran(shop) == "runs reserve, charge, ship"


async def test_a_job_whose_own_undo_failed_says_both_until_a_person_accepts_what_is_left(database_url: str) -> None:
    shop = Shop()
    shop.refuses = {"ship", "refund"}
    async with running(database_url, shop.registry) as engine:
        status = await engine.run(ORDER.replace("workflow_id: order", "workflow_id: order\non_failure: compensate"))
        assert (status["status"], status["error"]["code"]) == ("failed", "UNDO_INCOMPLETE")
        assert status["error"]["message"].endswith("the job had failed: ConnectionError: ship is closed")
        _, status = await carried_out(engine, status["job_id"], Verb.SKIP, "charge")
        assert (status["status"], status["reason"]) == ("failed", "undone")
        assert shop.there == {"charge"}, "a person has dealt with it"
        assert status["error"]["message"] == "ConnectionError: ship is closed"


async def test_a_job_that_is_undone_says_so_in_its_status_its_plan_and_its_events(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        assert not [node for node in (await engine.status(job_id))["nodes"] if "undo" in node]
        plan, status = await carried_out(engine, job_id, Verb.UNDO, "charge")
        steps = [(step["node"], step["action"], step["items"]) for step in to_json(plan)["steps"]]
        assert steps == [("ship", "undo", 1), ("charge", "undo", 1), ("reserve", "keep", 1), ("price", "keep", 1)]
        assert [node["node"] for node in status["nodes"] if "undo" in node] == ["charge", "ship"]
        assert status["result"] is None and nodes(status)["reserve"]["status"] == "completed"
        assert nodes(status)["charge"]["undo"] == {"undone": 1, "failed": 0, "error": None, "is_over": True}
        events = await engine.events(job_id)
        names = [event["event"] for event in events]
        begin = names.index("job_recovered")
        undo_of_one = ["node_undo_started", "node_dispatched", "node_undone"]
        assert names[begin:] == ["job_recovered", *undo_of_one, *undo_of_one, "job_cancelled"]
        data = events[begin]["data"]
        assert (data["verb"], data["undo"], data["rerun"]) == ("undo", {"ship": 1, "charge": 1}, {})


def face(url: str, job_id: str) -> tuple[list[str], str]:
    with SyncClient.connect(url) as client:
        plan = client.plan(job_id, VerbRequest(Verb.UNDO))
        with pytest.raises(NotFound, match="no node 'nix'"):
            client.plan(job_id, VerbRequest(Verb.UNDO, "nix"))
        result = client.carry_out(plan, reason="by a script", seconds=20)
        return [step.node for step in plan.steps if step.action == "undo"], result.answer


async def test_a_program_undoes_a_job_with_the_synchronous_client(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        job_id = (await engine.run(ORDER))["job_id"]
        assert await asyncio.to_thread(face, database_url, job_id) == (["ship", "charge", "reserve"], "applied")
        status = await ended(engine, job_id, 2)
        assert status["error"]["message"].endswith(": by a script") and shop.there == set()


async def test_an_open_job_one_without_compensations_and_an_unknown_node_are_refused(database_url: str) -> None:
    shop = Shop()
    async with running(database_url, shop.registry) as engine:
        plain = (await engine.run("workflow_id: plain\nnodes: {a: {handler: echo}}"))["job_id"]
        with pytest.raises(Refused, match="nothing that has completed has a compensate"):
            await engine.client.plan(plain, VerbRequest(Verb.UNDO))
        with pytest.raises(NotFound, match="it has no node 'b'"):
            await engine.client.plan(plain, VerbRequest(Verb.UNDO, "b"))
        nap = await engine.submit("workflow_id: n\nnodes: {nap: {handler: sleep, params: {duration_seconds: 600}}}")

        async def has_begun() -> Any:
            return (await engine.status(nap))["status"] == "running"

        await eventually(has_begun)
        with pytest.raises(Refused, match="only a job that has ended can be undone"):
            await engine.client.plan(nap, VerbRequest(Verb.UNDO))
