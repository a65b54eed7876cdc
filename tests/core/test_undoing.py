"""Undo: completed work is taken back once, from the end to the beginning, and the job names what is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.advance import advance
from holdfast.core.advising import candidates
from holdfast.core.effects import EnqueueWaiting, RecordAttempt, UndoTasks, WithdrawTasks
from holdfast.core.plans import Action, Plan, Refusal
from holdfast.core.signals import PauseRequested, Request, TasksWithdrawn, Verb
from holdfast.core.states import Rules
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob

RULES = Rules(chunk_size=4, window_size=4, drain_seconds=600, grace_seconds=30)
BAD = Fails("as scripted", permanent=True)
ONCE = {"max_retries": 1, "backoff": "fixed", "initial_delay_seconds": 1, "jitter": "none"}


def order(**head: Any) -> Workflow:
    """Reserve, charge, ship; in between a price, which nothing has to undo."""
    flow = Workflow("order", inputs={"amount": {"type": "integer"}}, **head)
    flow.task("reserve", handler="reserve", compensate="release")
    flow.task("price", handler="price", after=["reserve"])
    flow.task(
        "charge", handler="charge", params={"amount": "{{ inputs.amount }}"}, after=["price"],
        compensate={"handler": "refund", "queue": "money", "timeout_seconds": 5, "retry": ONCE},
    )  # fmt: skip
    flow.task("ship", handler="ship", after=["charge"], compensate="recall")
    return flow


def many(**options: Any) -> Workflow:
    """Items, batches of them, and a task behind the batches; all of them can be undone."""
    flow = Workflow("many", inputs={"items": {"type": "array"}})
    flow.fan_out(
        "each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item }}"}, compensate="undo_item",
        **options,
    )  # fmt: skip
    batch = {"handler": "h", "size": 2, "compensate": "undo_batch"}
    flow.fan_in("all", after="each", handler="h", batch=batch, compensate="undo_all")
    return flow


class Work:
    """Runs handlers, and notes them; those of nodes in `bad` fail, or with `undo NODE` what undoes them."""

    def __init__(self, job: OneJob, *bad: Any) -> None:
        self.job, self.bad = job, set(bad)
        self.ran: list[str] = []

    def __call__(self, node: str, item: int, attempt: int, params: Any) -> Any:
        task, place = self.job.tasks[(node, item)], f"[{item}]" if item >= 0 else ""
        what = f"undo {node}{place}" if task["undo"] is not None else f"{node}{place}"
        if task["undo"] is not None:
            assert task["output"] == {"did": f"{node}{place}"}, "what the task has given is there to be undone"
        self.ran.append(what)
        return BAD if what in self.bad else {"did": what}


def run(job: OneJob, *bad: Any) -> list[str]:
    work = Work(job, *bad)
    job.run(work)
    return work.ran


def done(flow: Workflow | None = None, *bad: Any, **inputs: Any) -> OneJob:
    job = OneJob(flow or order(), inputs or {"amount": 5}, RULES)
    run(job, *bad)
    return job


def steps(plan: Plan | Refusal) -> list[str]:
    assert isinstance(plan, Plan), plan
    return [f"{step.action} {step.node} {step.items}: {step.reason}" for step in plan.steps]


def test_a_plan_says_what_is_undone_in_which_order_and_what_nothing_undoes() -> None:
    job = done()
    assert steps(job.plan("undo")) == [
        "undo ship 1: by recall",
        "undo charge 1: by refund",
        "undo reserve 1: by release",
        "keep price 1: nothing undoes it: it has no compensate",
    ]
    plan = job.plan("undo")
    assert isinstance(plan, Plan) and plan.tasks == 3
    assert all(step.confirm for step in plan.steps if step.action is Action.UNDO)


def test_completed_tasks_are_undone_from_the_end_to_the_beginning_invariant_25() -> None:
    job = done()
    assert job.state.status == "completed"
    assert job.recover("undo").applied
    assert job.state.status == "running" and job.written.jobs[-1].reason == "undoing"
    assert run(job) == ["undo ship", "undo charge", "undo reserve"]
    assert job.statuses() == {"reserve": "cancelled", "price": "completed", "charge": "cancelled", "ship": "cancelled"}
    assert [job.node(name).reason for name in ("reserve", "charge", "ship")] == ["undone"] * 3
    assert (job.state.status, job.written.jobs[-1].reason) == ("cancelled", "undone")
    assert job.state.error is not None and job.state.error.code == "UNDONE"
    assert job.state.error.message == "undone by ann: mended"
    assert job.state.result is None and job.node("charge").output is None
    assert job.tasks[("charge", -1)]["output"] is None


def test_what_undoes_a_task_has_its_own_queue_time_limit_and_retries() -> None:
    job = done()
    job.recover("undo")
    job.done("ship")
    (queued,) = [one for one in job.written.waiting if one.node == "charge"]
    assert (queued.lane.queue, queued.lane.handler, queued.timeout_seconds) == ("money", "refund", 5)
    job.fail("charge", message="the bank is closed")
    assert job.status_of("charge") == "ready" and job.queue[("charge", -1)]["due_at"] == job.now + 1
    job.fail("charge", message="the bank is closed")
    assert job.status_of("charge") == "completed"


def test_a_task_that_cannot_be_undone_stays_completed_and_holds_back_what_lies_above_it() -> None:
    job = done()
    job.recover("undo")
    assert run(job, "undo charge") == ["undo ship", "undo charge"]
    assert job.statuses() == {"reserve": "completed", "price": "completed", "charge": "completed", "ship": "cancelled"}
    assert job.node("charge").output == {"did": "charge"}, "its result is what it was"
    assert job.state.status == "cancelled"
    assert job.state.error is not None and job.state.error.code == "UNDO_INCOMPLETE"
    assert job.state.error.message == ("1 task of charge could not be undone (as scripted); reserve waited for that")
    assert job.state.error.remedy is not None and job.state.error.remedy.verb == "undo"


def test_an_undo_that_failed_goes_on_where_it_was() -> None:
    job = done()
    job.recover("undo")
    run(job, "undo charge")
    assert steps(job.plan("undo"))[:2] == ["undo charge 1: by refund", "undo reserve 1: by release"]
    assert job.recover("undo").applied
    assert run(job) == ["undo charge", "undo reserve"]
    assert job.state.error is not None and job.state.error.code == "UNDONE"


def test_a_person_who_has_dealt_with_the_effects_skips_the_node_and_the_undo_goes_on() -> None:
    job = done()
    job.recover("undo")
    run(job, "undo charge")
    assert steps(job.plan("skip", "charge")) == ["skip charge 1: it counts as undone", "undo reserve 1: by release"]
    assert job.recover("skip", "charge").applied
    assert run(job) == ["undo reserve"]
    assert job.statuses()["charge"] == "cancelled" and job.tasks[("charge", -1)]["status"] == "cancelled"
    assert job.state.error is not None and job.state.error.code == "UNDONE"


def test_a_skip_of_the_last_node_that_is_left_ends_the_undo_at_once() -> None:
    job = done()
    job.recover("undo")
    run(job, "undo reserve")
    assert job.state.error is not None and job.state.error.code == "UNDO_INCOMPLETE"
    assert job.recover("skip", "reserve").applied
    assert job.state.status == "cancelled"
    assert job.state.error.code == "UNDONE"


@pytest.mark.parametrize("first", ["charge", "ship"])
def test_an_undo_from_a_node_on_leaves_what_comes_before_it(first: str) -> None:
    job = done()
    assert "keep reserve 1: it comes before" in steps(job.plan("undo", first))
    job.recover("undo", first)
    assert run(job) == ["undo ship", "undo charge"][: 1 if first == "ship" else 2]
    assert job.status_of("reserve") == "completed" and job.state.status == "cancelled"


def test_a_resume_runs_again_what_was_undone_and_what_had_read_it() -> None:
    job = done()
    job.recover("undo")
    run(job)
    assert job.recover("resume").applied
    assert run(job) == ["reserve", "price", "charge", "ship"]
    assert job.state.status == "completed" and job.state.result == {"did": "ship"}


def test_a_resume_after_a_failed_undo_keeps_what_was_not_undone() -> None:
    job = done()
    job.recover("undo")
    run(job, "undo charge")
    job.recover("resume")
    assert run(job) == ["ship"], "the customer is still charged"
    assert job.state.status == "completed" and job.state.undo is None


def test_a_resume_after_an_undo_that_took_nothing_back_completes_the_job_with_nothing_run() -> None:
    job = done()
    job.recover("undo")
    run(job, "undo ship")
    assert job.state.status == "cancelled" and set(job.statuses().values()) == {"completed"}
    plan = job.plan("resume")
    assert isinstance(plan, Plan) and plan.tasks == 0 and plan.evaluates_result
    assert job.recover("resume").applied
    assert job.state.status == "completed" and job.state.result == {"did": "ship"}


def test_a_task_that_ran_again_can_be_undone_again_invariant_25() -> None:
    job = done()
    for _ in range(3):
        job.recover("undo")
        assert run(job) == ["undo ship", "undo charge", "undo reserve"]
        job.recover("resume")
        run(job)
    assert job.state.status == "completed"


def test_a_retry_of_an_undone_node_waits_for_what_comes_before_it() -> None:
    job = done()
    job.recover("undo")
    run(job)
    refusal = job.plan("retry", "ship")
    assert isinstance(refusal, Refusal) and refusal.reason == "charge was undone, and ship needs its result"
    assert (refusal.remedy.verb, refusal.remedy.job) == ("resume", job.state.job_id)
    assert job.recover("retry", "reserve").applied
    assert run(job) == ["reserve", "price", "charge", "ship"]
    assert job.state.status == "completed"


def test_an_undone_job_has_nothing_left_to_undo() -> None:
    job = done()
    job.recover("undo")
    run(job)
    refusal = job.plan("undo")
    assert isinstance(refusal, Refusal) and refusal.reason == "all that can be undone is undone already"
    refusal = job.plan("undo", "charge")
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "all that can be undone from charge on is undone already"


def test_a_job_without_compensations_says_so() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    job = done(flow)
    refusal = job.plan("undo")
    assert isinstance(refusal, Refusal) and refusal.reason == "nothing that has completed has a compensate"


def test_only_a_job_that_has_ended_can_be_undone() -> None:
    job = OneJob(order(), {"amount": 5}, RULES)
    job.submit()
    refusal = job.plan("undo")
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "it is running, and only a job that has ended can be undone"
    assert refusal.remedy.verb == "cancel"


def test_an_unknown_node_is_refused_with_the_names_of_those_that_there_are() -> None:
    refusal = done().plan("undo", "chrage")
    assert isinstance(refusal, Refusal) and refusal.is_unknown and "charge" in str(refusal.remedy)


@pytest.mark.parametrize(("verb", "node"), [("resume", None), ("retry", "ship"), ("rerun", "ship"), ("undo", None)])
def test_a_job_that_is_being_undone_takes_no_other_verb(verb: str, node: str | None) -> None:
    job = done()
    job.recover("undo")
    answer = job.recover(verb, node)
    assert not answer.applied and answer.reason == "what it has done is being undone"
    assert run(job) == ["undo ship", "undo charge", "undo reserve"]


def test_what_failed_is_not_undone_but_named_as_something_to_look_at() -> None:
    job = done(order(), "ship")
    assert job.state.status == "failed"
    assert "keep ship 1: failed, and may have effects: look by hand" in steps(job.plan("undo"))
    job.recover("undo")
    assert run(job) == ["undo charge", "undo reserve"]
    assert job.status_of("ship") == "failed" and job.state.status == "cancelled"


def test_items_are_undone_side_by_side_and_batches_after_what_runs_behind_them() -> None:
    job = done(many(), items=[1, 2, 3, 4, 5])
    assert steps(job.plan("undo")) == [
        "undo all 1: by undo_all",
        "undo all 3: by undo_batch",
        "undo each 5: by undo_item",
    ]
    job.recover("undo")
    assert len(job.queue) == 1
    ran = run(job)
    assert ran[0] == "undo all"
    assert sorted(ran[1:4]) == [f"undo all[{n}]" for n in range(3)]
    assert sorted(ran[4:]) == [f"undo each[{n}]" for n in range(5)]
    assert job.statuses() == {"each": "cancelled", "all": "cancelled"}
    assert job.node("each").cancelled == 5 and job.node("all").cancelled == 4
    job.recover("resume")
    assert len(run(job)) == 5 + 3 + 1
    assert job.state.status == "completed"


def test_a_window_limits_how_many_items_wait_to_be_undone_at_once() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", compensate="undo_item")
    job = done(flow, items=list(range(20)))
    job.recover("undo")
    assert len(job.queue) == RULES.window_size and job.node("each").waiting == 16
    assert len(run(job)) == 20


def test_of_a_fan_out_only_the_items_are_left_that_could_not_be_undone() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", compensate="undo_item")
    job = done(flow, items=[1, 2, 3])
    job.recover("undo")
    run(job, "undo each[1]")
    node = job.node("each")
    assert (str(node.status), node.reason, node.completed, node.cancelled) == ("cancelled", "undone", 1, 2)
    assert node.undo is not None and (node.undo.undone, node.undo.failed) == (2, 1)
    assert job.tasks[("each", 1)]["status"] == "completed"
    assert job.tasks[("each", 1)]["undo"]["error"].message == "as scripted"
    assert steps(job.plan("undo")) == ["undo each 1: by undo_item"]
    job.recover("resume")
    assert sorted(run(job)) == ["each[0]", "each[2]"], "what was not undone is kept"


def test_of_a_fan_out_that_failed_the_completed_items_are_undone_and_it_stays_failed() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", compensate="undo_item")
    job = done(flow, "each[1]", items=[1, 2, 3])
    assert job.state.status == "failed"
    job.recover("undo")
    assert sorted(run(job)) == ["undo each[0]", "undo each[2]"]
    node = job.node("each")
    assert (str(node.status), node.failed, node.cancelled) == ("failed", 1, 2)
    job.recover("resume")
    assert sorted(run(job)) == ["each[0]", "each[1]", "each[2]"]
    assert job.state.status == "completed"


def test_a_cancel_ends_an_undo_and_what_was_not_undone_stays_completed() -> None:
    job = done()
    job.recover("undo")
    job.done("ship")
    job.cancel()
    assert job.state.status == "cancelled" and job.answers[-1].applied
    assert job.statuses() == {"reserve": "completed", "price": "completed", "charge": "completed", "ship": "cancelled"}
    assert job.state.error is not None and job.state.error.code == "UNDO_INCOMPLETE"
    assert job.node("charge").output == {"did": "charge"}
    job.recover("undo")
    assert run(job) == ["undo charge", "undo reserve"]


def test_an_undo_that_runs_while_a_person_cancels_has_the_grace_period_and_counts() -> None:
    job = done()
    job.recover("undo")
    job.claim("ship")
    job.cancel()
    assert job.state.status == "running" and job.answers[-1].applied, "charge and reserve stay as they are"
    job.done("ship")
    assert job.statuses()["ship"] == "cancelled" and job.state.status == "cancelled"


def test_a_pause_holds_an_undo_back() -> None:
    job = done()
    job.recover("undo")
    job.send(PauseRequested(3, "ann", "", is_paused=True))
    assert {row["state"] for row in job.queue.values()} == {"paused"}
    job.send(PauseRequested(4, "ann", "", is_paused=False))
    assert run(job) == ["undo ship", "undo charge", "undo reserve"]


def test_the_deadline_of_a_job_rests_while_it_is_undone() -> None:
    job = done(order(timeout_seconds=10))
    job.recover("undo")
    assert job.state.deadline_at is None
    job.pass_time(100)
    assert run(job) == ["undo ship", "undo charge", "undo reserve"]
    job.recover("resume")
    assert job.state.deadline_at == job.now + 10


def test_a_failed_job_undoes_itself_if_its_workflow_says_so() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    assert run(job, "ship") == ["reserve", "price", "charge", "ship", "undo charge", "undo reserve"]
    assert (job.state.status, job.written.jobs[-1].reason) == ("failed", "undone")
    assert job.state.error is not None and job.state.error.message == "as scripted", "why it failed stays its error"
    recovered = job.event("job_recovered")
    assert recovered.data is not None
    assert (recovered.data["verb"], recovered.data["actor"]) == ("undo", "on_failure: compensate")
    job.recover("resume")
    assert run(job) == ["reserve", "price", "charge", "ship"]
    assert job.state.status == "completed"


def test_a_job_that_times_out_undoes_itself_if_its_workflow_says_so() -> None:
    job = OneJob(order(on_failure="compensate", timeout_seconds=10), {"amount": 5}, RULES)
    job.submit()
    job.done("reserve", output={"did": "reserve"})
    job.pass_time(20)
    assert job.state.status == "running" and job.written.jobs[-1].reason == "undoing"
    assert run(job) == ["undo reserve"]
    assert job.state.status == "failed" and job.state.error is not None and job.state.error.code == "JOB_TIMEOUT"


def test_an_undo_after_a_failure_that_fails_says_both() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    run(job, "ship", "undo charge")
    assert job.state.status == "failed"
    assert job.state.error is not None and job.state.error.code == "UNDO_INCOMPLETE"
    assert job.state.error.message.endswith("reserve waited for that; the job had failed: as scripted")


def test_a_person_who_accepts_what_is_left_after_a_failure_leaves_the_job_with_the_error_it_had() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    run(job, "ship", "undo charge")
    assert job.recover("skip", "charge").applied
    run(job, "undo reserve")
    assert job.state.error is not None and job.state.error.message.endswith("the job had failed: as scripted")
    assert job.recover("skip", "reserve").applied
    assert job.state.status == "failed"
    assert job.state.error.message == "as scripted"


def test_an_undo_from_a_node_on_that_failed_is_advised_from_that_node_on() -> None:
    job = done()
    job.recover("undo", "charge")
    run(job, "undo charge")
    assert job.state.error is not None and job.state.error.remedy is not None
    assert job.state.error.remedy.flags == ("--from", "charge")
    assert candidates(job.state)[0] == (Request(Verb.UNDO, "charge"),)
    assert job.recover("undo", "charge").applied
    assert run(job) == ["undo charge"] and job.status_of("reserve") == "completed"


def test_a_node_that_has_run_no_handler_is_said_to_have_nothing_to_undo() -> None:
    flow = Workflow("w")
    flow.fan_out("each", source="{{ [1, 2] }}", handler="h", params={"n": "{{ item }}"}, compensate="undo_item")
    flow.fan_in("all", after="each")
    job = done(flow)
    assert steps(job.plan("undo")) == [
        "undo each 2: by undo_item",
        "keep all 0: it has no completed task",
    ]


def test_a_cancelled_or_partial_job_never_undoes_itself() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    job.submit()
    job.done("reserve", output={"did": "reserve"})
    job.cancel()
    assert job.state.status == "cancelled" and job.status_of("reserve") == "completed"
    flow = order(on_failure="compensate")
    flow.task("mail", handler="h", after=["ship"], importance="important")
    other = done(flow, "mail")
    assert other.state.status == "partial" and other.status_of("ship") == "completed"


def test_a_failed_job_that_has_nothing_to_undo_just_fails() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    run(job, "reserve")
    assert job.state.status == "failed" and job.state.undo is None


def test_an_undo_never_begins_before_what_a_stop_takes_out_of_the_queue_is_gone() -> None:
    """A branch fails for good and stops the job, and the report of the other branch is read in the same cycle."""
    flow = Workflow("w", on_failure="compensate")
    flow.task("a", handler="h", compensate="undo_a")
    flow.task("left", handler="h", after=["a"])
    flow.task("right", handler="h", after=["a"])
    job = OneJob(flow, {}, RULES)
    job.submit()
    job.done("a", output={"did": "a"})
    reports = [job.hand_in(node, fails=BAD)._replace(task=job.task_view(node, -1)) for node in ("left", "right")]
    effects = [effect for report in reports for effect in advance(job.state, report, job.now)]
    assert [effect for effect in effects if isinstance(effect, WithdrawTasks)]
    assert not [effect for effect in effects if isinstance(effect, UndoTasks)]
    assert not job.state.is_terminal
    answer = advance(job.state, TasksWithdrawn({}), job.now)
    assert [effect for effect in answer if isinstance(effect, UndoTasks)]


def test_a_worker_that_dies_while_it_undoes_spends_the_budgets_of_deaths() -> None:
    job = done()
    job.recover("undo")
    for _ in range(2):
        job.lose("ship", alone=True, message="it killed its worker")
    assert job.status_of("ship") == "completed"
    assert job.state.error is not None and "it has crashed 2 times" in job.state.error.message


def test_an_undo_that_vanishes_from_the_queue_is_queued_again() -> None:
    job = done()
    job.recover("undo")
    job.db.queue.clear()
    effects = job.doubt()
    assert not any(isinstance(effect, UndoTasks | EnqueueWaiting) for effect in effects)
    assert run(job) == ["undo ship", "undo charge", "undo reserve"]


def test_a_doubt_about_a_job_that_is_being_undone_changes_nothing() -> None:
    job = done(many(), items=[1, 2, 3])
    job.recover("undo")
    for _ in range(6):
        job.doubt()
        job.run_attempt(Work(job))
    assert [event for event in job.event_names() if event == "janitor_acted"] == []


def test_an_attempt_that_undoes_can_be_recognised_in_the_history() -> None:
    job = done()
    job.recover("undo")
    effects = job.done("ship")
    (attempt,) = [effect for effect in effects if isinstance(effect, RecordAttempt)]
    assert attempt.extra == {"compensates": "recall"}


def only(*names: str) -> Workflow:
    """The order, but with these steps alone."""
    flow = Workflow("order", inputs={"amount": {"type": "integer"}})
    above: list[str] = []
    for name, handler in (("reserve", "release"), ("price", None), ("charge", "refund"), ("ship", "recall")):
        if name in names:
            params = {"amount": "{{ inputs.amount }}"} if name == "charge" else {}
            flow.task(name, handler=name, params=params, after=above, compensate=handler)
            above = [name]
    return flow


def test_a_node_that_a_correction_removed_after_it_had_run_is_named_by_the_undo() -> None:
    job, without = done(), only("reserve", "ship")
    corrected, _ = job.plan_correction(flow=without, stale="rerun")
    (gone,) = [step for step in steps(corrected) if step.startswith("gone charge")]
    assert gone.endswith("what it has done stays done, unless the job is undone first")
    job.correct(flow=without, stale="rerun")
    run(job)
    assert steps(job.plan("undo"))[-2:] == [
        f"keep {name} None: the workflow no longer has it; what it had done may have effects: look by hand"
        for name in ("price", "charge")
    ]
    job.recover("undo")
    assert run(job) == ["undo ship", "undo reserve"]
    assert job.state.undo is not None and list(job.state.undo.by_hand) == ["price", "charge"]


def test_a_removed_node_that_comes_back_runs_and_is_undone_as_any_other() -> None:
    job = done()
    job.correct(flow=only("reserve"), stale="rerun")
    run(job)
    job.correct(flow=order(), stale="rerun")
    assert run(job) == ["price", "charge", "ship"]
    plan = steps(job.plan("undo"))
    assert plan[:3] == ["undo ship 1: by recall", "undo charge 1: by refund", "undo reserve 1: by release"]
    assert not any("by hand" in step for step in plan)


def test_a_node_that_was_undone_before_it_was_removed_is_not_named() -> None:
    job = done()
    job.recover("undo", "ship")
    run(job)
    job.correct(flow=only("reserve", "price", "charge"))
    run(job)
    assert not any("by hand" in step for step in steps(job.plan("undo")))


def test_an_undo_names_what_a_cancel_had_ended_because_it_may_have_begun() -> None:
    job = OneJob(order(), {"amount": 5}, RULES)
    job.submit()
    job.done("reserve", output={"did": "reserve"})
    job.done("price")
    job.claim("charge")
    job.cancel()
    job.pass_time(RULES.grace_seconds + 1)
    assert job.state.status == "cancelled"
    kept = [step for step in steps(job.plan("undo")) if step.startswith("keep charge")]
    assert kept == ["keep charge 1: cancelled; what of it had begun may have effects: look by hand"]
    job.recover("undo")
    assert run(job) == ["undo reserve"]
    assert job.state.undo is not None and list(job.state.undo.by_hand) == ["charge"]
    data = job.event("job_recovered").data
    assert data is not None and data["by_hand"] == job.state.undo.by_hand


def test_what_an_earlier_undo_took_back_is_not_named_as_cancelled() -> None:
    job = done(many(), items=[1, 2, 3])
    for _ in range(2):
        job.recover("undo")
        run(job, "undo each[1]")
        plan = steps(job.plan("undo"))
        assert not any("by hand" in step for step in plan), plan


def test_a_job_that_undoes_itself_says_at_which_nodes_a_person_must_look() -> None:
    job = OneJob(order(on_failure="compensate"), {"amount": 5}, RULES)
    run(job, "ship")
    assert job.state.undo is not None and job.state.undo.cause == "failure"
    assert job.state.undo.by_hand == {"ship": "failed, and may have effects: look by hand"}
