"""The defaults of an installation, as pure data: what they fill in, and what they never change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.define.changes import differences
from holdfast.define.defaults import BUILT_IN, Defaults, defaults_of, with_defaults
from holdfast.define.definition import Definition
from holdfast.define.gates import BreakerRules
from holdfast.define.load import load_text
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.errors import InvalidInput

EVERYTHING: dict[str, Any] = {
    "retry.max_retries": 5,
    "retry.backoff": "linear",
    "retry.initial_delay_seconds": 2,
    "retry.max_delay_seconds": 60,
    "retry.jitter": "none",
    "breaker.window_calls": 40,
    "breaker.window_seconds": 90,
    "breaker.failure_share": 0.2,
    "breaker.min_calls": 12,
    "breaker.cooldown_seconds": 60,
    "breaker.probes": 2,
    "timeout_minutes": 240,
}


def load(text: str) -> Definition:
    return load_text(f"workflow_id: w\n{text}")


def filled(text: str, **values: Any) -> Definition:
    return with_defaults(load(text), defaults_of({name.replace("__", "."): value for name, value in values.items()}))


def retry_of(definition: Definition, node: str = "a") -> Retry:
    task = definition.node(node).task
    assert task is not None
    return task.retry


def test_each_default_fills_in_what_the_workflow_does_not_say() -> None:
    assert EVERYTHING.keys() == BUILT_IN.keys()
    text = """
breakers: {crm: {}}
nodes:
  a: {type: fan_out, source: "{{ inputs.items }}", task: {handler: x, breaker: crm}}
  b: {type: fan_in, depends_on: [a], handler: x, batch: {handler: x}}
"""
    definition = with_defaults(load(text), defaults_of(EVERYTHING))
    retry = Retry(5, Backoff.LINEAR, 2.0, 60.0, Jitter.NONE)
    assert [task.retry for node in definition.nodes for task in node.tasks] == [retry, retry, retry]
    assert definition.breakers == (BreakerRules("crm", 40, 90.0, 0.2, 12, None, 60.0, 2),)
    assert definition.timeout_seconds == 240 * 60


def test_what_the_file_says_wins_even_if_it_says_the_built_in_value() -> None:
    text = """
timeout_minutes: 1
retry: {max_retries: 3, jitter: full}
breakers: {crm: {window_calls: 20, window_seconds: 5, failure_share: 0.5, min_calls: 10, cooldown_seconds: 30}}
nodes:
  a: {handler: x, retry: {backoff: exponential, initial_delay_seconds: 1}}
  b: {handler: x}
"""
    definition = with_defaults(load(text), defaults_of(EVERYTHING))
    assert retry_of(definition) == Retry(3, Backoff.EXPONENTIAL, 1.0, 60.0, Jitter.FULL)
    assert retry_of(definition, "b") == Retry(3, Backoff.LINEAR, 2.0, 60.0, Jitter.FULL)
    assert definition.breakers == (BreakerRules("crm", 20, 5.0, 0.5, 10, None, 30.0, 2),)
    assert definition.timeout_seconds == 60
    assert not definition.timeout_is_default


def test_a_default_adapts_to_the_file_and_never_contradicts_it() -> None:
    short = filled("nodes: {a: {handler: x, retry: {max_delay_seconds: 1}}}", retry__initial_delay_seconds=9)
    assert retry_of(short).initial_delay_seconds == 1
    long = filled("nodes: {a: {handler: x, retry: {initial_delay_seconds: 90}}}", retry__max_delay_seconds=60)
    assert retry_of(long).max_delay_seconds == 90
    schedule = with_defaults(load("nodes: {a: {handler: x, retry: {schedule: [1, 70]}}}"), defaults_of(EVERYTHING))
    assert retry_of(schedule) == Retry(2, Backoff.SCHEDULE, 2.0, 70.0, Jitter.NONE, (1.0, 70.0))
    few = filled("breakers: {crm: {min_calls: 15}}\nnodes: {a: {handler: x}}", breaker__window_calls=5)
    assert few.breakers[0].window_calls == few.breakers[0].min_calls == 15
    # The built-in values count where the file differs from what the installation's own values led to.
    many = filled("breakers: {crm: {window_calls: 50}}\nnodes: {a: {handler: x}}", breaker__window_calls=5)
    assert many.breakers[0].min_calls == 10
    slow = filled("nodes: {a: {handler: x, retry: {max_delay_seconds: 90}}}", retry__max_delay_seconds=0.5)
    assert retry_of(slow).initial_delay_seconds == 1


def test_other_defaults_replace_the_ones_before_also_after_storing() -> None:
    text = "breakers: {crm: {probes: 1}}\nnodes: {a: {handler: x, retry: {max_retries: 3}}}"
    written = load(text)
    once = Definition.from_json(with_defaults(written, defaults_of(EVERYTHING)).to_json())
    assert with_defaults(once, defaults_of(EVERYTHING)).hash() == once.hash() != written.hash()
    again = with_defaults(once, defaults_of({"retry.backoff": "fixed", "breaker.cooldown_seconds": 5}))
    assert retry_of(again) == Retry(3, Backoff.FIXED)
    assert again.breakers == (BreakerRules("crm", cooldown_seconds=5.0),)
    assert again.timeout_seconds is None
    assert with_defaults(once, Defaults()).hash() == written.hash()


def test_defaults_are_no_change_of_the_behaviour() -> None:
    text = "breakers: {crm: {}}\nnodes: {a: {handler: x, breaker: crm}}"
    written, resolved = load(text), with_defaults(load(text), defaults_of(EVERYTHING))
    assert differences(written, resolved) == differences(resolved, written) == []
    assert differences(written, load(text.replace("handler: x", "handler: x, retry: {max_retries: 3}"))) == []
    changed = load(text.replace("handler: x", "handler: x, retry: {max_retries: 5}"))
    assert differences(resolved, with_defaults(changed, defaults_of(EVERYTHING))) == ["node a differs in retry"]
    timed = load(f"timeout_minutes: 240\n{text}")
    assert differences(resolved, timed) == ["timeout_seconds differs"]


def test_a_definition_of_an_older_version_keeps_its_hash_and_its_own_values() -> None:
    stored = load("nodes: {a: {handler: x, retry: {max_retries: 7}}}").to_json()
    assert "stated" not in str(stored)
    read = Definition.from_json(stored)
    assert read.to_json() == stored
    assert retry_of(with_defaults(read, defaults_of(EVERYTHING))) == replace(
        Retry(5, Backoff.LINEAR, 2.0, 60.0, Jitter.NONE), max_retries=7
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"retry.max_retrys": 5}, "There is no default 'retry.max_retrys'. Did you mean 'retry.max_retries'?"),
        ({"retry.schedule": [1]}, "There is no default 'retry.schedule'."),
        ({"retry.max_retries": "five"}, "'max_retries' must be a whole number"),
        ({"retry.max_retries": -1}, "'max_retries' must be at least 0"),
        ({"retry.backoff": "fast"}, "'backoff' must be one of fixed"),
        ({"retry.backoff": "schedule"}, "The backoff 'schedule' needs the key 'schedule'"),
        ({"retry.initial_delay_seconds": 9, "retry.max_delay_seconds": 8}, "is greater than 'max_delay_seconds'"),
        ({"breaker.min_calls": 30}, "'min_calls' is greater than 'window_calls'"),
        ({"breaker.failure_share": 2}, "'failure_share' must be"),
        ({"timeout_minutes": 0}, "'timeout_minutes' must be"),
        ({"timeout_minutes": None}, "'timeout_minutes' has no value"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        defaults_of(values)
    assert said in " ".join(str(problem) for problem in refused.value.errors)
    assert {problem.path for problem in refused.value.errors} <= values.keys()
    assert refused.value.errors


def test_all_bad_values_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as refused:
        defaults_of({"retry.max_retries": "five", "breaker.probes": 0, "timeout_minutes": "long"})
    assert [problem.path for problem in refused.value.errors] == [
        "retry.max_retries",
        "breaker.probes",
        "timeout_minutes",
    ]
