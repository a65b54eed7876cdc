"""Secrets in workflows: where they may stand, and that only the workflow's own text is replaced."""

from __future__ import annotations

import orjson
import pytest

from holdfast.define.load import load_text
from holdfast.define.program import compile_definition
from holdfast.define.secrets import AmbiguousSecret, Secrets, secrets_of
from holdfast.errors import InvalidDefinition

ONE = "workflow_id: w\nnodes:\n  a:\n    handler: h\n    params: {token: 'TEXT'}\n"
EVERYWHERE = """
workflow_id: w
nodes:
  f:
    type: fan_out
    source: "{{ secrets.X }}"
    item_key: "{{ secrets.X }}"
    task:
      handler: h
      params: {a: "{{ secrets.X }}"}
      concurrency: {limit: 1, key: "{{ secrets.X }}"}
      rate: {limit: 1, key: "k {{ secrets.X }}"}
    next: g
  g:
    type: fan_in
    batch: {size: "{{ secrets.X }}", handler: h, params: {a: "{{ secrets.X }}"}}
    next: c
  c: {type: conditional, condition: "{{ secrets.X }} == 1", on_true: t, on_false: u}
  t: {handler: h, deliverable: {name: d, location: "{{ secrets.X }}"}}
  u: {handler: h}
result: {a: "{{ secrets.X }}"}
"""


def test_a_secret_is_refused_everywhere_but_in_params_with_its_place() -> None:
    with pytest.raises(InvalidDefinition) as caught:
        load_text(EVERYWHERE)
    assert [(one.line, one.column, one.path) for one in caught.value.errors] == [
        (6, 17, "nodes.f.source"),
        (7, 19, "nodes.f.item_key"),
        (11, 40, "nodes.f.task.concurrency.key"),
        (12, 35, "nodes.f.task.rate.key"),
        (16, 23, "nodes.g.batch.size"),
        (18, 41, "nodes.c.condition"),
        (19, 56, "nodes.t.deliverable.location"),
        (21, 17, "result.a"),
    ]
    for one in caught.value.errors:
        assert "Secrets cannot be used here." in one.message
        assert one.suggestion == "Only params of a handler may have them."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ secrets.X | upper }}", "A secret stands alone in its braces"),
        ("{{ secrets.X ~ inputs.a }}", "A secret stands alone in its braces"),
        ("{{ [secrets.X] }}", "A secret stands alone in its braces"),
        ("{{ secrets.X.y }}", "A secret stands alone in its braces"),
        ("{{ secrets.X if inputs.a else 1 }}", "A secret stands alone in its braces"),
        ("{{ inputs.a[secrets.X] }}", "A secret stands alone in its braces"),
        ("{{ secrets }}", "This is not the name of a secret"),
        ('{{ secrets["X"] }}', "This is not the name of a secret"),
        ("{{ secrets._X }}", "This is not the name of a secret"),
        ("{{ secrets.X_ }}", "This is not the name of a secret"),
        ("{{ secrets.A__B }}", "This is not the name of a secret"),
        ("{{ secrets.9 }}", "This is not the name of a secret"),
        ("{{ secrets." + "X" * 101 + " }}", "This is not the name of a secret"),
        ("{{ secret.X }}", "Did you mean 'secrets'?"),
    ],
)
def test_a_reference_that_says_more_than_a_name_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        load_text(ONE.replace("TEXT", text))
    (detail,) = caught.value.errors
    assert message in str(detail) and (detail.line, detail.path) == (5, "nodes.a.params.token")


def test_params_keep_the_reference_when_they_are_rendered() -> None:
    definition = load_text(ONE.replace("TEXT", "{{secrets.X}}"))
    task = compile_definition(definition).nodes["a"].task
    assert task is not None and task.params.render({}) == {"token": "{{ secrets.X }}"}


def test_each_part_of_a_node_has_its_own_references() -> None:
    definition = load_text(
        """
        workflow_id: w
        nodes:
          f: {type: fan_out, source: "{{ [1] }}", task: {handler: h, params: {a: "{{ secrets.ITEM }}"}}, next: g}
          g:
            type: fan_in
            handler: h
            params: {deep: [{a: "{{ secrets.END }}"}]}
            batch: {handler: h, params: {a: "{{ secrets.BATCH }}"}}
            next: p
          p: {handler: h, params: {a: secrets}}
        """
    )
    found = Secrets(orjson.dumps(definition.to_json()))
    names = {(node, item): known.names for node in "fgp" for item in (0, -1) if (known := found.of(node, item))}
    assert names[("f", 0)] == ["ITEM"] and names[("g", 0)] == ["BATCH"] and names[("g", -1)] == ["END"]
    assert not any(node == "p" for node, _ in names)


def test_only_the_references_of_the_workflow_are_replaced() -> None:
    params = secrets_of({"a": "x {{ inputs.i }} {{ secrets.X }}", "b": ["{{ secrets.Y }}"], "c": "{{ inputs.i }}"})
    values = {"X": "1", "Y": r"\1 {{ secrets.X }}"}
    data = {"a": "x data {{ secrets.X }}", "b": ["{{ secrets.Y }}"], "c": "{{ secrets.X }}"}
    assert params.filled(data, values) == {"a": "x data 1", "b": [r"\1 {{ secrets.X }}"], "c": "{{ secrets.X }}"}
    assert data["b"] == ["{{ secrets.Y }}"]
    # By hand a person may give anything.
    assert params.filled({"a": 7, "b": [], "more": 1}, values) == {"a": 7, "b": [], "more": 1}
    assert params.filled({"a": "plain"}, values) == {"a": "plain"}
    for injected in ("x {{ secrets.X }} {{ secrets.X }}", "x {{ secrets.Y }} {{ secrets.X }}", "x {{ secrets.Y }}"):
        with pytest.raises(AmbiguousSecret, match=r"params\.a refers to the secrets"):
            params.filled({"a": injected}, values)
