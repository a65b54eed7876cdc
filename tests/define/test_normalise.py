"""Every spelling gives the same definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.define.definition import Definition, InputType
from holdfast.define.failures import ErrorRule
from holdfast.define.load import load_file, load_text
from holdfast.define.node import Branch, Node, NodeType, TaskSpec
from holdfast.define.retry import Backoff, Jitter, Retry
from holdfast.errors import FailureClass

FILES = Path(__file__).parent / "files"


def load(nodes: str, **top: str) -> Definition:
    return load_text(
        "\n".join([*(f"{key}: {value}" for key, value in top.items()), "workflow_id: w", f"nodes: {nodes}"])
    )


def node(definition: str) -> Node:
    return load(f"{{a: {{handler: x, {definition}}}, b: {{handler: x}}, c: {{handler: x}}}}").node("a")


def retry(definition: str) -> Retry:
    task = node(f"retry: {definition}").task
    assert task is not None
    return task.retry


@pytest.mark.parametrize(
    ("written", "version"),
    [("1", "1"), ("1.0", "1.0"), ("1.10", "1.10"), ("'2b'", "2b"), ("2024-01-31", "2024-01-31")],
)
def test_a_version_stays_as_it_was_written(written: str, version: str) -> None:
    assert load("{a: {handler: x}}", version=written).version == version


@pytest.mark.parametrize(
    ("written", "all_of", "any_of"),
    [
        ("depends_on: b", ("b",), ()),
        ("depends_on: [b, c]", ("b", "c"), ()),
        ("depends_on: {all_of: b}", ("b",), ()),
        ("depends_on: {any_of: [b, c]}", (), ("b", "c")),
        ("depends_on: {all_of: [b], any_of: c}", ("b",), ("c",)),
        ("depends_on: []", (), ()),
        ("depends_on: null", (), ()),
    ],
)
def test_dependencies_have_several_spellings(written: str, all_of: tuple[str], any_of: tuple[str]) -> None:
    parsed = node(written)
    assert (parsed.all_of, parsed.any_of) == (all_of, any_of)


@pytest.mark.parametrize(("written", "targets"), [("next: b", ("b",)), ("next: [b, c]", ("b", "c")), ("next: ~", ())])
def test_next_is_a_name_or_a_list(written: str, targets: tuple[str, ...]) -> None:
    assert node(written).next == targets


@pytest.mark.parametrize("written", ["fan_out", "FAN_OUT", "Fan_Out"])
def test_types_are_written_in_any_case(written: str) -> None:
    definition = load(f"{{f: {{type: {written}, source: '{{{{ inputs.x }}}}', task: {{handler: x}}}}}}")
    assert definition.node("f").type is NodeType.FAN_OUT


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("{}", Retry()),
        ("{max_retries: 0}", Retry(max_retries=0)),
        ("{max_attempts: 5}", Retry(max_retries=5)),
        ("{schedule: [60, 300]}", Retry(2, Backoff.SCHEDULE, jitter=Jitter.NONE, schedule=(60.0, 300.0))),
        (
            "{schedule: [900], max_retries: 4, jitter: full}",
            Retry(4, Backoff.SCHEDULE, max_delay_seconds=900.0, schedule=(900.0,)),
        ),
        ("{initial_delay_seconds: 600}", Retry(initial_delay_seconds=600.0, max_delay_seconds=600.0)),
        ("{max_delay_seconds: 0.5}", Retry(initial_delay_seconds=0.5, max_delay_seconds=0.5)),
        ("{backoff: linear, jitter: none}", Retry(backoff=Backoff.LINEAR, jitter=Jitter.NONE)),
        (
            "{initial_delay_seconds: 5, jitter: {max_seconds: 5}}",
            Retry(initial_delay_seconds=5.0, jitter=Jitter.RANGE, jitter_seconds=(0.0, 5.0)),
        ),
        ("{retry_on: [TIMEOUT, GW_5XX]}", Retry(retry_on=("TIMEOUT", "GW_5XX"))),
    ],
)
def test_a_retry_policy_is_filled_in_without_contradicting_the_file(written: str, policy: Retry) -> None:
    assert retry(written) == policy


@pytest.mark.parametrize(
    ("written", "branches"),
    [
        (
            "condition: '{{ inputs.x }} > 100', on_true: b, on_false: [c]",
            (Branch(("b",), "(inputs.x) > 100"), Branch(("c",))),
        ),
        (
            "condition_field: '{{ inputs.x }}', branches: [{default: true, next: b}, {condition: '< 5', next: c}]",
            (Branch(("c",), "(inputs.x) < 5"), Branch(("b",))),
        ),
        (
            "condition_field: '{{ inputs.x }}', branches: [{condition: 5, next: b}, {condition: true, next: c}]",
            (Branch(("b",), "(inputs.x) == 5"), Branch(("c",), "(inputs.x) == true")),
        ),
        (
            "branches: [{condition: '{{ inputs.x }} < 5', next: [b, c]}]",
            (Branch(("b", "c"), "(inputs.x) < 5"),),
        ),
        (
            "condition: '{{ inputs.x > 5 }}', branches: {true: b, false: c}",
            (Branch(("b",), "(inputs.x > 5) == true"), Branch(("c",), "(inputs.x > 5) == false")),
        ),
        (
            "condition: '{{ inputs.x }}', branches: {default: b, large: c, 5: b}",
            (Branch(("c",), '(inputs.x) == "large"'), Branch(("b",), "(inputs.x) == 5"), Branch(("b",))),
        ),
    ],
)
def test_conditionals_have_three_spellings(written: str, branches: tuple[Branch, ...]) -> None:
    definition = load(f"{{a: {{type: conditional, {written}}}, b: {{handler: x}}, c: {{handler: x}}}}")
    assert definition.node("a").branches == branches


def test_inputs_keep_their_declaration() -> None:
    definition = load_file(FILES / "every_node_type.yaml")
    region, limit, owner = definition.inputs
    assert (region.name, region.type, region.required, region.has_default) == (
        "region",
        InputType.STRING,
        True,
        False,
    )
    assert (limit.has_default, limit.default, limit.minimum, limit.maximum) == (True, 100, 1.0, 1000.0)
    assert (owner.required, owner.has_default, owner.default) == (False, False, None)


def test_a_default_of_null_is_a_default() -> None:
    definition = load("{a: {handler: x}}", inputs="{x: {type: string, default: null}, y: {type: string}}")
    assert [one.has_default for one in definition.inputs] == [True, False]


def test_a_result_of_null_is_a_result() -> None:
    assert load("{a: {handler: x}}", result="null").has_result
    assert not load("{a: {handler: x}}").has_result


def test_job_timeouts_are_in_seconds() -> None:
    assert load("{a: {handler: x}}", timeout_minutes="1.5").timeout_seconds == 90.0
    assert load("{a: {handler: x}}", timeout_seconds="90").timeout_seconds == 90.0


def test_different_spellings_of_one_workflow_hash_the_same() -> None:
    one = load("{a: {handler: x, next: b, timeout_seconds: 60}, b: {type: TASK, handler: x, retry: {max_attempts: 5}}}")
    other = load(
        "{a: {type: task, handler: x, next: [b], queue: default, timeout_seconds: 60.0},"
        " b: {handler: x, retry: {max_retries: 5}}}"
    )
    assert one == other
    assert one.hash() == other.hash()


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_pinned_definition_is_read_back_unchanged(file: Path) -> None:
    definition = load_file(file)
    assert Definition.from_json(definition.to_json()) == definition
    assert Definition.from_json(definition.to_json()).hash() == definition.hash()


def test_the_older_spellings_keep_their_meaning() -> None:
    definition = load_file(FILES / "older_spellings.yaml")
    validate = definition.node("validate")
    assert definition.version == "1.0"
    assert validate.task is not None
    assert validate.task.retry == Retry(5, Backoff.FIXED, 10.0)
    assert definition.node("route_by_size").branches == (
        Branch(("process_small",), "(nodes.validate.output.size_mb) < 100"),
        Branch(("process_medium",), "(nodes.validate.output.size_mb) < 1000"),
        Branch(("generate_tiles",)),
    )
    assert definition.node("is_tiled").branches[0] == Branch(("END",), "(nodes.validate.output.size_mb > 50) == true")


# What a node takes over from its workflow


@pytest.mark.parametrize(
    ("node_retry", "policy"),
    [
        ("", Retry(7, Backoff.FIXED, 20.0, jitter=Jitter.EQUAL, retry_on=("BUSY",))),
        (", retry: {max_retries: 1}", Retry(1, Backoff.FIXED, 20.0, jitter=Jitter.EQUAL, retry_on=("BUSY",))),
        (
            ", retry: {schedule: [1, 2]}",
            Retry(7, Backoff.SCHEDULE, jitter=Jitter.EQUAL, schedule=(1.0, 2.0), retry_on=("BUSY",)),
        ),
        (
            ", retry: {jitter: none, retry_on: [GONE]}",
            Retry(7, Backoff.FIXED, 20.0, jitter=Jitter.NONE, retry_on=("GONE",)),
        ),
    ],
)
def test_a_node_inherits_missing_keys_from_the_workflow(node_retry: str, policy: Retry) -> None:
    head = "retry: {max_retries: 7, backoff: fixed, initial_delay_seconds: 20, jitter: equal, retry_on: [BUSY]}"
    spec = load_text(f"workflow_id: w\n{head}\nnodes: {{a: {{handler: x{node_retry}}}}}").node("a").task
    assert spec is not None
    assert spec.retry == policy


def test_error_rules_are_kept_in_their_order() -> None:
    rules = (
        "[{match: moov atom not found, class: permanent, code: BROKEN}, {exit_code: 137, class: transient},"
        " {match: [no such file, input], pattern: '^E[0-9]+', class: permanent}]"
    )
    task = node(f"errors: {rules}").task
    assert task is not None
    assert task.errors == (
        ErrorRule(FailureClass.PERMANENT, match="moov atom not found", code="BROKEN"),
        ErrorRule(FailureClass.TRANSIENT, exit_code=137),
        ErrorRule(FailureClass.PERMANENT, match=("no such file", "input"), pattern="^E[0-9]+"),
    )
    assert TaskSpec.from_json(task.to_json()) == task


def test_a_definition_without_new_keys_keeps_its_hash() -> None:
    task = node("retry: {max_retries: 2}").task
    assert task is not None
    assert "errors" not in task.to_json()
    assert not {"retry_on", "jitter_seconds"} & task.retry.to_json().keys()
    assert TaskSpec.from_json(task.to_json()) == task
