"""Reads of a job's tasks on both stores: the findings of an examination, and results in order and in pages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.core.signals import EndedTask, TaskCounts, TaskView, UnqueuedTask
from holdfast.store.batch import Batch
from holdfast.store.interface import Cycle
from holdfast.store.records import Gathered, ItemResult
from tests.store.stage import Stage, enqueue_write, finish_write, new_task, node_row, report_of, retry_write

pytestmark = pytest.mark.anyio


async def gathered(cycle: Cycle, job_id: str, node: str) -> list[Gathered]:
    """The results of all pages."""
    results: list[Gathered] = []
    more = True
    while more:
        page, more = await cycle.results(job_id, node, results[-1].item if results else -1)
        results += page
    return results


async def test_examining_a_job_finds_the_tasks_that_are_neither_queued_nor_reported(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    node = node_row(job_id, "n", width=6, expanded=5, enqueued=4)
    own = node_row(job_id, "own", status="dispatched", width=1, expanded=1, enqueued=1)
    tasks = [new_task(job_id, "n", item, {}) for item in range(5)] + [new_task(job_id, "own", -1, {})]
    enqueued = [enqueue_write(job_id, "n", 0, 2), enqueue_write(job_id, "own", -1, -1)]
    await stage.commit(me, Batch(new_nodes=[node, own], tasks=tasks, enqueued=enqueued))
    leases = {(lease.node, lease.item): lease for lease in await stage.claim(worker)}
    await stage.store.report(worker, [report_of(leases[("n", 1)]), report_of(leases[("own", -1)], output=b"7")])
    signals = await stage.signals(me)
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=[finish_write(s) for s in signals]))
    await stage.store.report(worker, [report_of(leases[("n", 0)])])
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    findings = (await cycle.examine([job_id]))[job_id]
    await cycle.rollback()
    assert findings.counts == {"n": TaskCounts(5, 4, 1, 0, 0, 0, 2), "own": TaskCounts(1, -1, 1, 0, 0, 0, -1)}
    assert findings.unqueued == [UnqueuedTask("n", 3, TaskView("ready", 1, 0), None)]
    assert findings.ended == {"own": EndedTask("completed", 1, 7)}


async def test_examining_a_job_tells_how_often_a_task_had_vanished(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    node = node_row(job_id, "n", status="dispatched", width=1, expanded=1, enqueued=1)
    tasks, enqueued = [new_task(job_id, "n", -1, {})], [enqueue_write(job_id, "n", -1, -1)]
    await stage.commit(me, Batch(new_nodes=[node], tasks=tasks, enqueued=enqueued))
    for requeued in (True, False, True):
        (lease,) = await stage.claim(worker)
        await stage.store.report(worker, [report_of(lease)])
        handled = [signal.id for signal in await stage.signals(me)]
        await stage.commit(me, Batch(handled=handled, retried=[retry_write(lease, None, requeued=requeued)]))
    (lease,) = await stage.claim(worker)
    await stage.store.report(worker, [report_of(lease)])
    await stage.commit(me, Batch(handled=[signal.id for signal in await stage.signals(me)]))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    (lost,) = (await cycle.examine([job_id]))[job_id].unqueued
    await cycle.rollback()
    assert (lost.task.epoch, lost.task.requeues) == (4, 2)


async def test_results_come_in_item_order_with_the_failed_ones_named(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(5))
    leases = {lease.item: lease for lease in await stage.claim(worker)}
    outputs = {3: b'{"value": 3}', 0: b'"zero"', 4: b"null", 1: b"[1]"}
    for item, output in outputs.items():
        await stage.store.report(worker, [report_of(leases[item], output=output)])
    await stage.store.report(worker, [report_of(leases[2], "failed", None, data=b'{"code": "X"}')])
    signals = await stage.signals(me)
    done = [finish_write(s, "failed" if s.outcome == "failed" else "completed") for s in signals]
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=done))
    cycle = stage.store.cycle(me)
    await cycle.open(100, 100)
    assert [(g.item, g.status, g.output) for g in await gathered(cycle, job_id, "n")] == [
        (0, "completed", "zero"),
        (1, "completed", [1]),
        (2, "failed", None),
        (3, "completed", {"value": 3}),
        (4, "completed", None),
    ]
    assert await gathered(cycle, job_id, "other") == []
    await cycle.rollback()


async def test_results_of_an_ended_node_come_in_pages(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    await stage.enqueue(me, job_id, items=range(6))
    leases = {lease.item: lease for lease in await stage.claim(worker)}
    await stage.store.report(worker, [report_of(leases[i], output=str(i).encode()) for i in (5, 4, 2, 1, 0)])
    await stage.store.report(worker, [report_of(leases[3], "failed", None, data=b'{"code": "X"}')])
    signals = await stage.signals(me)
    done = [finish_write(s, "failed" if s.outcome == "failed" else "completed") for s in signals]
    running = node_row(job_id, "n", width=6, expanded=6, enqueued=6)
    await stage.commit(me, Batch(handled=[s.id for s in signals], finished=done, new_nodes=[running]))
    assert await stage.store.results_page(job_id, "n", -2, 99, 2) is None, "the node has not ended"
    assert await stage.store.results_page(job_id, "no_such_node", -2, 99, 2) is None
    await stage.commit(me, Batch(nodes=[running._replace(status="failed")]))

    async def items(after: int, until: int, limit: int) -> list[tuple[int, Any]]:
        page = await stage.store.results_page(job_id, "n", after, until, limit)
        assert page is not None
        return [(r.item, orjson.loads(r.output or b"null")) for r in page]

    assert await items(-2, 99, 2) == [(0, 0), (1, 1)]
    assert await items(1, 99, 2) == [(2, 2), (4, 4)], "the failed item is left out"
    assert await items(4, 99, 2) == [(5, 5)]
    assert await items(5, 99, 2) == []
    assert await items(1, 4, 9) == [(2, 2)]


async def test_the_result_of_a_single_task_is_the_only_result_of_its_node(stage: Stage) -> None:
    me, worker = await stage.orchestrator(), await stage.worker()
    job_id = await stage.owned_job(me)
    lease = await stage.leased(me, job_id, worker)
    await stage.store.report(worker, [report_of(lease, output=b'"one"')])
    (signal,) = await stage.signals(me)
    ended = node_row(job_id, lease.node, status="completed", width=1, expanded=1, completed=1)
    await stage.commit(me, Batch(handled=[signal.id], finished=[finish_write(signal)], new_nodes=[ended]))
    assert await stage.store.results_page(job_id, lease.node, -2, 99, 9) == [ItemResult(-1, b'"one"', None)]
