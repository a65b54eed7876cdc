"""The owner's cycle on the model of the store: behaviour that takes several cycles of one job to see."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import Owner
from holdfast.store.records import Lease, Report, WorkerIdentity
from tests.simulation.database import Database
from tests.simulation.store import ModelStore


def done(lease: Lease) -> Report:
    output = orjson.dumps({"item": lease.item})
    return Report(lease.job_id, lease.node, lease.item, lease.epoch, lease.attempt, "done", 0.0, output)


async def two_fans(store: ModelStore) -> tuple[Owner, WorkerIdentity, dict[str, list[Lease]]]:
    """Begin a job with two parallel fan-outs, and lease their items; returns the leases by node."""
    flow = Workflow("two_fans", inputs={"items": {"type": "array"}})
    for name in ("left", "right"):
        flow.fan_out(name, source="{{ inputs['items'] }}", handler="work", params={"i": "{{ item }}"})
        flow.fan_in(f"{name}_all", after=[name])
    await store.submit([new_job(flow.definition(), {"items": [1]})])
    owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
    await owner.run_cycle()
    worker = await store.register_worker("w", None, ["work"], 10, 10)
    leases = await store.claim(worker, None, ["work"], 10)
    by_node: dict[str, list[Lease]] = {"left": [], "right": []}
    for lease in leases:
        by_node[lease.node].append(lease)
    return owner, worker, by_node


def test_regression_a_fan_in_gathers_only_after_its_last_items_are_committed() -> None:
    """While one fan-in waited for its results, another became ready in the same cycle and gathered before its items
    were committed."""

    async def story() -> dict[str, Any]:
        database = Database()
        store = ModelStore(database)
        owner, worker, leases = await two_fans(store)
        await store.report(worker, [done(lease) for lease in leases["left"]])
        await owner.run_cycle()
        await store.report(worker, [done(lease) for lease in leases["right"]])
        while owner.has_work or database.inbox:
            await owner.run_cycle()
        (nodes,) = database.nodes.values()
        return {name: nodes[f"{name}_all"].output for name in ("left", "right")}

    outputs = asyncio.run(story())
    assert outputs == {
        "left": {"results": [{"item": 0}], "count": 1},
        "right": {"results": [{"item": 0}], "count": 1},
    }


def test_regression_a_cycle_that_also_stops_a_job_still_says_that_it_made_work() -> None:
    """The cycle forgot the tasks that it had queued before a withdrawal, so workers noticed them only by polling."""

    async def story() -> bool:
        store = ModelStore(Database())
        flow = Workflow("one")
        flow.task("a", handler="work")
        stopped = new_job(flow.definition(), {}, key="stopped")
        await store.submit([stopped])
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        await owner.run_cycle()
        await store.send(stopped.job_id, "cancel", "someone", "")
        await store.submit([new_job(flow.definition(), {}, key="begun")])
        return (await owner.run_cycle()).enqueued

    assert asyncio.run(story())


def test_a_job_that_cannot_be_advanced_is_set_aside_while_other_jobs_continue() -> None:
    async def story() -> None:
        database = Database()
        store = ModelStore(database)
        jobs = []
        for name in ("first", "broken", "last", "late"):
            flow = Workflow(name)
            flow.task("a", handler="work")
            jobs.append(new_job(flow.definition(), {}))
        await store.submit(jobs[:3])
        definition = database.definitions[jobs[1].definition_hash]
        database.definitions[jobs[1].definition_hash] = b'{"nonsense": 1}'
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        assert (await owner.run_cycle()).more
        await store.submit([jobs[3]])
        while (await owner.run_cycle()).more:
            pass
        statuses = [str(database.jobs[job.job_id]["status"]) for job in jobs]
        assert statuses == ["running", "pending", "running", "running"]
        assert database.jobs[jobs[1].job_id]["reason"].startswith("orchestrator_error: ")

        # The job's signals wait. The owner tries again later, and then removes the reason.
        assert [signal["job_id"] for signal in database.inbox.values()] == [jobs[1].job_id]
        database.definitions[jobs[1].definition_hash] = definition
        assert not (await owner.run_cycle()).jobs
        deadline = owner.next_deadline()
        assert deadline is not None
        database.now = deadline
        while (await owner.run_cycle()).more or database.inbox:
            pass
        assert str(database.jobs[jobs[1].job_id]["status"]) == "running"
        assert database.jobs[jobs[1].job_id]["reason"] is None
        assert owner.next_deadline() is None

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["cancel", "pause", "recover", "recheck"])
def test_a_signal_of_a_person_or_the_janitor_makes_the_owner_try_a_job_set_aside_at_once(kind: str) -> None:
    async def story() -> None:
        database = Database()
        store = ModelStore(database)
        flow = Workflow("broken")
        flow.task("a", handler="work")
        job = new_job(flow.definition(), {})
        await store.submit([job])
        definition = database.definitions[job.definition_hash]
        database.definitions[job.definition_hash] = b'{"nonsense": 1}'
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        while (await owner.run_cycle()).more:
            pass
        assert database.history.set_aside == 1

        # Each signal makes the owner try once more, and not again while nothing has changed.
        data = {"verb": "resume"} if kind == "recover" else None
        await store.send(job.job_id, kind, "ann", "look", data)
        for _ in range(9):
            await owner.run_cycle()
        assert database.history.set_aside == 2
        database.definitions[job.definition_hash] = definition
        await store.send(job.job_id, kind, "ann", "look again", data)
        while (await owner.run_cycle()).more:
            pass
        assert database.inbox == {}
        assert database.jobs[job.job_id]["reason"] is None
        assert owner.next_deadline() is None

    asyncio.run(story())


def test_an_error_outside_all_jobs_is_not_blamed_on_a_job() -> None:
    async def story() -> None:
        store = ModelStore(Database())
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        owner._cycle = None  # type: ignore[assignment]
        await owner.run_cycle()

    with pytest.raises(AttributeError):
        asyncio.run(story())


def test_an_owner_leaves_the_signals_of_jobs_that_others_own() -> None:
    async def story() -> None:
        database = Database()
        store = ModelStore(database)
        flow = Workflow("one")
        flow.task("a", handler="work")
        ours, theirs = (new_job(flow.definition(), {}, key=name) for name in ("ours", "theirs"))
        await store.submit([ours, theirs])
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        await owner.run_cycle()
        for job in (ours, theirs):
            await store.send(job.job_id, "cancel", "someone", "")
        database.jobs[theirs.job_id]["owner"] = await store.register_orchestrator("another", 10)
        owner.forget([theirs.job_id])
        await owner.run_cycle()
        assert [signal["job_id"] for signal in database.inbox.values()] == [theirs.job_id]

    asyncio.run(story())
