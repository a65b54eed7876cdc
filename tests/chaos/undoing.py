"""Undoes an order while processes are killed, and judges whether each completion was taken back once, in reverse."""

from __future__ import annotations

import asyncio
import json

from holdfast.store.postgres import PostgresStore
from holdfast.store.pruning import PostgresPruning
from tests.chaos.case import Case
from tests.chaos.handlers import UNDO_SECONDS
from tests.chaos.workload import ORDER, jobs

SLOWLY = {UNDO_SECONDS: "0.6"}
CORRECTED = """
workflow_id: order
inputs: {number: {type: integer}}
nodes:
  reserve: {handler: chaos_do, params: {flaky: false}, next: charge}
  charge: {handler: chaos_do, params: {flaky: false}, compensate: chaos_take_back}
"""
REVERSED = ("ship", "charge", "reserve")
KILLS = {
    "worker": (
        ("claim.before", 2),
        ("claim.after_commit", 1),
        ("claim.after_commit", 2),
        ("claim.after_commit", 3),
        ("run.before", 1),
        ("run.before", 2),
        ("run.before", 3),
        ("run.after", 1),
        ("run.after", 2),
        ("run.after", 3),
        ("run.stored", 1),
        ("run.stored", 2),
        ("run.stored", 3),
        ("renew.before", 2),
        ("report.before", 1),
        ("report.before", 2),
        ("report.before", 3),
        ("report.after_commit", 1),
        ("report.after_commit", 2),
        ("report.after_commit", 3),
        ("checkpoint.after", 2),
    ),
    "orchestrator": (
        ("drain.after_open", 2),
        ("decide.job", 1),
        ("decide.job", 3),
        ("decide.after_core", 2),
        ("commit.before", 1),
        ("commit.before", 4),
        ("commit.after", 1),
        ("commit.after", 2),
        ("commit.after", 4),
        ("notify.before", 1),
        ("janitor.found", 1),
    ),
}
"""The points that an undo passes, by service, each with the visit at which the process is killed."""
_EVENTS = "select seq, event, node, item from events order by job_id, seq"
_NODES = (
    "select node, status, completed_count, cancelled_count, reason from nodes where expanded_count > 0 order by node"
)
_TASKS = "select node, status, output is null and output_ref is null, error->>'code', undo from tasks order by node"
_DONE = (
    "select node, count(*) from attempts where extra ? 'compensates' and outcome = 'done' group by node order by node"
)


async def completed(case: Case, **environment: str) -> str:
    """Run an order to its end; returns its id."""
    await case.fleet.up("orchestrator", "worker", **environment)
    await case.submit(jobs([ORDER], copies=1))
    await case.all_done()
    ((job_id, status),) = await case.query("select job_id::text, status from jobs")
    assert (status, in_force(case)) == ("completed", sorted(REVERSED)), "the order has its effects"
    return str(job_id)


async def begun(case: Case) -> str:
    """An order that is being undone, slowly; returns its id."""
    job_id = await completed(case, **SLOWLY)
    await send(case, job_id, "recover", verb="undo")
    await case.until_work_is_leased()
    return job_id


async def send(case: Case, job_id: str, kind: str, **data: str) -> None:
    store = PostgresStore(case.url, "holdfast chaos")
    try:
        await store.send(job_id, kind, "somebody", "the customer wants it back", data)
    finally:
        await store.close()


async def ask(case: Case, *words: str) -> tuple[int, str]:
    """Run a command as a person does; returns its exit code and what it says."""
    command = case.fleet.start_command(*words)
    return await command.ended(60), command.log.read_text()


async def kill_at(service: str, point: str, visit: int, case: Case) -> None:
    """A person undoes an order; the only process of its kind is killed on the way, and another one goes on."""
    job_id = await completed(case)
    end_all(case, service)
    await send(case, job_id, "recover", verb="undo")
    await kill_once(case, service, point, visit, **(SLOWLY if point.startswith("renew") else {}))
    await case.all_done()
    await assert_undone(case)


def end_all(case: Case, service: str) -> None:
    for process in [process for process in case.fleet.kept if process.service == service]:
        case.fleet.kept.remove(process)
        process.kill()


async def kill_once(case: Case, service: str, point: str, visit: int, **environment: str) -> None:
    """A verb waits: the only process of its kind is killed on the way, and another one goes on."""
    once = case.scratch / "once"
    environment |= {"HOLDFAST_FAILPOINT": f"{point}:kill@{visit}", "HOLDFAST_FAILPOINT_ONCE": str(once)}
    victim = case.fleet.start(service, **environment)
    await victim.ended(30)
    assert (once / point).exists(), f"the {service} ended before it came to {point} for the {visit}. time"
    case.broken((once / point).stat().st_mtime)
    await case.fleet.up(service)
    # An orchestrator that was killed early has left the verb in the inbox of a job that has ended.
    await case.until_rows("the next generation", "select 1 from jobs where generation = 2")


async def by_two_people(case: Case) -> None:
    """Two people undo the same job at the same time: one of them does, and the answer to the other says why not."""
    job_id = await completed(case, **SLOWLY)
    answers = await asyncio.gather(*(ask(case, "undo", job_id, "--yes") for _ in range(2)))
    (_, agreed), (code, refused) = sorted(answers)
    assert [answer[0] for answer in sorted(answers)].count(0) == 1 and code != 0, answers
    assert "undo" in agreed and ("is being undone" in refused or "has changed" in refused), refused
    await case.all_done()
    await assert_undone(case)


async def by_a_restart_of_postgres(case: Case) -> None:
    await begun(case)
    case.broken()
    await asyncio.to_thread(case.server.restart_at_once)
    await case.all_done()
    await assert_undone(case)


async def by_a_prune(case: Case) -> None:
    """What is being undone has not ended: a prune deletes neither its rows nor its large outputs."""
    await begun(case)
    store = PostgresStore(case.url, "holdfast chaos")
    try:
        assert await PostgresPruning(store).prune(0.0) == []
    finally:
        await store.close()
    await case.all_done()
    await assert_undone(case)


async def by_a_pause_and_a_cancel(case: Case) -> None:
    """A person pauses the undo, cancels it, and undoes what is left."""
    job_id = await begun(case)
    await send(case, job_id, "pause")
    await case.until_rows("the pause", "select 1 from jobs where holds::text like '%%somebody%%'")
    await send(case, job_id, "cancel")
    await case.all_done()
    assert await case.query("select status, error->>'code' from jobs") == [("cancelled", "UNDO_INCOMPLETE")]
    left = await case.query("select node from nodes where status = 'completed' and expanded_count > 0 order by node")
    assert [name for (name,) in left] == in_force(case) != [], "what is not undone has its effects and counts"
    await send(case, job_id, "recover", verb="undo")
    await case.until_rows("the second undo", "select 1 from jobs where generation = 3")
    await case.all_done()
    await assert_undone(case, undos=2)


async def by_a_correction(case: Case) -> None:
    """The order is undone, runs again with a corrected definition, and is undone again, as that definition says."""
    job_id = await completed(case)
    await send(case, job_id, "recover", verb="undo")
    await case.until_rows("the undo", "select 1 from jobs where generation = 2")
    await case.all_done()
    await assert_undone(case)
    corrected = case.scratch / "corrected.yaml"
    corrected.write_text(CORRECTED)
    code, said = await ask(case, "resume", job_id, "--workflow", str(corrected), "--yes")
    assert code == 0, said
    await case.all_done()
    assert await case.query("select status from jobs") == [("completed",)]
    assert in_force(case) == ["charge", "reserve"], "the corrected order has no parcel"
    code, said = await ask(case, "undo", job_id, "--yes")
    assert code == 0, said
    await case.all_done()
    assert await case.query("select status, error->>'code' from jobs") == [("cancelled", "UNDONE")]
    assert in_force(case) == ["reserve"], "nothing undoes it any more"


DISTURBED = (by_two_people, by_a_restart_of_postgres, by_a_prune, by_a_pause_and_a_cancel, by_a_correction)


def in_force(case: Case) -> list[str]:
    """The nodes whose effects are still there, by the files of the handlers."""
    return sorted(path.name for path in (case.scratch / "ledger").iterdir())


def executions(case: Case) -> list[str]:
    """The nodes that were undone, execution by execution."""
    lines = [json.loads(line) for line in (case.scratch / "effects").read_text().splitlines()]
    return [line["node"] for line in lines if line.get("undoes")]


async def assert_undone(case: Case, undos: int = 1) -> None:
    """Everything is undone, in reverse, each completion once; nothing that was completed is counted any more."""
    found = await case.query("select status, reason, error->>'code', result is null from jobs")
    assert found == [("cancelled", "undone", "UNDONE", True)], found
    counts = [(name, "cancelled", 0, 1, "undone") for name in sorted(REVERSED)]
    assert await case.query(_NODES) == counts
    tasks = [(name, "cancelled", True, "UNDONE", None) for name in sorted(REVERSED)]
    assert await case.query(_TASKS) == tasks
    assert await case.query(_DONE) == [(name, 1) for name in sorted(REVERSED)], "each is undone by one attempt"
    events = [(event, node) for _, event, node, _ in await case.query(_EVENTS)]
    moves = [one for one in events if one[0] in ("node_undo_started", "node_undone", "node_undo_failed")]
    whole = [(event, name) for name in REVERSED for event in ("node_undo_started", "node_undone")]
    # Where a cancel came before, a node may have begun twice.
    assert moves == whole if undos == 1 else [one for one in moves if one[0] == "node_undone"] == whole[1::2], moves
    assert [event for event, _ in events].count("job_recovered") == undos
    assert in_force(case) == [], "no effect is left"
    ran = executions(case)
    assert list(dict.fromkeys(ran)) == list(REVERSED) and ran == sorted(ran, key=REVERSED.index), ran
