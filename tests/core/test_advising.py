"""Advice: only verbs that the owner accepts, and at least one wherever something is missing."""

from __future__ import annotations

from typing import Any

from holdfast.core.advising import Advice, candidates
from holdfast.core.plans import Plan
from holdfast.define.workflow import Workflow
from holdfast.views.advice import advice_words
from tests.core.one_job import Fails, OneJob


def advised(job: OneJob) -> list[str]:
    """The commands of all verbs that the owner would accept."""
    commands = []
    for group in candidates(job.state):
        plans = [(one, job.plan(**one._asdict())) for one in group]
        accepted = next(((one, plan) for one, plan in plans if isinstance(plan, Plan)), None)
        if accepted is not None:
            commands.append(advice_words(Advice(*accepted), "JOB"))
    return commands


def ended(flow: Workflow, *bad: str, inputs: dict[str, Any] | None = None) -> OneJob:
    job = OneJob(flow, inputs)
    return job.run(lambda node, item, attempt, params: Fails(permanent=True) if node in bad else {"did": node})


def chain(**guard: Any) -> Workflow:
    flow = Workflow("w")
    flow.task("a", handler="h", importance="important")
    flow.task("b", handler="h", after_any=["a", "beside"], **guard)
    flow.task("beside", handler="h")
    return flow


def test_a_failed_stage_can_be_resumed_and_retried_invariant_22() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    flow.task("b", handler="h", after="a")
    assert advised(ended(flow, "a")) == ["resume JOB", "retry JOB a"]


def test_nothing_is_advised_for_a_job_that_completed_or_that_runs() -> None:
    assert advised(ended(chain())) == []
    job = OneJob(chain())
    job.submit()
    assert advised(job) == []


def test_advice_that_runs_completed_tasks_again_contains_yes_invariant_22() -> None:
    assert advised(ended(chain(), "a")) == ["resume JOB --yes", "retry JOB a --yes"]


def test_a_retry_of_the_stage_alone_is_advised_if_a_later_one_may_never_run_again_invariant_22() -> None:
    assert advised(ended(chain(rerun={"safe": "never"}), "a")) == ["retry JOB a --only"]


def test_a_skip_is_advised_if_nothing_of_the_stage_can_run_again_invariant_22() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item.number }}"})
    flow.task("after", handler="h", after="each")
    job = ended(flow, inputs={"items": [{"number": 1}, {}]})
    assert advised(job) == ["skip JOB each --yes"]
    assert job.recover("skip", "each").applied


def test_nothing_is_advised_for_a_node_that_a_person_has_skipped() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    job = ended(flow, "a")
    assert job.recover("skip", "a").applied
    assert (job.state.status, advised(job)) == ("partial", [])
