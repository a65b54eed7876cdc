"""What the core puts into the outbox: which events, for which receivers, and how many items."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.effects import Emit, Notice
from holdfast.core.notifying import MOST_ITEMS, merged, names_of, notices
from holdfast.core.states import JobState
from holdfast.define.load import load_text
from holdfast.define.notify import EVERY_TENANT, JOB_ENDS, NotifyRule, event_of
from holdfast.define.program import compile_definition


def state(notify: str = "", *, subscriptions: dict[str, frozenset[str]] | None = None, rules: Any = ()) -> JobState:
    text = f"workflow_id: w\n{notify}nodes: {{a: {{type: task, handler: h}}}}\n"
    program = compile_definition(load_text(text))
    inputs = {"owner": "ops@example.org", "number": 7}
    return JobState("j", program, inputs, 0.0, notify=rules, subscriptions=subscriptions or {})


def emitted(event: str, node: str | None = None, item: int | None = None, **data: Any) -> Emit:
    return Emit("j", 5, event, node, item, data.pop("attempt", None), data or None)


def noted(job: JobState, *events: Emit) -> list[Notice]:
    return list(notices(job, events))


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (emitted("job_failed"), ("job_failed",)),
        (emitted("janitor_acted", duty="recheck", reason="lost"), ("job_stuck",)),
        (emitted("task_failed", "a", 3), ("task_exhausted",)),
        (emitted("node_failed", "a", attempt=2), ("task_exhausted", "node_failed")),
        (emitted("node_failed", "a"), ("node_failed",)),
        (emitted("breaker_opened", breaker="api"), ("breaker_opened",)),
        (emitted("task_completed", "a", 3), ()),
    ],
)
def test_an_event_of_the_history_has_these_names_for_receivers(event: Emit, names: tuple[str, ...]) -> None:
    assert names_of(event) == names


def test_without_receivers_there_is_no_notice() -> None:
    assert not state().has_audience
    assert noted(state(), emitted("job_failed")) == []


def test_the_webhooks_of_other_tenants_are_no_audience() -> None:
    assert not state(subscriptions={"other": frozenset({"job_failed"})}).has_audience


def test_the_hooks_of_apps_are_an_audience_of_the_ends_of_every_tenant() -> None:
    job = state(subscriptions={EVERY_TENANT: frozenset(JOB_ENDS), "default": frozenset({"node_failed"})})
    assert job.has_audience
    events = emitted("job_partial"), emitted("node_failed", "a"), emitted("breaker_opened", breaker="api")
    assert [notice.event for notice in noted(job, *events)] == ["job_partial", "node_failed"]


def test_a_subscription_of_the_tenant_needs_no_rule_of_the_job() -> None:
    (notice,) = noted(state(subscriptions={"default": frozenset({"job_failed"})}), emitted("job_failed", code="X"))
    assert (notice.event, notice.rules, notice.data) == ("job_failed", [], {"code": "X"})


def test_the_address_is_made_from_the_inputs() -> None:
    job = state('notify: [{on: failed, email: "{{ inputs.owner }}"}]\n')
    assert [notice.rules for notice in noted(job, emitted("job_failed"))] == [[{"email": "ops@example.org"}]]


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (
            "{{ inputs.missing }}",
            "notify.email: inputs has no 'missing' (it has: owner, number) in {{ inputs.missing }}",
        ),
        ("{{ inputs.number }}", "notify.email gives '7', which is not an e-mail address"),
    ],
)
def test_an_address_that_cannot_be_made_says_why(template: str, problem: str) -> None:
    (notice,) = noted(state(f'notify: [{{on: failed, email: "{template}"}}]\n'), emitted("job_failed"))
    assert notice.rules == [{"email": "", "problem": problem}]


def test_rules_of_the_workflow_and_of_the_submission_name_a_receiver_once() -> None:
    rule = NotifyRule((event_of("failed"),), webhook="pager")
    job = state("notify: [{on: [failed, partial], webhook: pager}]\n", rules=(rule,))
    assert [notice.rules for notice in noted(job, emitted("job_failed"))] == [[{"webhook": "pager"}]]


def test_ranges_of_items_are_counted_and_the_first_are_listed() -> None:
    job = state("notify: [{on: task_exhausted, webhook: w}]\n")
    (notice,) = noted(job, emitted("task_failed", "a", items=[[0, 1], [5, 500]], count=498))
    assert notice.event_count == 498
    assert notice.items == [0, 1, *range(5, 5 + MOST_ITEMS - 2)]


def test_notices_of_one_cycle_become_one_with_the_first_failure() -> None:
    job = state("notify: [{on: task_exhausted, webhook: w}]\n")
    first, second = noted(job, emitted("task_failed", "a", 3, code="A"), emitted("task_failed", "a", 4, code="B"))
    both = merged(first, second._replace(seq=9))
    assert (both.event_count, both.items, both.seq, both.data) == (2, [3, 4], 9, {"code": "A"})
    full = merged(first._replace(items=[*range(MOST_ITEMS)]), second)
    assert len(full.items) == MOST_ITEMS
