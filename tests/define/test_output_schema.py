"""An output_schema is refused at its place if it is not valid, needs the network, or could take for ever."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast.define.definition import Definition
from holdfast.define.load import check_text, load_text
from holdfast.define.workflow import Workflow

SCHEMA = {"type": "object", "properties": {"bands": {"type": "array", "minItems": 1}}, "required": ["bands"]}
NODES = """
workflow_id: w
nodes:
  a: {handler: h, output_schema: SCHEMA}
  b: {type: fan_out, source: "{{ nodes.a.output.bands }}", task: {handler: h, output_schema: SCHEMA}, depends_on: a}
  c: {type: fan_in, handler: h, output_schema: SCHEMA, depends_on: b}
""".replace("SCHEMA", "{type: object, properties: {bands: {type: array, minItems: 1}}, required: [bands]}")


def problems(*lines: str) -> list[tuple[int | None, int | None, str]]:
    """The mistakes in a schema that begins in line 5, column 7."""
    text = "\n".join(["workflow_id: w", "nodes:", "  a:", "    handler: h", "    output_schema:", *lines])
    definition, mistakes = check_text(text, "w.yaml")
    assert (definition is None) == bool(mistakes)
    assert all(problem.file == "w.yaml" for problem in mistakes)
    return [(one.line, one.column, f"{one.message} {one.suggestion or ''}".strip()) for one in mistakes]


def test_every_type_that_runs_a_handler_may_declare_a_schema() -> None:
    definition = load_text(NODES)
    assert [node.task.output_schema for node in definition.nodes if node.task] == [SCHEMA] * 3
    assert Definition.from_json(definition.to_json()) == definition


def test_a_workflow_in_python_declares_the_same() -> None:
    flow = Workflow("w")
    flow.task("a", handler="h", output_schema=SCHEMA)
    flow.fan_out("b", source="{{ nodes.a.output.bands }}", handler="h", output_schema=SCHEMA, after="a")
    flow.fan_in("c", handler="h", output_schema=SCHEMA, after="b")
    assert flow.definition().hash() == load_text(NODES).hash()


def test_an_empty_schema_does_not_change_the_hash() -> None:
    one, other = (
        load_text(f"workflow_id: w\nnodes: {{a: {{handler: h{more}}}}}") for more in ("", ", output_schema: {}")
    )
    assert one.hash() == other.hash()
    assert "output_schema" not in one.to_json()["nodes"][0]["task"]


def test_a_fan_in_that_runs_nothing_has_no_output_to_check() -> None:
    _, (problem,) = check_text(NODES.replace("{type: fan_in, handler: h,", "{type: fan_in,"))
    assert problem.message == "'output_schema' needs a handler: without one nothing runs."


@pytest.mark.parametrize(
    ("lines", "line", "column", "words"),
    [
        (["      type: objekt"], 6, 13, "got \"objekt\". Did you mean 'object'?"),
        (["      properties:", "        a: {minItems: -1}"], 7, 23, "expected a number of at least 0, got -1"),
        (["      required: a"], 6, 17, 'expected an array, got "a"'),
        (["      properties:", "        a: 3"], 7, 12, "expected a boolean or an object, got 3"),
        (["      pattern: (a"], 6, 16, "The pattern is not a valid regular expression"),
        (["      patternProperties:", "        (a: {}"], 7, 13, "The pattern is not a valid regular expression"),
        (["      pattern: a(?=b)"], 6, 16, "Look-ahead, look-behind and back-references"),
        (["      pattern: (a)\\1"], 6, 16, "back-references"),
        (["      min_items: 3"], 6, 18, "Did you mean 'minItems'?"),
        (["      additionalproperties: false"], 6, 29, "Did you mean 'additionalProperties'?"),
        (["      $schema: http://json-schema.org/draft-07/schema#"], 6, 16, "An output_schema is JSON Schema 2020-12"),
        (["      $defs: {a: {$id: x}}"], 6, 24, "Only the whole output_schema may have an '$id'"),
    ],
)
def test_an_invalid_schema_is_refused_at_its_place(lines: list[str], line: int, column: int, words: str) -> None:
    ((found_line, found_column, message),) = problems(*lines)
    assert (found_line, found_column) == (line, column)
    assert words in message


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/a.json", "file:///etc/passwd", "other.json", "//example.com/a", "a.json#/$defs/a"],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_an_external_reference_is_refused(keyword: str, reference: str) -> None:
    ((line, _, message),) = problems("      properties:", f"        a: {{{keyword}: '{reference}'}}")
    assert line == 7
    assert f'"{reference}" is outside the output_schema, and Holdfast fetches no schemas' in message


@pytest.mark.parametrize("reference", ["#/$defs/c", "#/$defs", "#nowhere", "#/type", "#/$defs/a/anyOf/7"])
def test_a_reference_to_a_missing_schema_is_refused(reference: str) -> None:
    ((_, _, message),) = problems("      type: object", "      $defs: {a: {anyOf: [{}]}}", f"      $ref: '{reference}'")
    assert message == f'There is no schema at "{reference}" in the output_schema.'


@pytest.mark.parametrize(
    "schema",
    [
        "{$ref: '#/$defs/a', $defs: {a: {type: string}}}",
        "{$ref: '#/$defs/a~1b', $defs: {a/b: {type: string}}}",
        "{$ref: '#here', $defs: {a: {$anchor: here, type: string}}}",
        "{$ref: '#/$defs/a/anyOf/1', $defs: {a: {anyOf: [true, {type: string}]}}}",
        "{$id: 'https://example.com/a', $ref: '#/$defs/a', $defs: {a: {type: string}}}",
        "{properties: {children: {items: {$ref: '#'}}}}",
        "{properties: {$ref: {type: string}, min_items: {type: integer}}, enum: [{$ref: 'https://example.com'}]}",
        "{$schema: 'https://json-schema.org/draft/2020-12/schema', x-unit: metres, format: date, title: a}",
    ],
)
def test_a_valid_schema_is_accepted(schema: str) -> None:
    assert problems(f"      {schema}") == []


def doubling(steps: int, reference: str = "#/$defs/d{}") -> list[str]:
    """A schema whose size doubles with every step when its references are followed."""
    before = [f"{{$ref: '{reference.format(n)}'}}" for n in range(steps)]
    twice = [f"        d{n}: {{$anchor: d{n}, anyOf: [{one}, {one}]}}" for n, one in enumerate(before, 1)]
    return [f"      $ref: '#/$defs/d{steps}'", "      $defs:", "        d0: {$anchor: d0, type: string}", *twice]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["      description: " + "x" * 65_536], "larger than 64 KiB"),
        (["      anyOf: [" + ", ".join(["{pattern: a}"] * 101) + "]"], "101 patterns; at most 100"),
        (["      pattern: '(a{1000}){1000}'"], "needs more than 1,024 KiB"),
        (doubling(60), "more than 10,000 parts"),
        (doubling(60, "#d{}"), "more than 10,000 parts"),
        (
            ["      $ref: '#/$defs/d1500'", "      $defs:", "        d0: {type: string}"]
            + [f"        d{n}: {{$ref: '#/$defs/d{n - 1}'}}" for n in range(1, 1501)],
            "are nested too deeply",
        ),
    ],
)
def test_a_schema_that_could_take_for_ever_is_refused(lines: list[str], words: str) -> None:
    ((line, _, message),) = problems(*lines)
    assert line == 6
    assert words in message


def test_a_schema_of_references_within_bounds_is_accepted() -> None:
    assert problems(*doubling(8)) == []


def test_workflows_without_schemas_do_not_import_the_library() -> None:
    """Neither the package, nor the command, nor a workflow without a schema imports it."""
    program = """
import sys
import holdfast, holdfast.cli.app, holdfast.worker.loop
from holdfast.define.load import load_text
load_text("workflow_id: w\\nnodes: {a: {handler: h}}")
assert "jsonschema_rs" not in sys.modules
load_text("workflow_id: w\\nnodes: {a: {handler: h, output_schema: {type: string}}}")
assert "jsonschema_rs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_all_mistakes_of_a_schema_are_reported_at_once() -> None:
    mistakes: Any = problems("      type: objekt", "      minLength: -1", "      required: a")
    assert [line for line, _, _ in mistakes] == [6, 7, 8]
