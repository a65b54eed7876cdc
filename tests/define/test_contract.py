"""A breach of a schema is reported with its place, what was expected and what was found."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.define.contract import Contract, Contracts
from holdfast.define.load import load_text


def breach(schema: dict[str, Any], output: Any) -> str | None:
    return Contract(schema).breach(orjson.dumps(output))


@pytest.mark.parametrize(
    ("schema", "output", "words"),
    [
        ({"type": "object"}, [], "expected an object, got []"),
        ({"type": ["string", "null"]}, 2, "expected null or a string, got 2"),
        ({"enum": [1, "a", None]}, 2, 'expected one of 1, "a", null, got 2'),
        ({"const": {"a": 1}}, 2, 'expected {"a":1}, got 2'),
        ({"required": ["a"]}, {}, "expected an object with 'a', got {}"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "expected an object with 'b', got {\"a\":1}"),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            "expected an object without 'b', got {\"b\":1}",
        ),
        ({"unevaluatedProperties": False}, {"b": 1}, "expected an object without 'b', got {\"b\":1}"),
        ({"properties": {"b": False}}, {"b": 1}, "at /b: expected nothing, got 1"),
        ({"minItems": 1}, [], "expected an array of at least 1 item, got []"),
        ({"maxItems": 2}, [1, 2, 3], "expected an array of at most 2 items, got [1,2,3]"),
        ({"uniqueItems": True}, [1, 1], "expected an array without repetitions, got [1,1]"),
        ({"minLength": 2}, "a", 'expected a string of at least 2 characters, got "a"'),
        ({"maxLength": 1}, "ab", 'expected a string of at most 1 character, got "ab"'),
        ({"minProperties": 1}, {}, "expected an object of at least 1 property, got {}"),
        ({"maxProperties": 0}, {"a": 1}, 'expected an object of at most 0 properties, got {"a":1}'),
        ({"minimum": 3}, 1, "expected a number of at least 3, got 1"),
        ({"maximum": 3}, 4, "expected a number of at most 3, got 4"),
        ({"exclusiveMinimum": 3}, 3, "expected a number above 3, got 3"),
        ({"exclusiveMaximum": 3}, 3, "expected a number below 3, got 3"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2, got 3"),
        ({"pattern": "^a"}, "b", 'expected a string that matches ^a, got "b"'),
        ({"not": {"type": "string"}}, "b", 'expected something that does not fit {"type":"string"}, got "b"'),
        (
            {"contains": {"type": "string"}},
            [1],
            "expected an array with the items that 'contains' declares, got [1]",
        ),
        (
            {"prefixItems": [{}], "unevaluatedItems": False},
            [1, 2],
            "expected a value that fits 'unevaluatedItems', got [1,2]",
        ),
        (
            {"propertyNames": {"pattern": "^a"}},
            {"b": 1},
            'expected names of properties that are a string that matches ^a, got {"b":1}',
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "expected a string or null, got 1"),
        (
            {"oneOf": [{"type": "string"}, {"properties": {"a": {"items": {"type": "null"}}}}]},
            {"a": [1]},
            'expected a string or null at a/0, got {"a":[1]}',
        ),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
            1,
            "expected a value that fits only one of the 2 schemas of oneOf, got 1",
        ),
        ({"properties": {"a/b": {"items": {"type": "null"}}}}, {"a/b": [None, 1]}, "at /a~1b/1: expected null, got 1"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"type": "null"}}}}, [1], "at /0: expected null, got 1"),
    ],
)
def test_both_sides_are_shown(schema: dict[str, Any], output: Any, words: str) -> None:
    assert breach(schema, output) == words


@pytest.mark.parametrize("output", [None, 1, 1.5, "a", [], {}, {"a": [1, {"b": "ü"}]}])
def test_an_output_that_matches_its_schema_is_no_breach(output: Any) -> None:
    assert breach({"type": ["null", "number", "string", "array", "object"]}, output) is None
    assert breach({"const": output}, output) is None


def test_long_sides_are_shortened() -> None:
    words = breach({"enum": ["x" * 90] * 50}, ["y" * 90] * 10_000)
    assert words is not None
    assert len(words) < 500
    assert words.count("…") == 2


def test_a_pattern_does_not_backtrack() -> None:
    """A pattern that backtracks would take years here."""
    words = breach({"pattern": "^(a|a)*(a+)+$"}, "a" * 100_000 + "!")
    assert words is not None
    assert words.startswith("expected a string that matches ^(a|a)*(a+)+$")


def test_a_schema_that_only_another_version_accepts_is_a_breach() -> None:
    words = breach({"pattern": "(?=a)"}, "a")
    assert words is not None
    assert words.startswith("this worker cannot read the schema: ")


def test_contracts_are_read_from_a_pinned_definition() -> None:
    definition = load_text("""
workflow_id: w
nodes:
  a: {handler: h}
  b: {handler: h, output_schema: {type: string}, depends_on: a}
  c: {type: end, depends_on: b}
""")
    contracts = Contracts(definition.canonical_bytes())
    assert (contracts.of("a", -1), contracts.of("c", -1), contracts.of("unknown", -1)) == (None, None, None)
    own = contracts.of("b", -1)
    assert own is not None and own.breach(b"1") == "expected a string, got 1"


def test_the_batches_of_a_fan_in_have_their_own_contracts() -> None:
    definition = load_text("""
workflow_id: w
nodes:
  a: {type: fan_out, source: "{{ [1] }}", task: {handler: h, output_schema: {type: string}}, next: b}
  b:
    type: fan_in
    handler: h
    output_schema: {type: object}
    batch: {handler: h, output_schema: {type: integer}}
  c: {type: fan_in, handler: h, output_schema: {type: object}, batch: {handler: h}, depends_on: a}
""")
    contracts = Contracts(definition.canonical_bytes())
    expected = {("a", 0): "a string", ("b", 0): "an integer", ("b", -1): "an object", ("c", -1): "an object"}
    for place, words in expected.items():
        contract = contracts.of(*place)
        assert contract is not None and contract.breach(b"[]") == f"expected {words}, got []"
    assert contracts.of("c", 0) is None
