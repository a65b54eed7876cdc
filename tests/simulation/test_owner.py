"""The owner on a model of the store: what it remembers, what it forgets, and what it does without a signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from holdfast.errors import Fenced, LostRace
from tests.simulation.stage import Stage, finish

RULES = Rules(grace_seconds=5, drain_seconds=20, chunk_size=2, window_size=2)


def chain(**settings: Any) -> Workflow:
    flow = Workflow("w", **settings)
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    return flow


def fan(items: Sequence[Any] = range(5)) -> Stage:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h", params={"value": "{{ item }}"})
    flow.fan_in("g", after="f")
    return Stage(flow, {"items": list(items)}, RULES)


def to_the_end(stage: Stage, *nodes: str) -> None:
    for _ in range(50):
        stage.cycles()
        if stage.job["finished_at"] is not None:
            return
        stage.work(*nodes)
        # Reports on rows that a predecessor queued go to the predecessor; the sweep moves them to the successor.
        finish(stage.store.sweep_inbox())
    raise AssertionError(f"7: the job is still {stage.job['status']}")


def test_a_job_that_ended_has_no_owner() -> None:
    stage = Stage(chain())
    to_the_end(stage, "a", "b")
    assert (stage.job["status"], stage.job["owner"]) == ("completed", None)
    assert stage.owner.jobs == {}


def test_the_owner_makes_the_next_chunk_and_gathers_the_results_without_a_signal() -> None:
    stage = fan()
    stage.cycle()
    assert stage.owner.has_work
    to_the_end(stage, "f")
    assert stage.job["result"] == {"results": [{"value": i} for i in range(5)], "count": 5}
    assert not stage.owner.has_work


def test_results_that_fit_into_no_output_fail_the_job_and_not_the_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.define.plain.MAX_BUILT_DEPTH", 3)
    stage = fan([[1]])
    to_the_end(stage, "f")
    error = stage.job["error"]
    assert (stage.job["status"], error.code, error.failure_class) == ("failed", "PAYLOAD_REFUSED", "permanent")
    assert "what was gathered is nested more than" in error.message


def test_a_successor_makes_the_chunks_that_its_predecessor_owed() -> None:
    stage = fan()
    stage.cycle()
    stage.take_over()
    to_the_end(stage, "f")
    assert stage.job["status"] == "completed"


def test_a_successor_dispatches_the_nodes_that_its_predecessor_had_put_off() -> None:
    flow = Workflow("w", inputs={"text": {"type": "string"}})
    names = [f"n{number}" for number in range(6)]
    for name in names:
        flow.task(name, handler="h", params={"text": "{{ inputs.text }}"})
    stage = Stage(flow, {"text": "x" * 100}, replace(RULES, chunk_bytes=200))
    stage.cycle()
    assert sorted(stage.statuses().values()) == ["dispatched"] * 2 + ["ready"] * 4
    stage.take_over()
    to_the_end(stage, *names)
    assert stage.job["status"] == "completed"


def test_a_successor_gathers_the_results_that_its_predecessor_owed() -> None:
    stage = fan(range(2))
    stage.cycle()
    stage.work("f")
    stage.cycle()
    assert stage.statuses() == {"f": "completed", "g": "running"}
    stage.take_over()
    stage.cycles()
    assert stage.job["status"] == "completed"
    changes = [event for event in stage.db.events[stage.job_id] if event[1] == "owner_changed"]
    assert [event[-1]["previous"] for event in changes] == ["o"]


def test_the_owner_applies_the_timeout_of_a_job_by_itself() -> None:
    stage = Stage(chain(timeout_seconds=50), rules=RULES)
    stage.cycle()
    assert stage.owner.next_deadline() == stage.job["deadline_at"]
    stage.db.now += 51
    stage.cycle()
    assert stage.job["status"] == "failed"
    assert stage.job["error"].code == "JOB_TIMEOUT"


def test_a_successor_applies_the_timeout_of_a_job_that_it_took_over() -> None:
    stage = Stage(chain(timeout_seconds=50), rules=RULES)
    stage.cycle()
    stage.take_over()
    stage.cycle()
    stage.db.now += 51
    stage.cycle()
    assert stage.job["status"] == "failed"


def doubts_clock(stage: Stage) -> bool:
    return stage.owner.doubts_clock


def test_a_deadline_is_not_delayed_when_the_clock_steps_back() -> None:
    stage = Stage(chain(timeout_seconds=50), rules=RULES)
    stage.cycle()
    stage.db.now += 61
    stage.job["deadline_at"] += 61
    stage.owner.forget([stage.job_id])
    stage.cycle()
    assert not doubts_clock(stage)
    stage.db.step_back(86_400)
    stage.cycle()
    assert doubts_clock(stage), "rows may have times in the future"
    stage.db.now += 51
    stage.cycle()
    assert stage.job["error"].code == "JOB_TIMEOUT"


def test_a_successor_bounds_a_deadline_from_before_the_clock_stepped_back() -> None:
    stage = Stage(chain(timeout_seconds=50), rules=RULES)
    stage.cycle()
    stage.db.step_back(86_400)
    finish(stage.store.follow_clock(10.0))
    stage.take_over()
    stage.cycle()
    stage.db.now += 51
    stage.cycle()
    assert stage.job["error"].code == "JOB_TIMEOUT"


def test_the_next_try_of_a_job_set_aside_is_not_delayed_when_the_clock_steps_back() -> None:
    stage = Stage(chain(), rules=RULES)
    definition = stage.db.definitions[stage.job["definition_hash"]]
    stage.db.definitions[stage.job["definition_hash"]] = b"{}"
    stage.cycles()
    assert stage.job["reason"]
    stage.db.definitions[stage.job["definition_hash"]] = definition
    stage.db.step_back(86_400)
    stage.cycle()
    stage.db.now += 6
    stage.cycle()
    stage.cycles()
    assert (stage.job["status"], stage.job["reason"]) == ("running", None)


def test_the_owner_ends_the_leases_of_a_cancelled_job_after_the_grace_period_invariant_11() -> None:
    stage = Stage(chain(), rules=RULES)
    stage.cycle()
    finish(stage.store.claim(stage.worker, None, ("h",), 9))
    signal_id = finish(stage.store.send(stage.job_id, "cancel", "ann", ""))
    stage.cycle()
    assert (stage.job["status"], stage.job["reason"]) == ("running", "stopping")
    assert stage.db.answers[signal_id] == (True, "cancelled", None)
    stage.db.now += 6
    stage.cycle()
    assert stage.job["status"] == "cancelled"
    assert not stage.db.queue


def test_a_successor_continues_the_stop_of_a_job_until_its_deadline_invariant_11() -> None:
    stage = Stage(chain(), rules=RULES)
    stage.cycle()
    finish(stage.store.claim(stage.worker, None, ("h",), 9))
    finish(stage.store.send(stage.job_id, "cancel", "ann", ""))
    stage.cycle()
    stage.take_over()
    stage.cycle()
    stage.cycle()
    assert stage.job["status"] == "cancelled"


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_an_owner_reads_its_jobs_again_after_a_commit_without_an_answer(outcome: str) -> None:
    stage = Stage(chain())
    stage.cycle()
    stage.work("a")
    outcomes = iter([outcome])
    stage.db.commit_outcome = lambda: next(outcomes, "done")
    with pytest.raises(LostRace):
        stage.cycle()
    assert stage.owner.jobs == {}
    to_the_end(stage, "b")
    assert stage.job["status"] == "completed"


def test_an_owner_counts_again_from_the_rows_when_the_database_went_back_invariant_19() -> None:
    """A standby that was promoted may lack the last commits: what the owner counted since then never happened."""
    stage = fan()
    stage.cycles()
    earlier = stage.db.rows()
    stage.work("f")
    stage.cycles()
    assert stage.owner.jobs[stage.job_id].nodes["f"].completed == 2
    stage.db.go_back_to(earlier)
    stage.cycles()
    assert stage.owner.jobs[stage.job_id].nodes["f"].completed == 0
    to_the_end(stage, "f")
    assert stage.job["result"] == {"results": [{"value": i} for i in range(5)], "count": 5}


def test_an_owner_resumes_an_ended_job_that_is_open_again_in_an_older_database_invariant_19() -> None:
    stage = Stage(chain())
    stage.cycles()
    earlier = stage.db.rows()
    to_the_end(stage, "a", "b")
    stage.db.go_back_to(earlier)
    stage.cycles()
    assert list(stage.owner.jobs) == [stage.job_id]
    to_the_end(stage, "a", "b")
    assert stage.job["status"] == "completed"


def test_a_forgotten_job_is_read_again_without_a_signal() -> None:
    stage = fan(range(2))
    stage.cycle()
    stage.work("f")
    outcomes = iter(["unknown"])
    stage.db.commit_outcome = lambda: next(outcomes, "done")
    with pytest.raises(LostRace):
        stage.cycle()
    assert not stage.db.inbox
    assert stage.owner.has_work
    stage.cycles()
    assert stage.job["status"] == "completed"


def test_an_owner_that_was_taken_over_is_fenced_and_writes_nothing_more_invariant_2() -> None:
    stage = Stage(chain())
    stage.cycle()
    old = stage.owner
    stage.take_over()
    stage.cycle()
    before = repr((stage.db.jobs, stage.db.nodes, stage.db.tasks, stage.db.events))
    with pytest.raises(Fenced):
        finish(old.run_cycle())
    assert repr((stage.db.jobs, stage.db.nodes, stage.db.tasks, stage.db.events)) == before


def test_a_signal_to_a_job_that_has_ended_meanwhile_is_answered() -> None:
    stage = Stage(chain())
    to_the_end(stage, "a", "b")
    signal_id = stage.db.send(stage.job_id, "cancel", stage.owner.orchestrator_id, actor="ann", reason="")
    stage.cycle()
    assert signal_id in stage.db.inbox, "the job has no owner any more, so the sweep must move the signal"
    finish(stage.store.sweep_inbox())
    stage.cycle()
    assert stage.db.answers[signal_id][:2] == (False, "too late, it is already completed")
    assert stage.job["owner"] is None


def test_a_cancel_reaches_tasks_that_are_queued_in_the_same_cycle_invariant_11() -> None:
    stage = Stage(chain())
    finish(stage.store.send(stage.job_id, "cancel", "ann", ""))
    stage.cycle()
    assert stage.job["status"] == "cancelled"
    assert not stage.db.queue


def test_a_critical_failure_also_cancels_tasks_of_the_same_cycle_invariant_11() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h")
    flow.task("c", handler="h", after="a")
    stage = Stage(flow)
    stage.cycle()
    stage.work("a")
    stage.work("b", outcome="failed", data={"class": "permanent", "message": "no"})
    stage.cycle()
    assert stage.statuses() == {"a": "completed", "b": "failed", "c": "cancelled"}
    assert stage.job["status"] == "failed"
    assert not stage.db.queue


def test_a_report_has_the_code_the_class_and_the_delay_of_a_failure() -> None:
    stage = Stage(chain())
    stage.cycle()
    stage.work("a", outcome="failed", data={"code": "BUSY", "message": "later", "retry_after_seconds": 99})
    stage.cycle()
    (row,) = stage.db.queue.values()
    assert (row["state"], row["due_at"], row["epoch"], row["attempt"]) == ("waiting", stage.db.now + 99, 2, 2)
    assert stage.db.tasks[stage.job_id][("a", -1)]["error"].code == "BUSY"


def test_results_that_cannot_be_aggregated_fail_the_fan_in_and_the_job() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("f", source="{{ inputs['items'] }}", handler="h")
    flow.fan_in("g", after="f", aggregation="sum")
    stage = Stage(flow, {"items": [1]})
    stage.cycle()
    queued = next(iter(stage.db.tasks[stage.job_id].values()))
    queued["params"] = "no number"
    to_the_end(stage, "f")
    assert stage.job["status"] == "failed"
    assert stage.job["error"].code == "CONTRACT_VIOLATION"


def test_a_successor_knows_how_many_items_failed_in_the_same_way() -> None:
    stage = fan()
    stage.cycles()
    stage.work("f", outcome="failed", data={"class": "permanent", "message": "no luck"})
    stage.cycles()
    before = dict(stage.owner.jobs[stage.job_id].nodes["f"].spent)
    assert list(before.values()) == [2]
    stage.take_over()
    stage.cycles()
    assert stage.owner.jobs[stage.job_id].nodes["f"].spent == before
