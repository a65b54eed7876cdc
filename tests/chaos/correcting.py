"""Corrects a job while processes are killed, and judges whether exactly what the correction changes has run."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from tests.chaos.case import Case
from tests.chaos.undoing import ask, end_all, kill_once, send
from tests.chaos.workload import CORRECTED, OTHER_ITEMS, jobs

KILLS = {
    "worker": (("claim.after_commit", 1), ("run.before", 1), ("run.after", 2), ("report.before", 1)),
    "orchestrator": (
        ("drain.after_open", 2),
        ("decide.job", 1),
        ("decide.after_core", 1),
        ("decide.after_core", 2),
        ("commit.before", 1),
        ("commit.before", 3),
        ("commit.after", 1),
        ("commit.after", 2),
        ("commit.after", 3),
    ),
}
"""The points that a correction passes, by service, each with the visit at which the process is killed."""
_TASKS = "select item, status, epoch, gone from tasks where node = 'each' order by item"
IS_GONE = (False, False, True, False, True, False)


async def completed(case: Case) -> str:
    """A job that has completed, and the file with its corrected inputs; returns its id."""
    await case.fleet.up("orchestrator", "worker")
    await case.submit(jobs([CORRECTED], copies=1))
    await case.all_done()
    ((job_id, status),) = await case.query("select job_id::text, status from jobs")
    assert status == "completed"
    (case.scratch / "inputs.json").write_text(json.dumps({"items": OTHER_ITEMS}))
    return str(job_id)


async def correct(case: Case, job_id: str, *flags: str) -> tuple[int, str]:
    inputs = ("--inputs", str(case.scratch / "inputs.json"), "--stale", "rerun", "--yes")
    return await ask(case, "resume", job_id, *inputs, *flags)


async def kill_at(service: str, point: str, visit: int, case: Case) -> None:
    """A person corrects the items of a job; the only process of its kind is killed on the way."""
    job_id = await completed(case)
    # On a slow machine a lease may have expired: then a task has run twice before.
    before = [epoch for _, _, epoch, _ in await case.query(_TASKS)], executions(case)
    end_all(case, service)
    code, said = await correct(case, job_id, "--detach")
    assert code == 0, said
    await kill_once(case, service, point, visit)
    await case.all_done()
    await assert_corrected(case, *before)


async def by_two_people(case: Case) -> None:
    """Two people correct the same job at once: one of them does, and the answer to the other says why not."""
    job_id = await completed(case)
    answers = await asyncio.gather(correct(case, job_id), ask(case, "resume", job_id, "--input", "number=7", "--yes"))
    codes = [code for code, _ in answers]
    refused = next(said for code, said in answers if code)
    assert codes.count(0) == 1 and ("changed" in refused or "only a job that has ended" in refused), answers
    await case.all_done()
    if codes[0]:
        code, said = await correct(case, job_id)
        assert code == 0, said
        await case.all_done()
    assert await case.query("select inputs -> 'items' from jobs") == [(OTHER_ITEMS,)]


async def by_an_undo_and_a_cancel(case: Case) -> None:
    """An undo finds nothing to take back, and a cancel comes at any moment: a resume does the rest."""
    job_id = await completed(case)
    code, said = await ask(case, "undo", job_id, "--yes")
    assert code == 4 and "compensate" in said, said
    code, said = await correct(case, job_id)
    assert code == 0, said
    await send(case, job_id, "cancel")
    await case.all_done()
    if await case.query("select status from jobs where status = 'cancelled'"):
        code, said = await ask(case, "resume", job_id, "--yes", "--wait")
        assert code == 0, said
    await case.all_done()
    assert await case.query("select status from jobs") == [("completed",)]


DISTURBED = (by_two_people, by_an_undo_and_a_cancel)


def executions(case: Case) -> Counter[tuple[str, int]]:
    """How often each task has run."""
    lines = [json.loads(line) for line in (case.scratch / "effects").read_text().splitlines()]
    return Counter((line["node"], line["item"]) for line in lines)


async def assert_corrected(case: Case, epochs: list[int], ran: Counter[tuple[str, int]]) -> None:
    """What is the same is kept; what is gone counts no more; only what is new has run."""
    tasks = [(status, epoch, gone) for _, status, epoch, gone in await case.query(_TASKS)]
    kept = [
        ("skipped", epoch, "completed") if is_gone else ("completed", epoch, None)
        for epoch, is_gone in zip(epochs, IS_GONE, strict=True)
    ]
    assert tasks[:6] == kept, tasks
    assert [(status, gone) for status, _, gone in tasks[6:]] == [("completed", None)] * 2, tasks
    now = executions(case)
    assert all(now[key] == ran[key] for key in [("begin", -1), *(("each", item) for item in range(6))]), now
    assert await case.query("select generation from pins order by generation") == [(1,), (2,)]
