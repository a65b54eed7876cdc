"""The owner's cycle on the model of the store: what only shows between two cycles of one job."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.owner import Owner
from holdfast.store.interface import Lease, Report, WorkerIdentity
from tests.simulation.database import Database
from tests.simulation.store import ModelStore


def done(lease: Lease) -> Report:
    output = orjson.dumps({"item": lease.item})
    return Report(lease.job_id, lease.node, lease.item, lease.epoch, lease.attempt, "done", 0.0, output)


async def two_fans(store: ModelStore) -> tuple[Owner, WorkerIdentity, dict[str, list[Lease]]]:
    """A job with two fan-outs side by side whose items are leased, by node."""
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
    """While one fan-in was owed, another became owed in the same cycle and was gathered before its items were there."""

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


def test_regression_a_cycle_that_also_stops_a_job_still_tells_that_it_made_work() -> None:
    """What was written before a withdrawal was forgotten: workers heard of it only by polling."""

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


def test_a_job_that_cannot_be_advanced_is_set_aside_while_its_neighbours_go_on() -> None:
    async def story() -> None:
        database = Database()
        store = ModelStore(database)
        jobs = []
        for name in ("first", "broken", "last", "late"):
            flow = Workflow(name)
            flow.task("a", handler="work")
            jobs.append(new_job(flow.definition(), {}))
        await store.submit(jobs[:3])
        kept = database.definitions[jobs[1].definition_hash]
        database.definitions[jobs[1].definition_hash] = b'{"nonsense": 1}'
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        assert (await owner.run_cycle()).more
        await store.submit([jobs[3]])
        while (await owner.run_cycle()).more:
            pass
        statuses = [str(database.jobs[job.job_id]["status"]) for job in jobs]
        assert statuses == ["running", "pending", "running", "running"]
        assert database.jobs[jobs[1].job_id]["reason"].startswith("orchestrator_error: ")

        # Its signals wait; it is tried again when its time has come, and then no trace is left.
        assert [signal["job_id"] for signal in database.inbox.values()] == [jobs[1].job_id]
        database.definitions[jobs[1].definition_hash] = kept
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
def test_a_job_that_was_set_aside_is_looked_at_at_once_when_a_person_or_the_janitor_asks(kind: str) -> None:
    async def story() -> None:
        database = Database()
        store = ModelStore(database)
        flow = Workflow("broken")
        flow.task("a", handler="work")
        job = new_job(flow.definition(), {})
        await store.submit([job])
        kept = database.definitions[job.definition_hash]
        database.definitions[job.definition_hash] = b'{"nonsense": 1}'
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        while (await owner.run_cycle()).more:
            pass
        assert database.history.set_aside == 1

        # While nothing has changed, each signal is a reason to look once, and no more.
        data = {"verb": "resume"} if kind == "recover" else None
        await store.send(job.job_id, kind, "ann", "look", data)
        for _ in range(9):
            await owner.run_cycle()
        assert database.history.set_aside == 2
        database.definitions[job.definition_hash] = kept
        await store.send(job.job_id, kind, "ann", "look again", data)
        while (await owner.run_cycle()).more:
            pass
        assert database.inbox == {}
        assert database.jobs[job.job_id]["reason"] is None
        assert owner.next_deadline() is None

    asyncio.run(story())


def test_what_is_no_jobs_fault_is_not_blamed_on_one() -> None:
    async def story() -> None:
        store = ModelStore(Database())
        owner = Owner(store, await store.register_orchestrator("o", 10), "o", Rules(), lambda: 0.5)
        owner._cycle = None  # type: ignore[assignment]
        await owner.run_cycle()

    with pytest.raises(AttributeError):
        asyncio.run(story())


def test_a_signal_of_a_job_that_is_not_ours_stays_for_its_owner() -> None:
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
