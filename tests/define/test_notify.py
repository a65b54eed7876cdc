"""`notify` in a workflow: the same rules from YAML and Python, checked when the file is read."""

from __future__ import annotations

import pytest

from holdfast.define.changes import differences
from holdfast.define.definition import Definition
from holdfast.define.load import load_text
from holdfast.define.notify import NotifyEvent, NotifyRule, event_of, is_address
from holdfast.define.workflow import Workflow
from holdfast.errors import InvalidDefinition

HEAD = "workflow_id: orders\ninputs:\n  owner: {type: string}\n"
NODES = "nodes:\n  pay: {type: task, handler: pay}\n"


def read(notify: str) -> Definition:
    return load_text(f"{HEAD}{notify}{NODES}", "flow.yaml")


def mistakes(notify: str) -> list[str]:
    with pytest.raises(InvalidDefinition) as refused:
        read(notify)
    return [f"{one.line}:{one.column} {one.message} {one.suggestion or ''}".strip() for one in refused.value.errors]


def test_a_rule_names_its_events_by_their_short_or_full_names() -> None:
    definition = read("""notify:
  - on: [partial, job_failed, node_failed]
    email: "{{ inputs.owner }}"
  - {on: stuck, webhook: pager}
""")
    assert definition.notify == (
        NotifyRule(
            (NotifyEvent.JOB_PARTIAL, NotifyEvent.JOB_FAILED, NotifyEvent.NODE_FAILED), email="{{ inputs.owner }}"
        ),
        NotifyRule((NotifyEvent.JOB_STUCK,), webhook="pager"),
    )


def test_the_key_on_needs_no_quotes_in_a_rule_and_is_ambiguous_elsewhere() -> None:
    assert read("notify:\n  - on: failed\n    webhook: w\n") == read('notify:\n  - "on": failed\n    webhook: w\n')
    with pytest.raises(InvalidDefinition) as refused:
        load_text("workflow_id: a\nnodes:\n  a: {type: task, handler: h, params: {on: 1}}\n", "flow.yaml")
    assert "ambiguous" in refused.value.errors[0].message


def test_a_workflow_in_python_makes_the_same_rules() -> None:
    workflow = Workflow(
        "orders", inputs={"owner": {"type": "string"}}, notify=[{"on": ["failed"], "email": "{{ inputs.owner }}"}]
    )
    workflow.task("pay", handler="pay")
    assert workflow.definition() == read('notify: [{on: failed, email: "{{ inputs.owner }}"}]\n')


def test_a_definition_keeps_its_rules_and_its_hash_without_them() -> None:
    with_rules, without = read("notify: [{on: failed, webhook: w}]\n"), read("")
    assert Definition.from_json(with_rules.to_json()) == with_rules
    assert "notify" not in without.to_json()
    assert differences(without, with_rules) == ["notify differs"]


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        (
            "notify: [{on: failed}]\n",
            "4:10 A receiver needs either an address or a webhook. Give 'email' or 'webhook'.",
        ),
        (
            "notify: [{on: failed, email: a@b.c, webhook: w}]\n",
            "4:10 A receiver needs either an address or a webhook. Give 'email' or 'webhook'.",
        ),
        (
            "notify:\n  - on: [failed, faild]\n    webhook: w\n",
            "5:18 There is no event 'faild' of a job. Did you mean 'failed'?",
        ),
        ("notify: [{on: fialed, webhook: w}]\n", "4:15 There is no event 'fialed' of a job. Did you mean 'failed'?"),
        (
            "notify: [{on: failed, email: 'Ops <ops@example.org>'}]\n",
            "4:30 This is not an e-mail address. Write it without a name: ops@example.org.",
        ),
        (
            "notify: [{on: failed, email: '{{ inputs.ownr }}'}]\n",
            "4:34 There is no input 'ownr'. Did you mean 'owner'?",
        ),
        (
            "notify: [{on: failed, email: '{{ nodes.pay.output }}'}]\n",
            "4:34 The template is not valid: 'nodes' cannot be used here. Names are: inputs, job.",
        ),
        ("notify: [{on: [], webhook: w}]\n", "4:15 'on' must not be empty."),
    ],
)
def test_a_mistake_is_refused_with_its_place(notify: str, said: str) -> None:
    assert mistakes(notify) == [said]


@pytest.mark.parametrize("name", ["failed", "job_failed"])
def test_a_short_name_is_the_name_without_job(name: str) -> None:
    assert event_of(name) is NotifyEvent.JOB_FAILED


def test_a_name_that_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match="exploded"):
        event_of("exploded")


@pytest.mark.parametrize("text", ["ops@example.org", "a.b+c@x", "o'neill@mail.example.org"])
def test_an_address_is_one_address(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ops",
        "@example.org",
        "ops@",
        "a@b@c",
        "ops@example.org\nBcc: x@y.z",
        "Ops <ops@example.org>",
        "a,b@c",
        "a b@c",
        "a" * 65 + "@example.org",
        "a@-b.org",
        "ops@example.org\r",
        "ops@bücher.example",
    ],
)
def test_what_could_become_another_header_or_receiver_is_no_address(text: str) -> None:
    assert not is_address(text)
