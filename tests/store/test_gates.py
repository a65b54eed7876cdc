"""Breakers and limits on both stores: how many tasks each lets through, and in which order."""

from __future__ import annotations

import psycopg
import pytest

from holdfast.core.breaking import BreakerState
from holdfast.core.effects import Lane
from holdfast.define.gates import DEFAULT_TENANT as TENANT
from holdfast.define.gates import BreakerRules, Limit
from holdfast.errors import Refused
from holdfast.store.batch import Batch, Handover
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import WorkerIdentity
from tests.store.stage import PostgresBackstage, Stage, report_of

pytestmark = pytest.mark.anyio
GATEWAY = BreakerRules("gateway", cooldown_seconds=0.0)
BEHIND = Lane("default", "work", breaker="gateway")


async def queued(stage: Stage, lane: Lane, count: int, node: str = "n", **options: int) -> tuple[int, str]:
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, node, range(count), lane=lane, **options)
    return me, job_id


async def put(stage: Stage, me: int, state: BreakerState, successes: int = 0) -> None:
    """Write a breaker's state in a cycle, as an owner does."""
    cycle = stage.store.cycle(me)
    opened = await cycle.open(100, 100)
    (breaker,) = await cycle.breakers(["gateway"])
    breaker.state, breaker.successes, breaker.changed_at = state, successes, opened.now
    breaker.until = opened.now if state is BreakerState.OPEN else None
    await cycle.commit(Batch(breakers=[breaker]))


async def claimed(stage: Stage, worker: WorkerIdentity, limit: int = 100) -> list[int]:
    return [lease.item for lease in await stage.claim(worker, limit)]


async def test_an_open_breaker_lets_nothing_through_and_a_closed_one_everything(stage: Stage) -> None:
    await stage.store.declare_breakers(TENANT, [GATEWAY])
    me, _ = await queued(stage, BEHIND, 3)
    worker = await stage.worker()
    await put(stage, me, BreakerState.OPEN)
    assert await claimed(stage, worker) == []
    await put(stage, me, BreakerState.CLOSED)
    assert await claimed(stage, worker) == [0, 1, 2]


async def test_each_tenant_has_breakers_of_its_own(stage: Stage) -> None:
    for tenant in (TENANT, "acme", "a@b"):
        await stage.store.declare_breakers(tenant, [GATEWAY])
    me, _ = await queued(stage, BEHIND, 1)
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, "n", range(2), lane=BEHIND._replace(tenant="acme", breaker="gateway@acme"))
    await put(stage, me, BreakerState.OPEN)
    opened = await stage.store.open_gates()
    assert opened.shut == {"gateway": None}
    await put(stage, me, BreakerState.OPEN)
    assert await claimed(stage, await stage.worker()) == [0, 1], "those of the other tenant"
    cycle = stage.store.cycle(me)
    await cycle.open(1, 1)
    found = await cycle.breakers(["gateway", "gateway@a@b", "gateway@acme"])
    await cycle.rollback()
    assert [(one.tenant, one.name, one.key) for one in found] == [
        (TENANT, "gateway", "gateway"), ("a@b", "gateway", "gateway@a@b"), ("acme", "gateway", "gateway@acme"),
    ]  # fmt: skip
    assert [one.state for one in found] == [BreakerState.OPEN, BreakerState.CLOSED, BreakerState.CLOSED]


async def test_an_undeclared_breaker_holds_nothing_back(stage: Stage) -> None:
    await queued(stage, BEHIND, 2)
    assert await claimed(stage, await stage.worker()) == [0, 1]


async def test_a_half_open_breaker_lets_as_many_run_at_once_as_it_permits(stage: Stage) -> None:
    await stage.store.declare_breakers(TENANT, [GATEWAY])
    me, _ = await queued(stage, BEHIND, 9)
    first, second = await stage.worker("one"), await stage.worker("two")
    await put(stage, me, BreakerState.HALF_OPEN)
    (probe,) = await stage.claim(first)
    assert await claimed(stage, second) == []
    await put(stage, me, BreakerState.HALF_OPEN, successes=2)
    assert await claimed(stage, second) == [1, 2]
    await stage.store.report(first, [report_of(probe)])
    assert await claimed(stage, first) == [3]


async def test_a_breaker_is_tried_again_when_its_cooldown_is_over(stage: Stage) -> None:
    await stage.store.declare_breakers(TENANT, [GATEWAY])
    me, _ = await queued(stage, BEHIND, 4)
    worker = await stage.worker()
    await put(stage, me, BreakerState.OPEN)
    opened = await stage.store.open_gates()
    assert (opened.may_find, opened.shut) == (True, {"gateway": None})
    assert await claimed(stage, worker) == [0]
    assert not (await stage.store.open_gates()).may_find


async def test_a_breaker_with_a_probe_waits_for_the_probe(stage: Stage) -> None:
    await stage.store.declare_breakers(
        TENANT, [BreakerRules("gateway", cooldown_seconds=0.0, probe_url="http://localhost/")]
    )
    me, _ = await queued(stage, BEHIND, 1)
    await put(stage, me, BreakerState.OPEN)
    assert not (await stage.store.open_gates()).may_find
    assert await claimed(stage, await stage.worker()) == []


async def test_a_commit_stores_every_field_of_a_breaker(stage: Stage) -> None:
    rules = BreakerRules("gateway", codes=("BUSY",), probe_handler="check")
    await stage.store.declare_breakers(TENANT, [rules])
    me = await stage.orchestrator()
    cycle = stage.store.cycle(me)
    await cycle.open(1, 1)
    (breaker,) = await cycle.breakers(["gateway", "unknown"])
    assert (breaker.rules, breaker.state, breaker.window) == (rules, BreakerState.CLOSED, [])
    breaker.window = [(1.5, True), (2.5, False)]
    breaker.state, breaker.changed_at, breaker.until, breaker.reason = BreakerState.OPEN, 7.0, 9.0, 'it "fell", ü'
    await cycle.commit(Batch(breakers=[breaker]))
    await cycle.open(1, 1)
    assert await cycle.breakers(["gateway"]) == [breaker]
    await cycle.rollback()


async def test_declaring_a_breaker_again_changes_its_rules_and_not_its_state(stage: Stage) -> None:
    await stage.store.declare_breakers(TENANT, [GATEWAY])
    me, _ = await queued(stage, BEHIND, 1)
    await put(stage, me, BreakerState.OPEN)
    stricter = BreakerRules("gateway", window_calls=5, cooldown_seconds=60)
    await stage.store.declare_breakers(TENANT, [stricter])
    cycle = stage.store.cycle(me)
    await cycle.open(1, 1)
    (breaker,) = await cycle.breakers(["gateway"])
    await cycle.rollback()
    assert (breaker.rules, breaker.state) == (stricter, BreakerState.OPEN)


async def test_a_limit_of_concurrency_counts_leases_over_workers_and_lanes(stage: Stage) -> None:
    shared = Limit("key:CIV", concurrency=2)
    me, job_id = await queued(stage, Lane("default", "work", limits=(shared,)), 3, "a")
    await stage.enqueue(me, job_id, "b", range(3), lane=Lane("heavy", "work", limits=(shared,)))
    first, second = await stage.worker("one"), await stage.worker("two")
    (lease, _) = await stage.claim(first)
    assert await stage.claim(second) == []
    await stage.store.report(first, [report_of(lease)])
    assert len(await stage.claim(second)) == 1
    assert await stage.claim(first) == []


async def test_the_slots_of_a_dead_worker_are_free_again(stage: Stage) -> None:
    await queued(stage, Lane("default", "work", limits=(Limit("node:w.n", concurrency=1),)), 2)
    first, second = await stage.worker("one"), await stage.worker("two")
    assert await claimed(stage, first) == [0]
    assert await claimed(stage, second) == []
    await stage.behind.lapse_worker(first)
    await stage.store.expire()
    assert await claimed(stage, second) == [1]


async def test_a_rate_lets_only_its_burst_begin_at_once(stage: Stage) -> None:
    slow = Limit("node:w.n", rate=1e-6, burst=3)
    await queued(stage, Lane("default", "work", limits=(slow,)), 9)
    worker = await stage.worker()
    leases = await stage.claim(worker, 2)
    leases += await stage.claim(worker)
    assert [lease.item for lease in leases] == [0, 1, 2]
    await stage.store.report(worker, [report_of(lease) for lease in leases])
    assert await stage.claim(worker) == []
    assert (await stage.store.open_gates()).may_find


async def test_the_tighter_of_two_limits_decides_and_does_not_starve_the_other_lane(stage: Stage) -> None:
    wide, tight = Limit("key:wide", concurrency=3), Limit("key:tight", concurrency=1)
    me, job_id = await queued(stage, Lane("default", "work", limits=(tight, wide)), 5, "both")
    await stage.enqueue(me, job_id, "one", range(5), lane=Lane("default", "work", limits=(wide,)))
    leases = await stage.claim(await stage.worker())
    assert sorted(lease.node for lease in leases) == ["both", "one", "one"]


async def test_tasks_of_limited_and_free_lanes_are_claimed_in_one_order(stage: Stage) -> None:
    limited = Lane("default", "work", limits=(Limit("node:w.n", concurrency=2),))
    me, job_id = await queued(stage, limited, 3, "limited", priority=5)
    await stage.enqueue(me, job_id, "free", range(3), priority=7)
    leases = await stage.claim(await stage.worker(), 4)
    assert [lease.node for lease in leases] == ["free", "free", "free", "limited"]


async def test_a_handover_leases_no_task_behind_a_gate(stage: Stage) -> None:
    me, _ = await queued(stage, Lane("default", "work", limits=(Limit("node:w.n", concurrency=9),)), 2)
    worker = await stage.worker()
    cycle = stage.store.cycle(me)
    await cycle.open(1, 1)
    committed = await cycle.commit(Batch(), Handover(worker, (), None, ["work"], 10))
    assert committed.leases == []
    assert await claimed(stage, worker) == [0, 1]


async def test_a_breaker_that_another_session_has_locked_does_not_keep_the_others_from_being_tried(
    store: PostgresStore,
) -> None:
    stage = Stage(store, PostgresBackstage(store))
    me = await stage.orchestrator()
    for tenant in (TENANT, "acme"):
        await store.declare_breakers(tenant, [GATEWAY])
    async with store.connections.use("stage") as connection:
        await connection.execute("update breakers set state = 'open', until = now()")
    async with await psycopg.AsyncConnection.connect(store.connections.url) as other:
        await other.execute("select 1 from holdfast.breakers where name = 'gateway' for update")
        assert (await store.open_gates()).may_find
    cycle = store.cycle(me)
    await cycle.open(1, 1)
    states = {breaker.key: breaker.state for breaker in await cycle.breakers(["gateway", "gateway@acme"])}
    await cycle.rollback()
    assert states == {"gateway": BreakerState.OPEN, "gateway@acme": BreakerState.HALF_OPEN}


async def test_the_queue_timeout_does_not_run_while_a_breaker_holds_a_task_back(store: PostgresStore) -> None:
    stage = Stage(store, PostgresBackstage(store))
    await store.declare_breakers(TENANT, [GATEWAY])
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, "n", range(2), lane=BEHIND, queue_timeout_seconds=60.0)
    await put(stage, me, BreakerState.OPEN)

    async def pass_time(table: bytes, column: bytes) -> None:
        async with store.connections.use("stage") as connection:
            await connection.execute(b"update " + table + b" set " + column + b" = now() - interval '5 min'")

    await pass_time(b"queue", b"queued_at")
    assert await store.expire() == 0
    await put(stage, me, BreakerState.CLOSED)
    assert await store.expire() == 0
    await pass_time(b"breakers", b"changed_at")
    assert await store.expire() == 2


async def test_tasks_behind_a_gate_are_claimed_only_for_free_slots(store: PostgresStore) -> None:
    stage = Stage(store, PostgresBackstage(store))
    await store.declare_breakers(TENANT, [GATEWAY])
    me, job_id = await queued(stage, BEHIND, 5, "gated")
    await stage.enqueue(me, job_id, "free", range(5))
    worker = await stage.worker()
    _, leases = await store.report_and_claim(worker, [], None, ["work"], 100, 2)
    assert sorted(lease.node for lease in leases) == ["free"] * 5 + ["gated"] * 2
    assert (await store.report_and_claim(worker, [], None, ["work"], 100, 0))[1] == []


async def test_no_task_of_a_paused_queue_begins_until_it_is_unpaused(stage: Stage) -> None:
    me, job_id = await queued(stage, Lane("maps", "work"), 3)
    worker = await stage.worker()
    (running,) = await stage.claim(worker, 1)
    await stage.behind.pause_queue("maps")
    assert await claimed(stage, worker) == []
    assert not (await stage.store.open_gates()).may_find, "no worker is woken for it"
    await stage.enqueue(me, job_id, "new", range(1), lane=Lane("maps", "work"))
    await stage.enqueue(me, job_id, "other", range(1))
    assert [lease.node for lease in await stage.claim(worker, 100)] == ["other"], "of old and new tasks"
    assert next(row["state"] for row in await stage.behind.queue(job_id) if row["item"] == running.item) == "leased"
    await stage.behind.unpause_queue("maps")
    assert sorted(await claimed(stage, worker)) == [0, 1, 2]


async def test_a_paused_queue_keeps_its_limit_and_the_time_of_its_tasks(store: PostgresStore) -> None:
    stage = Stage(store, PostgresBackstage(store))
    gates = store.gates()
    lane = Lane("maps", "work")
    me = await stage.orchestrator()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, "n", range(3), lane=lane, queue_timeout_seconds=60.0)
    await gates.set_limit("", "queue:maps", "ann", concurrency=1)
    assert (paused := await gates.pause_queue("maps", "bob", "full disk")) is not None
    assert (paused.concurrency, paused.paused_by, paused.pause_reason, paused.waiting) == (1, "bob", "full disk", 3)
    assert await gates.pause_queue("maps", "eve", "") is None, "it is paused already, by bob"
    changed = await gates.set_limit("", "queue:maps", "ann", concurrency=2)
    assert (changed.concurrency, changed.paused_by) == (2, "bob"), "it counts when the pause ends"
    worker = await stage.worker()
    assert await claimed(stage, worker) == []

    async with store.connections.use("stage") as connection:
        await connection.execute(b"update queue set queued_at = now() - interval '5 min'")
        await connection.execute(b"update limits set paused_at = now() - interval '5 min' where paused_at is not null")
    assert await store.expire() == 0, "the time does not run"
    await gates.unpause_queue("maps", "ann")
    assert await gates.unpause_queue("maps", "ann") is None
    assert await store.expire() == 0, "and it has not run"
    assert len(await claimed(stage, worker)) == 2

    await gates.pause_queue("maps", "bob", "")
    await gates.drop_limit("", "queue:maps", "ann")
    (row,) = await gates.limits()
    assert (row.concurrency, row.paused_by, row.actor) == (None, "bob", None), "without a limit, and paused"
    with pytest.raises(Refused, match="the queue is paused"):
        await gates.drop_limit("", "queue:maps", "ann")
    await gates.unpause_queue("maps", "ann")
    assert await gates.limits() == []


async def test_a_task_that_waits_in_its_worker_does_not_begin_when_its_queue_is_paused(store: PostgresStore) -> None:
    stage = Stage(store, PostgresBackstage(store))
    await queued(stage, Lane("maps", "work"), 2)
    worker = await stage.worker()
    first, second = await stage.claim(worker, 2)
    assert await store.begin_late(worker, first[:4])
    await stage.behind.pause_queue("maps")
    assert not await store.begin_late(worker, second[:4])
