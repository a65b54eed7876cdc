"""Warnings: what has no effect in a valid file. For each, one file that has it and a similar one that has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Context, handler
from holdfast.define.handler_traps import handler_traps
from holdfast.define.known import Known
from holdfast.define.load import check_read, read_text
from holdfast.define.program import compile_definition
from holdfast.define.registry import ATTRIBUTE, Registry
from holdfast.define.traps import traps
from holdfast.define.workflow_file import check_workflow


@handler("plain", queue="heavy", timeout_seconds=10)
def plain(x: int = 0) -> None: ...


@handler("with_context")
def with_context(ctx: Context) -> None: ...


REGISTRY = Registry(getattr(one, ATTRIBUTE) for one in (plain, with_context))
FAN_OUT = "type: fan_out, task: {handler: x}"


def warnings(text: str) -> list[str]:
    source, problems = read_text(text, "w.yaml")
    definition, problems = check_read(source, problems)
    assert problems == [] and definition is not None and source is not None
    program = compile_definition(definition)
    found = traps(program, source) + handler_traps(program, Known.of(REGISTRY).signatures, source)
    return [f"{one.line}:{one.column}: {one.message}" for one in found if one.suggestion]


def node(text: str, head: str = "") -> list[str]:
    return warnings(f"workflow_id: w\n{head}nodes:\n  a: {{{text}}}\n")


def of_fan_out(tolerate: str, source: str = "{{ [1, 2, 3] }}", more: str = "", head: str = "") -> list[str]:
    return node(f"{FAN_OUT}, source: '{source}', tolerate: {{{tolerate}}}{more}", head)


def test_a_share_that_is_less_than_one_item_is_a_trap() -> None:
    assert of_fan_out("failures: 10%") == [
        "3:90: 10% of at most 3 items is less than one item: no failure is tolerated."
    ]
    assert "10% of at most 1 item is" in of_fan_out("failures: 10%", "{{ [1] }}")[0]
    bounded = "inputs: {x: {type: array, max_length: 9}, y: {type: array}}\n"
    assert "10% of at most 9 items" in of_fan_out("failures: 10%", "{{ inputs.x }}", head=bounded)[0]
    for silent in (
        of_fan_out("failures: 34%"),
        of_fan_out("failures: 1"),
        of_fan_out("failures: 0%"),
        of_fan_out("failures: 10%", "{{ inputs.y }}", head=bounded),
        of_fan_out("failures: 10%", "{{ inputs.x + inputs.x }}", head=bounded),
        of_fan_out("failures: 10%", "{{ [] }}"),
        of_fan_out("failures: 10%", "{{ 1 / 0 }}"),
    ):
        assert silent == []


def test_a_tolerance_that_changes_nothing_is_a_trap() -> None:
    optional = ", importance: optional"
    assert "'tolerate' has no effect on how the job ends" in of_fan_out("failures: 1", more=optional)[0]
    assert "'counts_as' has no effect on how" in of_fan_out("failures: 1, counts_as: completed", more=optional)[0]
    assert "no failure is tolerated" in of_fan_out("failures: 0, counts_as: completed")[0]
    assert of_fan_out("failures: 1, counts_as: completed") == []
    # It decides here which items still run, and there what the output is.
    assert of_fan_out("failures: 1", more=optional + ", on_item_failure: stop") == []
    reader = f"  a: {{{FAN_OUT}, source: '{{{{ [1] }}}}', tolerate: {{failures: 1}}{optional}, next: b}}\n"
    for template in ("{{ nodes.a.output }}", "{{ upstream.output }}", "{{ nodes }}"):
        assert warnings(f"workflow_id: w\nnodes:\n{reader}  b: {{handler: x, params: {{v: '{template}'}}}}\n") == []


def test_a_node_that_is_called_critical_but_waits_for_an_important_one_is_a_trap() -> None:
    chain = (
        "workflow_id: w\nnodes:\n  a: {handler: x, importance: %s, next: b}\n  b: {handler: x, next: c}\n  c: {%s}\n"
    )
    critical = "handler: x, importance: critical"
    [found] = warnings(chain % ("important", critical))
    assert found == (
        "5:31: The node 'c' is critical, but it waits for 'a', which is important: if 'a' fails, 'c' does not run, and "
        "the job ends partial, not failed."
    )
    assert warnings(chain % ("important", "handler: x")) == []
    assert warnings(chain % ("optional", critical)) == []
    either = "workflow_id: w\nnodes:\n  a: {handler: x, importance: important}\n  b: {handler: x}\n"
    assert warnings(f"{either}  c: {{{critical}, depends_on: {{any_of: [a, b]}}}}\n") == []


def test_settings_of_retries_that_never_happen_are_a_trap() -> None:
    assert node("handler: x, retry: {max_retries: 0, retry_on: [TIMEOUT]}") == [
        "3:43: 'retry_on' has no effect: with 'max_retries: 0' nothing is tried again."
    ]
    assert node("handler: x, retry: {max_retries: 0}") == []
    assert node("handler: x, retry: {max_retries: 1, retry_on: [TIMEOUT]}") == []
    head = "retry: {max_retries: 0, backoff: fixed}\n"
    assert "'backoff' has no effect" in node("handler: x", head)[0]
    assert node("handler: x, retry: {max_retries: 2}", head) == []
    assert "'jitter' has no effect" in node("handler: x, retry: {jitter: none}", "retry: {max_retries: 0}\n")[0]


def test_a_timeout_longer_than_that_of_the_job_is_a_trap() -> None:
    head = "timeout_minutes: 10\n"
    assert node("handler: x, timeout_seconds: 601", head) == [
        "4:36: 'timeout_seconds' of 601 s has no effect: the job's timeout of 600 s ends first."
    ]
    assert node("handler: x, timeout_seconds: 600", head) == []
    # The default of an hour is not the author's.
    assert node("handler: x", head) == []


ONLY_AB = "inputs: {m: {enum: [a, b, c]}, n: {type: integer, minimum: 0}, f: {type: boolean}}\n"


@pytest.mark.parametrize(
    ("conditional", "value"),
    [
        ("condition: '{{ inputs.m }}', branches: {a: x, b: y}", '"c"'),
        ("condition: '{{ inputs.m }}', branches: {a: x, b: y, c: x}", None),
        ("condition: '{{ inputs.m }}', branches: {a: x, default: y}", None),
        ("condition: '{{ inputs.f }}', branches: {'true': x}", "false"),
        ("condition: '{{ inputs.f }}', branches: {'true': x, 'false': y}", None),
        (
            "condition_field: '{{ inputs.n }}', branches: [{condition: '< 5', next: x}, {condition: '> 5', next: y}]",
            "5",
        ),
        (
            "condition_field: '{{ inputs.n }}', branches: [{condition: '< 5', next: x}, {condition: '>= 5', next: y}]",
            None,
        ),
        (
            "condition_field: '{{ inputs.n }}', branches: [{condition: '<= 4', next: x}, {condition: '>= 5', next: y}]",
            None,
        ),
        (
            "condition_field: '{{ inputs.n }}', branches: [{condition: '== 0', next: x}, {condition: '> 0', next: y}]",
            None,
        ),
        ("condition_field: '{{ job.id }}', branches: [{condition: ready, next: x}, {condition: late, next: y}]", None),
        ("branches: [{condition: '{{ inputs.n }} > 5', next: x}, {condition: '{{ inputs.m }} == 1', next: y}]", None),
    ],
)
def test_branches_that_leave_out_a_possible_value_are_a_trap(conditional: str, value: str | None) -> None:
    text = f"workflow_id: w\n{ONLY_AB}nodes:\n  c: {{type: conditional, {conditional}}}\n"
    found = warnings(text + "  x: {handler: with_context}\n  y: {handler: with_context}\n")
    assert [one.split(": ", 1)[1] for one in found] == (
        [f"No branch is taken for the value {value}: the job would fail."] if value is not None else []
    )


def test_a_branch_with_the_condition_of_an_earlier_one_is_a_trap() -> None:
    branches = "[{condition: '> 5', next: x}, {condition: '> 5', next: y}, {default: true, next: x}]"
    conditional = f"{{type: conditional, condition_field: '{{{{ inputs.n }}}}', branches: {branches}}}"
    [found] = warnings(f"workflow_id: w\nnodes:\n  c: {conditional}\n  x: {{handler: x}}\n  y: {{handler: x}}\n")
    assert found.startswith("3:") and "The branch is never taken" in found


def test_batches_of_one_item_are_a_trap() -> None:
    fan_out = f"  f: {{{FAN_OUT}, source: '{{{{ inputs.x }}}}', next: g}}\n"
    text = "workflow_id: w\nnodes:\n" + fan_out + "  g: {type: fan_in, batch: {handler: x, size: %s}, handler: x}\n"
    assert "A batch of one item is a task for each item" in warnings(text % 1)[0]
    assert warnings(text % 2) == warnings(text % "auto") == []


def test_what_a_handler_declares_otherwise_is_a_trap() -> None:
    assert node("handler: plain, timeout_seconds: 60") == [
        "3:16: The handler plain declares the queue 'heavy', but 'a' uses 'default'.",
        "3:40: The handler plain has a time limit of 10 s itself, which is shorter and counts.",
    ]
    assert node("handler: plain, queue: light")[0].startswith("3:30: The handler plain declares the queue 'heavy'")
    assert node("handler: plain, queue: heavy, timeout_seconds: 9") == []


def test_inputs_and_breakers_that_nothing_uses_are_a_trap_if_no_handler_can_use_them() -> None:
    head = "inputs: {used: {}, idle: {}}\nbreakers: {crm: {}, erp: {}}\n"
    fitting = "handler: plain, queue: heavy, breaker: crm, params: {x: '%s'}"
    assert node(fitting % "{{ inputs.used }}", head) == [
        "2:20: Nothing uses the input 'idle'.",
        "3:21: No node is behind the breaker 'erp'.",
    ]
    assert node(fitting % "{{ inputs }}", head) == ["3:21: No node is behind the breaker 'erp'."]
    assert node("handler: with_context", head) == []
    assert node("handler: unknown_here", head) == []


def test_the_workflows_of_this_project_have_no_traps() -> None:
    root = Path(__file__).parents[2]
    files = [one for folder in ("examples", "src", "tests") for one in (root / folder).rglob("*.yaml")]
    assert len(files) > 6
    for file in files:
        checked = check_workflow(file, None)
        assert (checked.problems, checked.warnings) == ([], []), file


def test_a_file_with_thousands_of_branches_is_checked_in_bounded_time() -> None:
    """One warning for each repeated branch; values are tried only against a bounded number of branches."""
    branches = "".join(f"      - {{condition: '> {number % 500}', next: x}}\n" for number in range(550))
    text = "workflow_id: w\nnodes:\n  c:\n    type: conditional\n    condition_field: '{{ inputs.n }}'\n    branches:\n"
    found = warnings(text + branches + "  x: {handler: x}\n")
    assert len(found) == 50 and all("never taken" in one for one in found)
