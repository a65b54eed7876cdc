"""A node may declare whether, and for how long, its completed tasks may run again."""

from __future__ import annotations

import pytest

from holdfast.define.definition import Definition
from holdfast.define.load import check_text, load_text
from holdfast.define.node import Rerun, Safe
from holdfast.define.workflow import Workflow

NODES = """
workflow_id: w
nodes:
  stack: {type: fan_out, source: "{{ [1, 2] }}", task: {handler: h}, rerun: {safe: always, within_hours: 0.5}}
  all: {type: fan_in, depends_on: stack, batch: {handler: h, size: 1}, rerun: {within_hours: 24}}
  tell: {handler: h, depends_on: all, rerun: {safe: never}}
  last: {handler: h, depends_on: tell}
"""


def test_tasks_fan_outs_and_fan_ins_may_be_guarded() -> None:
    definition = load_text(NODES)
    assert [node.rerun for node in definition.nodes] == [
        Rerun(Safe.ALWAYS, 0.5),
        Rerun(Safe.CONFIRM, 24.0),
        Rerun(Safe.NEVER),
        Rerun(),
    ]
    assert Definition.from_json(definition.to_json()) == definition


def test_a_workflow_in_python_declares_the_same() -> None:
    flow = Workflow("w")
    flow.fan_out("stack", source="{{ [1, 2] }}", handler="h", rerun={"safe": "always", "within_hours": 0.5})
    flow.fan_in("all", after="stack", batch={"handler": "h", "size": 1}, rerun={"within_hours": 24})
    flow.task("tell", handler="h", after="all", rerun={"safe": "never"})
    flow.task("last", handler="h", after="tell")
    assert flow.definition().hash() == load_text(NODES).hash()


def test_a_node_without_rerun_keeps_its_json() -> None:
    for guard in ("", ", rerun: {}", ", rerun: {safe: confirm}"):
        assert "rerun" not in load_text(f"workflow_id: w\nnodes: {{a: {{handler: h{guard}}}}}").to_json()["nodes"][0]


@pytest.mark.parametrize(
    ("nodes", "line", "column", "words"),
    [
        ("  a: {handler: h, rerun: {safe: maybe}}", 3, 33, "always, confirm, never"),
        ("  a: {handler: h, rerun: {safe: true}}", 3, 33, "always, confirm, never"),
        ("  a: {handler: h, rerun: {within_hours: 0}}", 3, 41, "at least 0.001"),
        ("  a: {handler: h, rerun: {within_hours: soon}}", 3, 41, "'within_hours' must be a number."),
        ("  a: {handler: h, rerun: {within_hour: 1}}", 3, 27, "Did you mean 'within_hours'?"),
        ("  a: {handler: h, rerun: never}", 3, 26, "'rerun' must be an object."),
        ("  a: {handler: h, rerun: {safe: never, within_hours: 1}}", 3, 40, "'within_hours' has no effect"),
        ("  a: {type: end, rerun: {safe: never}}", 3, 18, "does not belong to an end node"),
        (
            '  a: {type: fan_out, source: "{{ [1] }}", task: {handler: h}}\n'
            "  b: {type: fan_in, depends_on: a, rerun: {safe: never}}",
            4, 36, "'rerun' needs a handler",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_rerun_is_reported_at_its_place(nodes: str, line: int, column: int, words: str) -> None:
    definition, mistakes = check_text(f"workflow_id: w\nnodes:\n{nodes}", "w.yaml")
    assert definition is None
    assert [(one.line, one.column) for one in mistakes] == [(line, column)], mistakes
    assert words in f"{mistakes[0].message} {mistakes[0].suggestion or ''}"
