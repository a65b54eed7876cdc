"""`holdfast pause` and `unpause` of many jobs, and of a queue."""

from __future__ import annotations

import asyncio
import re

import pytest

from holdfast import Client, SyncClient, Verb
from holdfast.operations.scope import Scope, current_actor
from holdfast.views.verbs import VerbRequest
from tests.cli.conftest import Command
from tests.cli.test_fleet import Start, started, until

__all__ = ["started"]

ME = re.escape(current_actor())


def test_a_paused_queue_starts_nothing_and_says_so_everywhere(database: Command, started: Start) -> None:
    """Of jobs before and after the pause, whatever processes start; until it is unpaused."""
    before = database("submit", "flow.yaml", "--json").json["job_id"]
    paused = database("pause", "--queue", "default", "--reason", "full disk")
    assert paused.code == 0 and paused.out.startswith("Queue default is paused; 0 tasks wait in it")
    assert "holdfast unpause --queue default" in paused.err and "No task is in the queue default now." in paused.err
    after = database("submit", "nap.yaml", "--json").json["job_id"]
    started("up")
    until(lambda: all(database("status", one, "--json").json["held"] for one in (before, after)))
    status = database("status", before, "--json").json
    held = status["held"]
    assert held | {"since": None} == {
        "by": "limit", "name": "queue:default", "since": None, "until": None, "reason": "full disk",
        "paused_by": current_actor(),
    }  # fmt: skip
    assert (status["counts"]["running"], status["counts"]["completed"]) == (0, 0)

    sentence = rf"queue default is paused, by {ME} [\d.]+ s ago: full disk"
    card = database("status", before).out
    assert len(re.findall(sentence, card)) == 2, "at the node and for the job"
    assert "Next      holdfast unpause --queue default" in card
    why = database("why", before)
    assert re.search(f"read is held: {sentence}", why.out) and "→ holdfast unpause --queue default" in why.out
    (reason,) = [one for one in database("why", before, "--json").json["reasons"] if one["node"] == "read"]
    assert (reason["cause"], reason["details"]["queue"]) == ("paused", "default")
    for listing in ("queues", "limits"):
        shown = database(listing)
        assert re.search(sentence, shown.err, re.IGNORECASE) and "unpause --queue default" in shown.err
    (queue,) = database("queues", "--json").json["queues"]
    assert (queue["held"], queue["paused"]["by"], queue["paused"]["reason"]) == (2, current_actor(), "full disk")
    assert "nothing, paused" in database("limits").out

    assert database("pause", "--queue", "default").code == 4
    assert "2 tasks could start" in database("unpause", "--queue", "default", "--plan").out
    assert "has no limit: the queue is paused" in database("limits", "drop", "queue:default").err
    assert "is paused" in database("limits", "set", "queue:default", "--concurrency", "2").err
    assert database("janitor", "--once", "--dry-run", "--json").json["findings"] == [], "they wait as they should"
    assert database("status", before, "--json").json["counts"]["completed"] == 0

    answer = database("unpause", "--queue", "default", "--json").json
    assert (answer["verb"], answer["queue"], answer["waiting"]) == ("unpause", "default", 2)
    until(lambda: database("status", after, "--json").json["status"] == "completed")
    assert database("limits", "--json").json["limits"][0]["concurrency"] == 2
    assert database("unpause", "--queue", "default").code == 4
    database("pause", "--queue", "default", "--reason", "two\nlines")
    assert "two lines.\n" in database("queues").err


def test_all_jobs_of_a_workflow_are_paused_and_unpaused_together(
    database: Command, started: Start, database_url: str
) -> None:
    jobs = [database("submit", "slow.yaml", "--key", str(number), "--json").json["job_id"] for number in range(3)]
    other = database("submit", "flow.yaml", "--json").json["job_id"]
    assert database("pause", jobs[0]).code == 0

    planned = database("pause", "--workflow", "slow", "--plan")
    assert "2 jobs would be paused, 1 paused already, 0 refused; nothing was changed." in planned.out
    assert jobs[1] in planned.out and jobs[0] not in planned.out
    assert database("pause", "--workflow", "slow", "--plan", "--json").json["workflows"] == {"slow": 2}
    refused = database("pause", "--workflow", "slow")
    assert refused.code == 4 and "2 jobs would be paused, and there is no terminal" in refused.err

    recorded = database("pause", "--workflow", "slow", "--yes")
    assert "is recorded" in recorded.err and "No orchestrator is running" in recorded.err
    started("up")

    def paused(job_id: str) -> bool:
        return (database("status", job_id, "--json").json["held"] or {}).get("by") == "pause"

    until(lambda: all(paused(one) for one in jobs))
    assert not paused(other)
    with SyncClient.connect(database_url) as client:
        seen = client.change_jobs(client.plan_jobs(Verb.PAUSE, workflow_id="slow"))
    assert (seen.jobs, seen.already, seen.refused, seen.pending) == (0, 3, (), ())

    unpaused = database("unpause", "--workflow", "slow", "--yes", "--json").json
    assert (unpaused["jobs"], unpaused["already"], unpaused["refused"]) == (3, 0, [])
    until(lambda: all(database("status", one, "--json").json["counts"]["running"] for one in jobs))
    everything = database("pause", "--all", "--yes", "--reason", "lunch")
    assert everything.code == 0 and "3 jobs are paused" in everything.out
    assert "lunch" in database("status").out


async def _many_and_a_job_that_ends(url: str) -> None:
    """What other people do between the plan and the signals is no error."""
    async with Client.connect(url, Scope(actor="ann")) as client:
        plan = await client.plan_jobs(Verb.PAUSE)
        ended, paused, left = plan.job_ids
        await client.answer(await client.cancel(ended), seconds=None)
        await client.answer(await client.send(paused, VerbRequest(Verb.PAUSE)), seconds=None)
        result = await client.change_jobs(plan, reason="lunch", seconds=20.0)
        assert (result.jobs, result.already, result.ended, result.refused) == (1, 1, 1, ())
        assert (await client.job(left)).held is not None


def test_jobs_that_end_or_are_paused_meanwhile_are_counted(
    database: Command, started: Start, database_url: str
) -> None:
    for number in range(3):
        database("submit", "nap.yaml", "--key", str(number), "--json")
    # Without a worker, a cancelled job ends at once.
    started("orchestrator")
    until(lambda: all(one["started_at"] or one["status"] for one in database("status", "--json").json["jobs"]))
    asyncio.run(_many_and_a_job_that_ends(database_url))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "needs a job"),
        (("--all", "--queue", "default"), 2, "takes one of JOB, --workflow, --queue and --all"),
        (("--all", "--plan-id", "0"), 2, "--plan-id is about one job"),
        (("--workflow", "sloow"), 5, "slow"),
        (("--queue", "a\nb"), 2, "queue"),
    ],
)
def test_what_cannot_be_paused_is_refused_with_a_remedy(
    database: Command, arguments: tuple[str, ...], code: int, text: str
) -> None:
    database("submit", "slow.yaml")
    refused = database("pause", *arguments)
    assert (refused.code, text in refused.err) == (code, True), refused.err


def test_without_a_database_there_is_nothing_to_pause(command: Command) -> None:
    assert command("pause", "--all").code == 5
