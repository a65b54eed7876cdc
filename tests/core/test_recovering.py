"""Recovery: what a verb keeps, what it runs again, and that it changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.plans import Action, Plan, Refusal, plan_id
from holdfast.core.signals import BreakerSeen, Outcome, PauseRequested, Request, Verb
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)
BAD = Fails("as scripted", permanent=True)


def pipeline(items: int = 6, rules: Rules = RULES) -> OneJob:
    """Split, work on each item, gather, register, report."""
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.task("split", handler="h")
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"}, after=["split"])
    flow.fan_in("all", after="each")
    flow.task("register", handler="h", params={"of": "{{ nodes.all.output.count }}"}, after=["all"])
    flow.task("notify", handler="h", after=["register"])
    job = OneJob(flow, {"items": list(range(items))}, rules)
    job.submit()
    return job


class Work:
    """A handler that notes which tasks ran, and fails for the nodes and items in `bad`."""

    def __init__(self, *bad: Any) -> None:
        self.bad = set(bad)
        self.ran: list[tuple[str, int]] = []

    def __call__(self, node: str, item: int, attempt: int, params: Any) -> Any:
        self.ran.append((node, item))
        return BAD if node in self.bad or (node, item) in self.bad else {"did": [node, item]}


def run(job: OneJob, *bad: Any) -> list[tuple[str, int]]:
    work = Work(*bad)
    job.run(work)
    return work.ran


def actions(plan: Plan | Refusal) -> dict[str, str]:
    assert isinstance(plan, Plan), plan
    return {step.node: f"{step.action} {step.items}" for step in plan.steps if step.action is not Action.KEEP}


def test_a_retry_runs_the_failed_stage_and_what_follows_and_nothing_else_invariant_4() -> None:
    job = pipeline()
    run(job, "register")
    assert job.state.status == "failed"
    assert actions(job.plan("retry", "register")) == {"register": "rerun 1", "notify": "rerun 1"}
    assert job.recover("retry", "register").applied
    assert (job.state.status, job.state.generation) == ("running", 2)
    assert job.state.recovered_at == job.now
    assert run(job) == [("register", -1), ("notify", -1)]
    assert job.state.status == "completed"
    data = job.event("job_recovered").data or {}
    assert (data["verb"], data["actor"], data["reason"], data["generation"]) == ("retry", "ann", "mended", 2)


def test_a_resume_runs_only_the_items_that_are_missing_invariant_4() -> None:
    job = pipeline(items=9)
    run(job, ("each", 2), ("each", 7))
    assert job.status_of("each") == "failed"
    assert actions(job.plan("resume"))["each"] == "rerun 2"
    assert job.recover("resume").applied
    assert run(job) == [("each", 2), ("each", 7), ("register", -1), ("notify", -1)]
    assert job.node("all").output["count"] == 9
    assert job.state.status == "completed"


def test_a_resume_continues_an_expansion_that_a_cancel_interrupted() -> None:
    job = pipeline(items=30)
    job.done("split")
    assert job.node("each").expanded < 30
    job.cancel()
    assert job.state.status == "cancelled"
    expanded = job.node("each").expanded
    assert actions(job.plan("resume"))["each"] == "rerun 30"
    assert job.recover("resume").applied
    assert len(run(job)) == 32
    assert job.state.status == "completed" and expanded < 30


def test_tasks_that_are_reset_are_queued_through_the_window() -> None:
    job = pipeline(items=20)
    run(job, *(("each", item) for item in range(20)))
    job.most_queued = 0
    assert job.recover("resume").applied
    run(job)
    assert job.most_queued <= RULES.window_size
    assert job.state.status == "completed"


def test_a_task_that_is_reset_has_whole_budgets_and_a_new_epoch_invariant_2() -> None:
    job = pipeline()
    run(job, "split")
    before = job.tasks[("split", -1)]["epoch"]
    job.recover("resume")
    task = job.tasks[("split", -1)]
    assert (task["status"], task["retries"], task["lost"], task["crashes"]) == ("ready", 0, 0, 0)
    assert task["epoch"] > before and job.queue[("split", -1)]["attempt"] == 2


def test_a_clear_runs_the_named_items_and_what_depends_on_them() -> None:
    job = pipeline()
    run(job)
    assert job.recover("clear", "each", items=(1, 4)).applied
    assert run(job) == [("each", 1), ("each", 4), ("register", -1), ("notify", -1)]
    assert job.state.status == "completed"


def test_a_clear_can_name_tasks_by_their_error() -> None:
    job = pipeline()
    run(job, ("each", 3))
    error = job.tasks[("each", 3)]["error"]
    assert isinstance(job.plan("clear", "each", code="OTHER"), Refusal)
    for named in ({"code": error.code}, {"fingerprint": error.fingerprint}):
        assert actions(job.plan("clear", "each", **named))["each"] == "rerun 1"


def test_a_clear_ends_a_live_lease_and_leaves_the_others_alone_invariant_1() -> None:
    job = pipeline(items=4)
    job.done("split")
    job.claim("each", 0)
    job.claim("each", 1)
    late = job.hand_in("each", 0)
    job.claim("each", 2)
    kept = job.queue[("each", 1)]["epoch"]
    assert job.recover("clear", "each", items=(0, 2)).applied
    assert job.queue[("each", 1)]["epoch"] == kept and job.is_leased("each", 1)
    assert not job.is_leased("each", 2)
    job.read(late)
    assert job.events[-1].event == "report_rejected"
    run(job)
    assert job.state.status == "completed"


def test_a_rerun_restarts_a_node_and_all_below_it_and_their_epochs_grow_invariant_2() -> None:
    job = pipeline()
    run(job)
    before = {key: task["epoch"] for key, task in job.tasks.items()}
    assert job.recover("rerun", "each").applied
    ran = run(job)
    assert len(ran) == 8 and ("split", -1) not in ran
    assert all(job.tasks[key]["epoch"] > epoch for key, epoch in before.items() if key[0] != "split")


def test_with_only_later_nodes_stay_and_are_stale() -> None:
    job = pipeline()
    run(job)
    assert job.recover("clear", "register", only=True).applied
    assert run(job) == [("register", -1)]
    job = pipeline()
    run(job)
    plan = job.plan("clear", "register", only=True)
    assert actions(plan) == {"register": "rerun 1", "notify": "stale 1"}


def test_a_rerun_decides_again_which_branch_is_taken() -> None:
    flow = Workflow("w")
    flow.task("ask", handler="h")
    flow.conditional("which", condition="{{ nodes.ask.output.left }}", on_true="left", on_false="right", after=["ask"])
    flow.task("left", handler="h")
    flow.task("right", handler="h")
    job = OneJob(flow)
    job.submit()
    job.done("ask", output={"left": True})
    job.done("left")
    assert job.status_of("right") == "skipped"
    job.recover("rerun", "ask")
    job.done("ask", output={"left": False})
    assert (job.status_of("left"), job.status_of("right")) == ("skipped", "dispatched")
    job.done("right")
    assert job.state.status == "completed"


def test_a_resume_of_items_whose_params_were_refused_is_refused() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item.number }}"})
    flow.task("after", handler="h", after=["each"])
    job = OneJob(flow, {"items": [{"number": 1}, {}, {"number": 3}]}, RULES)
    job.submit()
    run(job)
    assert job.state.status == "failed"
    refusal = job.plan("resume")
    assert isinstance(refusal, Refusal), refusal


@pytest.mark.parametrize(
    ("verb", "node", "reason"),
    [
        ("resume", None, "completed"), ("retry", "register", "is completed"), ("retry", "missing", "no node"),
        ("clear", "missing", "no node"), ("rerun", "missing", "no node"),
    ],
)  # fmt: skip
def test_a_verb_that_does_not_apply_is_refused_with_a_reason_and_changes_nothing(
    verb: str, node: str | None, reason: str
) -> None:
    job = pipeline()
    run(job)
    before = job.state.seq
    answer = job.recover(verb, node)
    assert not answer.applied and reason in answer.reason
    assert (job.state.seq, job.state.generation, job.state.status) == (before, 1, "completed")


def test_a_stage_that_was_never_reached_cannot_be_retried_and_the_answer_names_the_one_that_failed() -> None:
    job = pipeline()
    run(job, "split")
    answer = job.recover("retry", "register")
    assert not answer.applied
    assert "never reached" in answer.reason and "retry job split" in str(answer.remedy)


def test_a_verb_on_a_stopping_job_is_refused() -> None:
    job = pipeline(items=2)
    job.done("split")
    job.claim("each", 0)
    job.cancel()
    assert not job.state.is_terminal
    assert "stopping" in job.recover("clear", "each").reason


def test_an_outdated_plan_is_refused_and_progress_elsewhere_does_not_outdate_it_invariant_12() -> None:
    job = pipeline(items=3)
    job.done("split")
    job.done("each", 0)
    request = Request(Verb.CLEAR, "split")
    plan = job.plan("clear", "split")
    assert isinstance(plan, Plan)
    shown = plan_id("job", 1, request, plan)
    job.done("each", 1)
    assert job.recover("clear", "split", plan_id=shown).applied
    answer = job.recover("clear", "split", plan_id=shown)
    assert not answer.applied and "has changed" in answer.reason


def test_a_job_that_is_recovered_during_a_pause_has_its_whole_time_after_the_pause() -> None:
    flow = Workflow("w", timeout_seconds=60)
    flow.task("a", handler="h", next="b")
    flow.task("b", handler="h")
    job = OneJob(flow, rules=RULES)
    job.submit()
    job.done("a")
    job.now += 10
    job.send(PauseRequested(1, "ann", "", is_paused=True))
    job.now += 100
    assert job.recover("rerun", "a").applied
    job.now += 1000
    job.send(PauseRequested(2, "ann", "", is_paused=False))
    assert job.state.deadline_at == job.now + 60


def test_a_new_generation_has_a_new_deadline() -> None:
    flow = Workflow("w", timeout_seconds=60)
    flow.task("a", handler="h")
    job = OneJob(flow)
    job.submit()
    job.claim("a")
    job.pass_time(61)
    assert job.state.status == "failed"
    job.now += 1000
    assert job.recover("resume").applied
    assert job.state.deadline_at == job.now + 60
    job.done("a")
    assert job.state.status == "completed"


def test_a_second_stop_withdraws_tasks_that_wait_after_a_reset_invariant_11() -> None:
    job = pipeline(items=20)
    run(job, *(("each", item) for item in range(20)))
    job.recover("resume")
    assert job.node("each").waiting == 16
    job.cancel()
    assert job.state.status == "cancelled"
    assert job.recover("resume").applied
    run(job)
    assert job.state.status == "completed"


def test_a_task_whose_worker_is_lost_after_a_recovery_is_retried() -> None:
    job = pipeline(items=2)
    run(job, "register")
    job.recover("resume")
    job.claim("register")
    job.read(job.hand_in("register", outcome=Outcome.LOST))
    assert run(job) == [("register", -1), ("notify", -1)]
    assert job.state.status == "completed"


def test_a_fan_out_with_items_that_stay_cancelled_ends_as_cancelled_invariant_7() -> None:
    """Found by the simulation: the fan-out never ended, and the job waited forever."""
    job = pipeline(items=4)
    job.done("split")
    job.cancel()
    assert job.recover("clear", "each", items=(1,)).applied
    assert run(job) == [("each", 1)]
    assert (job.status_of("each"), job.node("each").reason) == ("cancelled", "job_cancelled")
    assert job.state.is_terminal


def test_a_cancelled_job_stays_cancelled_until_nothing_of_it_is_missing() -> None:
    job = pipeline(items=4)
    job.done("split")
    job.cancel()
    assert job.recover("clear", "each", items=(1,)).applied
    run(job)
    assert job.state.status == "cancelled"
    assert job.recover("clear", "split").applied
    run(job)
    assert job.state.status == "completed", "the clear of the first node ran all later ones"


def test_cancelled_items_keep_the_job_cancelled_although_others_fail() -> None:
    job = pipeline(items=4)
    job.done("split")
    job.cancel()
    assert job.recover("clear", "each", items=(1,)).applied
    run(job, ("each", 1))
    assert (job.status_of("each"), job.state.status) == ("failed", "cancelled")


def test_a_clear_on_a_job_that_a_failure_stopped_leaves_it_failed() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h")
    job = OneJob(flow, rules=RULES)
    job.submit()
    job.fail("a", permanent=True)
    assert job.node("b").reason == "job_stopped"
    assert job.recover("clear", "a").applied
    run(job)
    assert (job.status_of("a"), job.status_of("b"), job.state.status) == ("completed", "cancelled", "failed")


def test_the_holds_of_a_job_end_with_it() -> None:
    """Found by the simulation: a job that ended and was recovered in one cycle was released without being held."""
    flow = Workflow("w", breakers={"gateway": {}})
    flow.task("a", handler="h", breaker="gateway")
    job = OneJob(flow)
    job.submit()
    job.send(BreakerSeen("gateway", is_shut=True))
    job.cancel()
    assert job.state.is_terminal and job.state.holds == []


def test_a_skipped_node_lets_the_job_continue_and_makes_it_partial() -> None:
    job = pipeline()
    run(job, "register")
    assert actions(job.plan("skip", "register")) == {"register": "skip 1", "notify": "rerun 1"}
    assert job.recover("skip", "register").applied
    assert run(job) == [("notify", -1)]
    assert (job.state.status, job.status_of("register")) == ("partial", "skipped")


def test_a_skipped_fan_out_continues_with_its_completed_items() -> None:
    job = pipeline(items=6)
    run(job, ("each", 2), ("each", 4))
    assert job.recover("skip", "each").applied
    assert run(job) == [("register", -1), ("notify", -1)]
    assert job.node("all").output["count"] == 4
    assert (job.state.status, job.node("each").skipped) == ("partial", 2)


def test_a_result_set_by_a_person_counts_as_the_output_of_the_node() -> None:
    job = pipeline()
    run(job, "split")
    assert job.recover("set", "split", output={"by": "hand"}).applied
    assert (job.status_of("split"), job.node("split").output) == ("completed", {"by": "hand"})
    run(job)
    assert job.state.status == "completed"
    event_data = [e.data for e in job.events if e.event == "node_completed" and e.node == "split"]
    assert event_data == [{"by": "ann", "reason": "set_by_person"}]


def test_a_running_task_can_be_skipped_and_its_report_is_rejected_invariant_1() -> None:
    job = pipeline()
    job.claim("split")
    late = job.hand_in("split")
    assert job.recover("skip", "split").applied
    job.read(late)
    assert job.events[-1].event == "report_rejected"
    run(job)
    assert job.state.status == "partial"


def test_a_node_that_has_not_begun_can_be_skipped() -> None:
    job = pipeline()
    assert job.recover("skip", "register").applied
    ran = run(job)
    assert ("register", -1) not in ran and ("notify", -1) in ran
    assert job.state.status == "partial"


@pytest.mark.parametrize(
    ("verb", "node", "reason"),
    [("skip", "split", "is completed"), ("set", "split", "is completed"), ("set", "each", "for each item")],
)
def test_a_skip_or_a_set_that_does_not_apply_is_refused(verb: str, node: str, reason: str) -> None:
    job = pipeline()
    run(job, ("each", 1))
    answer = job.recover(verb, node)
    assert not answer.applied and reason in answer.reason


def test_the_error_of_a_job_names_a_node_that_stays_cancelled() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h")
    job = OneJob(flow)
    job.submit()
    job.cancel()
    assert job.recover("rerun", "a").applied
    job.done("a")
    assert job.state.status == "cancelled"
    assert job.state.error is not None and "b had been cancelled" in job.state.error.message


def test_a_paused_job_begins_nothing_new_and_continues_afterwards() -> None:
    job = pipeline(items=4)
    job.done("split")
    job.claim("each", 0)
    job.send(PauseRequested(5, "ann", "lunch", is_paused=True))
    assert [key for key, row in job.queue.items() if row["state"] != "paused"] == [("each", 0)]
    job.read(job.hand_in("each", 0))
    assert all(row["state"] == "paused" for row in job.queue.values()), (
        "tasks that are queued during the pause wait too"
    )
    job.send(PauseRequested(6, "ann", "back", is_paused=False))
    assert not any(row["state"] == "paused" for row in job.queue.values())
    assert [(a.applied, a.reason) for a in job.answers] == [(True, "paused"), (True, "released")]
    assert (job.event("job_held").data or {})["by"] == "pause"
    run(job)
    assert job.state.status == "completed"


def test_paused_time_does_not_count_for_the_jobs_timeout() -> None:
    flow = Workflow("w", timeout_seconds=60)
    flow.task("a", handler="h")
    job = OneJob(flow)
    job.submit()
    job.now += 50
    job.send(PauseRequested(5, "ann", "", is_paused=True))
    assert job.state.next_deadline() is None
    job.pass_time(1000)
    assert not job.state.is_terminal
    job.send(PauseRequested(6, "ann", "", is_paused=False))
    assert job.state.next_deadline() == job.now + 10
    job.pass_time(11)
    assert job.state.status == "failed"


def test_a_pause_that_does_not_apply_is_refused() -> None:
    job = pipeline()
    job.send(PauseRequested(5, "ann", "", is_paused=False))
    job.send(PauseRequested(6, "ann", "", is_paused=True))
    job.send(PauseRequested(7, "ben", "", is_paused=True))
    job.cancel()
    job.send(PauseRequested(8, "ann", "", is_paused=False))
    reasons = [answer.reason for answer in job.answers]
    assert reasons == [
        "it is not paused",
        "paused",
        "ann has paused it already",
        "cancelled",
        "it is already cancelled",
    ]


def test_a_skip_touches_nothing_that_failed_elsewhere() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="important")
    flow.task("b", handler="h", importance="important")
    job = OneJob(flow)
    job.submit()
    run(job, "a", "b")
    assert actions(job.plan("skip", "a")) == {"a": "skip 1"}
    assert job.recover("skip", "a").applied
    assert (job.status_of("a"), job.status_of("b"), job.queue) == ("skipped", "failed", {})


def test_a_skip_does_not_continue_a_cancelled_fan_out() -> None:
    """Found by the simulation: the cancelled fan-out ran again, and its counters were wrong."""
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.task("check", handler="h")
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"})
    job = OneJob(flow, {"items": list(range(30))}, RULES)
    job.submit()
    job.read(job.hand_in("check", fails=BAD))
    assert job.status_of("each") == "cancelled" and job.node("each").expanded < 30
    assert actions(job.plan("skip", "check")) == {"check": "skip 1"}
    assert job.recover("skip", "check").applied
    assert (job.status_of("each"), job.state.status) == ("cancelled", "failed")


def test_the_id_of_a_plan_does_not_depend_on_the_order_of_keys_in_an_output() -> None:
    job = pipeline()
    run(job, "register")
    plan = job.plan("set", "register")
    assert isinstance(plan, Plan)
    one, other = (
        Request(Verb.SET, "register", output=output)
        for output in ({"b": 1, "aa": {"d": 1, "c": 2}}, {"aa": {"c": 2, "d": 1}, "b": 1})
    )
    assert plan_id("job", 1, one, plan) == plan_id("job", 1, other, plan)


def test_a_fan_in_lists_skipped_and_failed_items_with_and_without_batches() -> None:
    batches: tuple[dict[str, Any], ...] = ({}, {"batch": {"handler": "h", "size": 2}})
    for batch in batches:
        flow = Workflow("w", inputs={"items": {"type": "array"}})
        flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", tolerate={"failures": 1})
        flow.fan_in("all", after="each", **batch)
        job = OneJob(flow, {"items": [0, 1, 2, 3]}, RULES)
        job.submit()
        run(job, ("each", 1))
        assert job.node("all").output["failed"] == [1]
        job = OneJob(flow, {"items": [0, 1, 2, 3]}, RULES)
        job.submit()
        run(job, ("each", 1), ("each", 3))
        assert job.recover("skip", "each").applied
        run(job)
        assert (job.node("all").output["skipped"], "failed" in job.node("all").output) == ([1, 3], False)


def tolerant(**report: Any) -> OneJob:
    """Four items, of which one may fail, and a report about them."""
    flow = Workflow("w")
    flow.fan_out("each", source="{{ [0, 1, 2, 3] }}", handler="h", tolerate={"failures": 1})
    flow.fan_in("all", after="each")
    flow.task("report", handler="h", after="all", **report)
    job = OneJob(flow, None, RULES)
    job.submit()
    return job


def test_a_resume_leaves_tolerated_failures_of_a_completed_node_alone() -> None:
    job = tolerant()
    run(job, ("each", 1), "report")
    assert job.state.status == "failed"
    assert actions(job.plan("resume")) == {"report": "rerun 1"}
    assert job.recover("resume").applied
    assert run(job) == [("report", -1)]
    assert (job.state.status, job.node("each").failed) == ("partial", 1)


def test_a_resume_runs_tolerated_failures_again_if_a_person_says_so() -> None:
    job = tolerant()
    run(job, ("each", 1), "report")
    assert actions(job.plan("resume", tolerated=True)) == {"each": "rerun 1", "all": "rerun 0", "report": "rerun 1"}
    assert job.recover("resume", tolerated=True).applied
    assert run(job) == [("each", 1), ("report", -1)]
    assert job.state.status == "completed"


def test_a_resume_runs_tolerated_failures_again_if_nothing_else_is_missing() -> None:
    job = tolerant()
    run(job, ("each", 1))
    assert job.state.status == "partial"
    assert actions(job.plan("resume"))["each"] == "rerun 1"
    assert job.recover("resume").applied
    run(job)
    assert job.state.status == "completed"


def test_a_resume_for_the_result_alone_leaves_tolerated_failures_alone() -> None:
    flow = Workflow("w", result="{{ nodes.each.output.missing.key }}")
    flow.fan_out("each", source="{{ [0, 1] }}", handler="h", tolerate={"failures": 1})
    job = OneJob(flow, None, RULES)
    job.submit()
    run(job, ("each", 1))
    assert job.state.status == "failed"
    plan = job.plan("resume")
    assert isinstance(plan, Plan) and plan.evaluates_result and actions(plan) == {}


def test_the_id_of_a_plan_says_whether_tolerated_failures_run_again() -> None:
    job = tolerant()
    run(job, ("each", 1))
    plan = job.plan("resume")
    assert isinstance(plan, Plan)
    assert plan_id("job", 1, Request(Verb.RESUME), plan) != plan_id(
        "job", 1, Request(Verb.RESUME, tolerated=True), plan
    )


def test_a_plan_shows_every_step_although_one_of_them_is_blocked() -> None:
    job = tolerant(rerun={"safe": "never"})
    run(job, ("each", 1))
    plan = job.shown_plan("resume")
    assert isinstance(plan, Plan)
    assert [(step.node, step.action, step.blocked) for step in plan.steps if step.action != "keep"] == [
        ("each", "rerun", None),
        ("all", "rerun", None),
        ("report", "rerun", "what report has completed may never run again"),
    ]
    assert plan.refusal is not None and plan.refusal.remedy.flags == ("--only",)
    answer = job.recover("resume")
    assert (answer.applied, answer.reason) == (False, "what report has completed may never run again")


def test_a_node_that_a_stop_had_ended_counts_as_its_cause_once_a_failure_above_it_decides() -> None:
    """Named after seed 1270: the job was failed, although nothing critical had failed by itself."""
    flow = Workflow("w", timeout_seconds=60, inputs={"all": {"type": "array"}})
    flow.fan_out(
        "each", source="{{ inputs.all }}", handler="h", params={"n": "{{ item.deep }}"}, importance="important"
    )
    flow.fan_in("all", after="each", importance="optional")
    flow.task("b", handler="h", after=["all"])
    job = OneJob(flow, {"all": [1, {"deep": 2}]})
    job.submit()
    job.claim("each", 1)
    job.pass_time(61)
    assert job.state.status == "failed" and job.node("b").reason == "job_stopped"
    assert job.recover("resume").applied, "item 0 has no params, so the fan-out fails again whatever item 1 does"
    job.run()
    assert (job.status_of("each"), job.status_of("b"), job.node("b").reason) == ("failed", "cancelled", "job_stopped")
    assert job.state.status == "partial"
