"""The table of transitions is complete: a transition that is not in it is a bug."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.core.states import (
    JOB_TERMINAL,
    JOB_TRANSITIONS,
    NODE_TRANSITIONS,
    TERMINAL,
    JobState,
    JobStatus,
    NodeState,
    Rules,
    Status,
    Stop,
    StopCause,
    Trigger,
    node_scope,
)
from holdfast.define.program import compile_definition
from holdfast.define.workflow import Workflow
from holdfast.errors import Bug


def job(status: JobStatus = JobStatus.PENDING) -> JobState:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    return JobState("job", compile_definition(flow.definition()), {"x": 1}, 5.0, status=status)


@pytest.mark.parametrize(("status", "trigger"), list(product(Status, Trigger)))
def test_every_pair_of_status_and_trigger_follows_the_table_or_is_a_bug(status: Status, trigger: Trigger) -> None:
    node = NodeState("n", status)
    if (status, trigger) in NODE_TRANSITIONS:
        node.move(trigger)
        assert node.status is NODE_TRANSITIONS[(status, trigger)]
    else:
        with pytest.raises(Bug, match=f"node n cannot move from {status} by '{trigger}'"):
            node.move(trigger)
        assert node.status is status


@pytest.mark.parametrize(("status", "target"), list(product(JobStatus, JobStatus)))
def test_every_pair_of_job_statuses_follows_the_table_or_is_a_bug(status: JobStatus, target: JobStatus) -> None:
    state = job(status)
    if target in JOB_TRANSITIONS[status]:
        state.move(target)
        assert state.status is target
        assert state.job_touched
    else:
        with pytest.raises(Bug, match=f"job job cannot move from {status} to {target}"):
            state.move(target)
        assert state.status is status
        assert not state.job_touched


def test_only_a_person_moves_a_node_out_of_a_terminal_status_invariant_4() -> None:
    assert {s.value for s in TERMINAL} == {"completed", "failed", "skipped", "cancelled"}
    by_a_person = {Trigger.RESTARTED, Trigger.TASK_RESET, Trigger.ITEMS_RESET, Trigger.SKIPPED, Trigger.SET}
    by_an_undo = {Trigger.UNDO_OWN, Trigger.UNDO_ITEMS, Trigger.UNDONE}
    assert {trigger for status, trigger in NODE_TRANSITIONS if status in TERMINAL} == by_a_person | by_an_undo


def test_only_a_person_moves_a_job_out_of_a_terminal_status_invariant_4() -> None:
    assert {s.value for s in JOB_TERMINAL} == {"completed", "partial", "failed", "cancelled"}
    assert all(JOB_TRANSITIONS[status] == {JobStatus.RUNNING} for status in JOB_TERMINAL), "by a person alone"


def test_a_pending_job_may_fail_without_ever_running() -> None:
    assert JobStatus.FAILED in JOB_TRANSITIONS[JobStatus.PENDING]


@pytest.mark.parametrize("status", [s for s in Status if s not in TERMINAL])
def test_every_open_status_of_a_node_has_a_way_to_its_end(status: Status) -> None:
    reached, before = {status}, set[Status]()
    while reached != before:
        before = set(reached)
        reached |= {target for (source, _), target in NODE_TRANSITIONS.items() if source in reached}
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELLED} <= reached


def test_a_stop_can_end_every_node_that_is_open() -> None:
    for status in (s for s in Status if s not in TERMINAL):
        assert NODE_TRANSITIONS[(status, Trigger.JOB_STOPPED)] is Status.CANCELLED


def test_only_a_node_whose_dependencies_hold_leaves_pending_for_work_invariant_6() -> None:
    out_of_pending = {trigger: to for (status, trigger), to in NODE_TRANSITIONS.items() if status is Status.PENDING}
    assert out_of_pending == {
        Trigger.DEPENDENCIES_HOLD: Status.READY,
        Trigger.DEPENDENCIES_ABSENT: Status.SKIPPED,
        Trigger.UPSTREAM_FAILED: Status.CANCELLED,
        Trigger.JOB_STOPPED: Status.CANCELLED,
        Trigger.SKIPPED: Status.SKIPPED,
        Trigger.SET: Status.COMPLETED,
    }


def test_every_trigger_is_used_by_the_table() -> None:
    assert {trigger for _, trigger in NODE_TRANSITIONS} == set(Trigger)


def test_open_tasks_are_the_rows_that_have_not_ended() -> None:
    node = NodeState("n", width=10, expanded=9, enqueued=8, completed=1, failed=2, skipped=1, cancelled=1)
    assert node.settled == 5
    assert node.open_tasks == 4


def test_a_new_job_has_every_node_pending_in_the_order_of_the_graph() -> None:
    state = job()
    assert list(state.nodes) == ["a", "b"]
    assert {n.status for n in state.nodes.values()} == {Status.PENDING}
    assert state.scope["nodes"] == {}


def test_templates_see_inputs_and_job_under_their_names() -> None:
    scope = job().scope
    assert scope["inputs"] == scope["input"] == {"x": 1}
    assert scope["job"] == {"id": "job", "workflow_id": "w", "version": "1", "run": 1, "generation": 1}


def test_a_loaded_job_shows_its_finished_nodes_to_templates_and_no_others() -> None:
    done = NodeState("a", Status.COMPLETED, output={"n": 1})
    state = JobState("job", job().program, {}, 5.0, nodes={"a": done, "b": NodeState("b", Status.DISPATCHED)})
    assert state.scope["nodes"] == {"a": {"output": {"n": 1}, "status": "completed"}}


@pytest.mark.parametrize("status", [Status.FAILED, Status.SKIPPED, Status.CANCELLED])
def test_only_a_completed_node_shows_an_output(status: Status) -> None:
    assert node_scope(NodeState("n", status, output="left over")) == {"output": None, "status": str(status)}
    assert node_scope(NodeState("n", Status.COMPLETED, output=1)) == {"output": 1, "status": "completed"}


def test_rank_counts_what_the_job_has_in_the_queue() -> None:
    state = job()
    state.nodes["a"] = NodeState("a", Status.RUNNING, enqueued=7, completed=2, failed=1)
    assert state.queued_now == 4
    state.nodes["b"] = NodeState("b", Status.DISPATCHED, enqueued=1)
    assert state.queued_now == 5
    state.nodes["a"].status = Status.FAILED
    assert state.queued_now == 1


def test_the_next_deadline_is_the_jobs_then_the_stops_then_none() -> None:
    state = job(JobStatus.RUNNING)
    assert state.next_deadline() is None
    state.deadline_at = 50.0
    assert state.next_deadline() == 50.0
    state.stop = Stop(StopCause.FAILED, 30.0)
    assert state.next_deadline() == 30.0
    state.stop.leases_ended = True
    assert state.next_deadline() is None


def test_a_finished_job_has_no_deadline() -> None:
    state = job(JobStatus.FAILED)
    state.deadline_at, state.stop = 50.0, Stop(StopCause.FAILED, 30.0)
    assert state.next_deadline() is None


def test_the_numbers_are_those_of_the_documentation() -> None:
    rules = Rules()
    assert (rules.lost_limit, rules.crash_limit, rules.requeue_limit) == (10, 2, 5)
    assert (rules.drain_seconds, rules.chunk_size, rules.window_size) == (600.0, 2000, 1000)
