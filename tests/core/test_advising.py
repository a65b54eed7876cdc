"""Advice: only what would be taken, and something wherever something is missing."""

from __future__ import annotations

from typing import Any

from holdfast.core.advising import Advice, candidates
from holdfast.core.plans import Plan
from holdfast.define.workflow import Workflow
from tests.core.one_job import Fails, OneJob


def advised(job: OneJob) -> list[str]:
    """The words of all that would be taken."""
    found = []
    for group in candidates(job.state):
        plans = [(one, job.plan(**one._asdict())) for one in group]
        taken = next(((one, plan) for one, plan in plans if isinstance(plan, Plan)), None)
        if taken is not None:
            found.append(Advice(*taken).words("JOB"))
    return found


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


def test_what_runs_again_what_had_completed_says_that_it_is_meant_invariant_22() -> None:
    assert advised(ended(chain(), "a")) == ["resume JOB --yes", "retry JOB a --yes"]


def test_where_what_follows_may_never_run_again_the_stage_alone_is_advised_invariant_22() -> None:
    assert advised(ended(chain(rerun={"safe": "never"}), "a")) == ["retry JOB a --only"]


def test_where_nothing_of_a_stage_can_run_again_the_job_can_go_on_without_it_invariant_22() -> None:
    flow = Workflow("w", inputs={"items": {"type": "array"}})
    flow.fan_out("each", source="{{ inputs['items'] }}", handler="h", params={"n": "{{ item.number }}"})
    flow.task("after", handler="h", after="each")
    job = ended(flow, inputs={"items": [{"number": 1}, {}]})
    assert advised(job) == ["skip JOB each --yes"]
    assert job.recover("skip", "each").applied


def test_what_a_person_has_skipped_is_not_missed() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h")
    job = ended(flow, "a")
    assert job.recover("skip", "a").applied
    assert (job.state.status, advised(job)) == ("partial", [])
