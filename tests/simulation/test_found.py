"""Bugs that the simulation found: one test for each, with the shortest way to the bug and without chance."""

from __future__ import annotations

from holdfast.define.workflow import Workflow
from tests.simulation.stage import Stage


def test_a_fan_in_does_not_gather_before_the_last_report_of_its_items_is_committed_invariant_8() -> None:
    """While one fan-in of a job waited for its results, another gathered too early and lost its last items."""
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    for name in ("early", "late"):
        flow.fan_out(name, source="{{ inputs['items'] }}", handler="h", params={"value": "{{ item }}"})
        flow.fan_in(f"{name}_in", after=name)
    stage = Stage(flow, {"items": [1, 2]})
    stage.cycle()
    stage.work("early")
    stage.cycle()
    stage.work("late")
    stage.cycle()
    stage.cycle()
    gathered = {"results": [{"value": 1}, {"value": 2}], "count": 2}
    assert stage.job["result"] == {"early_in": gathered, "late_in": gathered}


def test_a_failure_and_a_timeout_in_one_cycle_end_the_tasks_in_one_way_invariant_8() -> None:
    """The failure cancelled what was queued, and the timeout counted the same task as failed."""
    flow = Workflow("w", timeout_seconds=40)
    flow.task("waits", handler="h", retry={"max_retries": 3, "initial_delay_seconds": 100})
    flow.task("fails", handler="h", retry={"max_retries": 0})
    stage = Stage(flow)
    stage.cycle()
    stage.work("waits", outcome="failed", data={"code": "LATER", "message": "not yet"})
    stage.cycle()
    stage.work("fails", outcome="failed", data={"code": "NEVER", "message": "not at all"})
    stage.db.now += 50
    stage.cycles()
    task, node = stage.db.tasks[stage.job_id][("waits", -1)], stage.db.nodes[stage.job_id]["waits"]
    assert task["status"] == node.status == "failed" and node.failed == 1
