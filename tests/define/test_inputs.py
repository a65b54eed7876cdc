"""A job's inputs against the declared ones."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy
import pytest

from holdfast.define.definition import Definition, Input, InputType
from holdfast.define.inputs import check_inputs, parse_assignments
from holdfast.define.load import load_text
from holdfast.errors import InvalidInput


def declared(*inputs: Input) -> Definition:
    return Definition("w", inputs=inputs)


REGION = Input("region", InputType.STRING, required=True, pattern="^[A-Z]{3}$")
LIMIT = Input("limit", InputType.INTEGER, has_default=True, default=100, minimum=1, maximum=1000)
OWNER = Input("owner", InputType.STRING)


def problems(definition: Definition, values: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        check_inputs(definition, values)
    return [str(detail) for detail in caught.value.errors]


def test_defaults_are_filled_in_and_an_optional_input_is_null() -> None:
    inputs = check_inputs(declared(REGION, LIMIT, OWNER), {"region": "CIV"})
    assert inputs == {"region": "CIV", "limit": 100, "owner": None}
    assert list(inputs) == ["region", "limit", "owner"]


def test_all_problems_are_reported_at_once() -> None:
    assert problems(declared(REGION, LIMIT, OWNER), {"regoin": "CIV", "limit": True, "owner": 5}) == [
        "Unknown input 'regoin'. Did you mean 'region'?",
        "The input 'region' is required.",
        "The input 'limit' must be an integer, not a boolean.",
        "The input 'owner' must be a string, not an integer.",
    ]


def test_a_workflow_without_inputs_accepts_any_plain_data() -> None:
    assert check_inputs(declared(), {"anything": [1, {"a": None}]}) == {"anything": [1, {"a": None}]}
    assert problems(declared(), {"a": float("nan")}) == ["The input a is not a finite number."]


def test_a_default_satisfies_required_and_is_never_shared() -> None:
    definition = declared(Input("x", InputType.ARRAY, required=True, has_default=True, default=[1]))
    check_inputs(definition, {})["x"].append(2)
    assert check_inputs(definition, {}) == {"x": [1]}


def test_null_is_allowed_for_an_optional_input_without_another_default() -> None:
    assert check_inputs(declared(OWNER), {"owner": None}) == {"owner": None}
    assert problems(declared(LIMIT), {"limit": None}) == ["The input 'limit' must be an integer, not null."]
    assert problems(declared(REGION), {"region": None}) == ["The input 'region' must be a string, not null."]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (InputType.STRING, ["", "a"], [1, None, ["a"], True]),
        (InputType.INTEGER, [0, -5, 2**63 - 1], [1.0, True, "1"]),
        (InputType.NUMBER, [0, 1.5], [True, "1"]),
        (InputType.BOOLEAN, [True, False], [0, 1, "true"]),
        (InputType.ARRAY, [[], [1]], [{}, "a"]),
        (InputType.OBJECT, [{}, {"a": 1}], [[], "a"]),
        (InputType.ANY, [None, True, 1, "a", [], {}], []),
    ],
)
def test_types_are_strict(kind: InputType, good: list[Any], bad: list[Any]) -> None:
    definition = declared(Input("x", kind, required=True))
    for value in good:
        assert check_inputs(definition, {"x": value}) == {"x": value}
    for value in bad:
        assert "must be" in problems(definition, {"x": value})[0]


@pytest.mark.parametrize(
    ("constraint", "value", "problem"),
    [
        ({"pattern": "^a$"}, "b", "does not match the pattern ^a$"),
        ({"pattern": "^a$"}, "b\na\nc", "does not match the pattern ^a$"),
        ({"pattern": "^[a-z]+$"}, "abc\n", "does not match the pattern ^[a-z]+$"),
        ({"pattern": "(?=of another version)"}, "b", "does not match the pattern (?=of another version)"),
        ({"enum": ("a", "b")}, "c", "must be one of a, b"),
        ({"enum": (1, 2)}, True, "must be one of 1, 2"),
        ({"minimum": 2.0}, 1, "must be at least 2"),
        ({"maximum": 2.0}, 3, "must be at most 2"),
        ({"min_length": 2}, "a", "must have at least 2 characters"),
        ({"max_length": 1}, [1, 2], "must have at most 1 entries"),
    ],
)
def test_constraints_are_checked(constraint: dict[str, Any], value: Any, problem: str) -> None:
    assert problems(declared(Input("x", **constraint)), {"x": value}) == [f"The input 'x' {problem}."]


def test_a_pattern_may_match_anywhere() -> None:
    assert check_inputs(declared(Input("x", pattern="b")), {"x": "abc"}) == {"x": "abc"}


def test_a_pattern_of_an_input_does_not_backtrack() -> None:
    """A pattern that backtracks would take years here."""
    messages = problems(declared(Input("x", pattern="^(a+)+$")), {"x": "a" * 100_000 + "!"})
    assert messages == ["The input 'x' does not match the pattern ^(a+)+$."]


def test_only_the_first_hundred_problems_are_reported_each_shortened() -> None:
    definition = declared(Input("x", enum=tuple(range(10_000))), *(Input(f"y{n}") for n in range(1000)))
    with pytest.raises(InvalidInput) as refusal:
        check_inputs(definition, {"x": "no"} | {f"z{n}" * 500: 1 for n in range(1000)})
    assert len(refusal.value.errors) == 100
    assert all(len(str(error)) < 500 for error in refusal.value.errors) and len(refusal.value.remedy or "") < 500
    (only,) = problems(definition, {"x": "no"})
    assert only.startswith("The input 'x' must be one of 0, 1, 2") and only.endswith("….")


def test_an_input_has_at_most_64_levels() -> None:
    definition = declared(Input("x"))
    assert check_inputs(definition, {"x": deep(63)}) == {"x": deep(63)}
    (problem,) = problems(definition, {"x": deep(64)})
    assert problem.endswith("is nested more than 64 levels deep.")


def test_a_constraint_ignores_values_of_other_types() -> None:
    definition = declared(Input("x", pattern="^a$", minimum=5.0))
    assert check_inputs(definition, {"x": ["b"]}) == {"x": ["b"]}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("a\0b", "contains a NUL character"),
        ("\ud800", "half of a surrogate pair"),
        ({"a\0": 1}, "a key that contains a NUL character"),
        ({1: 1}, "has the key 1, which is not text"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (float("inf"), "finite"),
        (deep(70), "64 levels"),
        (b"bytes", "is a bytes, which is not JSON"),
    ],
)
def test_a_value_that_the_database_cannot_store_is_refused(value: Any, problem: str) -> None:
    for definition in (declared(), declared(Input("x"))):
        messages = problems(definition, {"x": value})
        assert len(messages) == 1
        assert problem in messages[0]


def test_only_the_first_few_of_thousands_of_faults_are_reported() -> None:
    assert len(problems(declared(), {"x": [float("nan")] * 10_000})) == 20


def test_assignments_take_strings_as_they_are_and_the_rest_as_json() -> None:
    definition = declared(REGION, LIMIT, OWNER, Input("any"))
    assert parse_assignments(definition, ["region=5", "limit=5", "owner=a=b", 'any={"a": [1, null]}']) == {
        "region": "5",
        "limit": 5,
        "owner": "a=b",
        "any": {"a": [1, None]},
    }


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("limit", "--input limit has no value. Write --input NAME=VALUE."),
        ("=5", "--input =5 has no value."),
        ("limit=abc", "--input limit=abc is not JSON"),
        ("limit=NaN", "NaN is not a JSON number"),
        ("limit=Infinity", "Infinity is not a JSON number"),
        ('limit={"a": 1, "a": 2}', "the key 'a' appears twice"),
        ("limit=" + "[" * 100_000, "is nested more than 64 levels deep"),
    ],
)
def test_a_bad_assignment_names_its_flag(assignment: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_assignments(declared(LIMIT), [assignment])
    assert problem in str(caught.value.errors[0])


def test_an_undeclared_name_is_called_unknown_and_not_bad_json() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_inputs(declared(LIMIT), parse_assignments(declared(LIMIT), ["limt=abc"]))
    assert str(caught.value.errors[0]).startswith("Unknown input 'limt'.")


def test_an_input_cannot_be_assigned_twice() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_assignments(declared(LIMIT), ["limit=1", "limit=2"])
    assert "a second time" in str(caught.value.errors[0])


def test_a_text_for_an_undeclared_type_gets_a_hint_about_quotes() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_assignments(declared(), ["x=hello"])
    assert caught.value.errors[0].suggestion == "For a text write --input 'x=\"hello\"'."


def test_inputs_from_python_are_converted_to_json() -> None:
    values = {"day": date(2026, 1, 2), "file": Path("a/b"), "rows": [numpy.int64(3)]}
    definition = load_text(
        "workflow_id: w\nnodes: {a: {handler: echo}}\n"
        "inputs: {day: {type: string}, file: {type: string}, rows: {type: array}}\n"
    )
    assert check_inputs(definition, values) == {"day": "2026-01-02", "file": "a/b", "rows": [3]}
    with pytest.raises(InvalidInput) as refused:
        check_inputs(definition, {"rows": [float("nan")]})
    assert "not a finite number" in str(refused.value.errors[0])
