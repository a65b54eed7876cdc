"""Bugs that the simulation found: one test for each, with the shortest way to the bug and without chance."""

from __future__ import annotations

from holdfast.define.workflow import Workflow
from tests.core.test_undoing import done, many, run
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


def test_a_person_accepts_what_could_not_be_undone_of_a_node_that_a_person_had_skipped_invariant_25() -> None:
    """Its batches had completed. The skip that accepts them raised a bug, and no verb of the job was read any more."""
    job = done(many(), "all", items=[1, 2, 3])
    job.recover("skip", "all")
    job.recover("undo")
    run(job, "undo all[0]", "undo all[1]")
    assert job.status_of("all") == "skipped"
    assert job.recover("skip", "all").applied
    assert run(job) == ["undo each[0]", "undo each[1]", "undo each[2]"]
    assert job.statuses() == {"each": "cancelled", "all": "cancelled"}
    assert job.state.error is not None and job.state.error.code == "UNDONE"


def test_items_that_a_correction_drops_are_not_undone_with_the_others_invariant_25() -> None:
    """The cycle that drops them also refused a new item, so that the job failed and undid itself."""
    flow = Workflow("w", inputs={"items": {"type": "array"}}, on_failure="compensate")
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item.n }}"}, compensate="u")
    job = done(flow, items=[{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}])
    job.correct(inputs={"items": [{"n": 1}, {"n": 2}, {"m": 3}]})
    assert run(job) == ["undo each[0]", "undo each[1]"]
    node = job.node("each")
    assert (node.completed, node.cancelled, node.failed, node.skipped) == (0, 2, 1, 2)
    assert job.state.status == "failed"
