"""YAML as plain JSON data with places, and everything that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.define.load import load_text
from holdfast.define.source import Place
from holdfast.define.yaml import MAX_BYTES, read_yaml
from holdfast.errors import Detail, InvalidDefinition


def data(text: str) -> Any:
    source, problems = read_yaml(text)
    assert problems == []
    assert source is not None
    return source.data


def first_problem(text: str) -> Detail:
    _, problems = read_yaml(text, "w.yaml")
    assert problems
    return problems[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: true", True),
        ("a: False", False),
        ("a: ~", None),
        ("a:", None),
        ("a: null", None),
        ("a: 5", 5),
        ("a: -5", -5),
        ("a: 0x1F", 31),
        ("a: 0o17", 15),
        ("a: 1.50", 1.5),
        ("a: 1e3", 1000.0),
        ("a: .5", 0.5),
        ("a: 9223372036854775807", 2**63 - 1),
        ("a: '5'", "5"),
        ("a: 'yes'", "yes"),
        ("a: y", "y"),
        ("a: 2024-01-31", "2024-01-31"),
        ("a: 1.2.3", "1.2.3"),
        ("a: Norway", "Norway"),
        ("a: |\n  b\n  c\n", "b\nc\n"),
        ('a: "\\u00e9\\U0001F600"', "é😀"),
        ('a: "\\ud83d\\ude00"', "😀"),
        ("a: {b: [1, {c: d}]}", {"b": [1, {"c": "d"}]}),
    ],
)
def test_a_scalar_has_the_meaning_of_yaml_1_2(text: str, value: Any) -> None:
    scalar = data(text)["a"]
    assert scalar == value
    assert type(scalar) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "suggestion"),
    [
        ("", 1, 1, "The file is empty", None),
        ("# nothing\n", 1, 1, "The file is empty", None),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "'a' appears twice; the first is in line 1", None),
        ("a: {b: 1, b: 2}", 1, 11, "'b' appears twice", None),
        (
            "a: !!python/object/apply:os.system [x]",
            1,
            4,
            "The tag '!!python/object/apply:os.system'",
            "plain",
        ),
        ("a: !env HOME", 1, 4, "The tag '!env'", "plain"),
        ("a: !!binary aGk=", 1, 4, "The tag '!!binary'", "plain"),
        ("a: &x 1\nb: 2", 1, 4, "The anchor '&x'", "Write the value out"),
        ("a: 1\nb: *a", 2, 4, "The alias '*a'", "Write the value out"),
        ("<<: {b: 1}", 1, 1, "The merge key", "Write the value out"),
        ("a: 1\n---\nb: 2\n", 2, 1, "more than one document", "---"),
        ("%YAML 1.1\n---\na: 1\n", 2, 1, "%YAML directive", None),
        ("a: no", 1, 4, "'no' is ambiguous", "Write false"),
        ("a: [Yes]", 1, 5, "'Yes' is ambiguous", "Write true"),
        ("a: off", 1, 4, "'off' is ambiguous", "Write false"),
        ("a: 010", 1, 4, "'010' is ambiguous", "quotes"),
        ("a: 1_000", 1, 4, "'1_000' is ambiguous", "quotes"),
        ("a: 12:30:00", 1, 4, "'12:30:00' is ambiguous", "quotes"),
        ("a: .nan", 1, 4, "is not finite", None),
        ("a: -.inf", 1, 4, "is not finite", None),
        ("a: 1e999", 1, 4, "is not finite", None),
        ("a: 9223372036854775808", 1, 4, "64 bits", None),
        ("a: " + "9" * 10_000, 1, 4, "64 bits", None),
        ("1: a", 1, 1, "The key 1 is not text", "'1'"),
        ("true: a", 1, 1, "The key true is not text", "'true'"),
        ("no: a", 1, 1, "The key 'no' is ambiguous", "'no'"),
        ("a: {010: b}", 1, 5, "The key '010' is ambiguous", "'010'"),
        ("\ufeffa: b", 1, 1, "U+FEFF is not allowed", None),
        ("a: !" + "x" * 1_000_000 + " b", 1, 4, "longer than 1,000 characters", None),
        ("a: !<" + "x" * 1_000_000 + "> b", 1, 4, "longer than 1,000 characters", None),
        ("a: {? [b] : c}", 1, 7, "A key must be plain text", "template"),
        ("a: {{ inputs.x }}", 1, 5, "A key must be plain text", "template"),
        ("a: 'b", 1, 6, "This is not YAML", None),
        ("a: [b", 1, 6, "This is not YAML", None),
        ("a: b: c", 1, 5, "This is not YAML", "quotes"),
        ("a: @b", 1, 4, "This is not YAML", "quotes"),
        ("\ta: b", 1, 1, "This is not YAML", "spaces"),
        ("a: b\n c: d", 2, 3, "This is not YAML", "quotes"),
        ("a: b\n\0", 2, 1, "U+0000 is not allowed", None),
        ("a: \ud800", 1, 4, "U+D800 is not allowed", None),
        ("a: \x07", 1, 4, "U+0007 is not allowed", None),
        ('a: "\\0"', 1, 4, "NUL character", None),
        ('a: "\\ud800"', 1, 4, "half of a surrogate pair", None),
        ('a: "\\U99999999"', 1, 1, "not a character", None),
        ('a: "\\xZZ"', 1, 7, "This is not YAML", None),
    ],
)
def test_features_of_yaml_beyond_json_are_refused(
    text: str, line: int, column: int, message: str, suggestion: str | None
) -> None:
    problem = first_problem(text)
    assert message in problem.message
    assert (problem.file, problem.line, problem.column) == ("w.yaml", line, column)
    assert (problem.suggestion is None) == (suggestion is None)
    assert suggestion is None or suggestion in (problem.suggestion or "")


def test_all_faults_are_found_at_once_with_their_paths() -> None:
    source, problems = read_yaml("a: no\nb: [&x 1, *x]\nc: {d: !t 1}\nd: 1\nd: 010\n")
    assert source is not None
    assert [problem.path for problem in problems] == ["a", "b[0]", "b[1]", "c.d", "d", None]


def test_an_alias_bomb_is_refused_without_being_unfolded() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{new}: &{new} [*{old}, *{old}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    _, problems = read_yaml("\n".join(lines))
    assert len(problems) == 9 + 16


def test_deep_nesting_is_refused() -> None:
    assert "64 levels" in first_problem("a: " + "[" * 100_000).message
    assert "64 levels" in first_problem("a: " + "{a: " * 70 + "}" * 70).message
    assert data("a: " + "[" * 60 + "]" * 60)


def test_a_scalar_is_read_in_linear_time() -> None:
    text = "1" + "_" * 100_000 + "x"
    assert data(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    "text", ["a: &{x} 1", "a: *{x}", "a: !{x} 1", "{x}: 1\n{x}: 2", "? {x}\n: 1\n? {x}\n: 2", "a: 1_{n}", "a: 1e9{n}"]
)
def test_no_message_repeats_a_long_text(text: str) -> None:
    long = text.replace("{x}", "x" * 900).replace("{n}", "0" * 5000)
    _, problems = read_yaml(long, "w.yaml")
    assert problems and all(len(str(problem)) < 400 for problem in problems)


def test_a_text_beyond_the_limit_is_refused() -> None:
    assert "larger than 1024 KiB" in first_problem("a: " + "b" * MAX_BYTES).message
    assert "larger than 1024 KiB" in first_problem("a: " + "é" * (MAX_BYTES // 2)).message


def test_a_text_with_too_many_values_is_refused() -> None:
    assert "more than 30,000 values" in first_problem("a: [" + "1, " * 100_000 + "]").message


def test_only_the_first_hundred_mistakes_are_reported() -> None:
    _, problems = read_yaml("a: 1\n" * 1000)
    assert len(problems) == 101
    with pytest.raises(InvalidDefinition) as caught:
        load_text("".join(f"key{number}: 1\n" for number in range(1000)))
    assert len(caught.value.errors) == 100


def test_places_are_kept_for_keys_and_values() -> None:
    source, _ = read_yaml("a:\n  - b: 'text'\n    c: 1.10\n")
    assert source is not None
    assert source.keys["a", 0, "c"] == Place(3, 5, 5)
    assert source.values["a", 0, "b"] == Place(2, 8, 9)
    assert source.numbers["a", 0, "c"] == "1.10"


def test_typed_keys_are_read_as_their_text_where_they_are_allowed() -> None:
    source, problems = read_yaml("a: {true: 1, False: 2, 5: 3, x: 4}", typed_keys=lambda path: path == ("a",))
    assert problems == []
    assert source is not None
    assert source.data == {"a": {"true": 1, "false": 2, "5": 3, "x": 4}}


FRAGMENTS = [
    *[
        "workflow_id: w\n",
        "nodes:\n",
        "  a:",
        "  b: {",
        "}",
        "handler: x",
        ", ",
        "next: ",
        "[",
        "]",
        "a",
        "b",
        "\n",
        "type: ",
        "fan_out",
        "conditional",
    ],
    *[
        "branches:",
        "- ",
        "condition: ",
        "'{{ nodes.a.output }}'",
        "{{",
        "retry: {",
        "depends_on: ",
        "inputs: ",
        "default: ",
        "'['",
    ],
    *[
        "&a ",
        "*a",
        "!!t ",
        "? ",
        "<<: ",
        "---\n",
        "true",
        "null",
        "010",
        "no",
        ".nan",
        "1e999",
        "-1",
        '"\\U99999999"',
        '"\\ud800"',
        "\t",
        "\x00",
        ">",
        "#",
        ": ",
    ],
]
PIECES = st.sampled_from(FRAGMENTS) | st.text(max_size=5)
EXAMPLE = (Path(__file__).parent / "files" / "every_node_type.yaml").read_text()


def load_and_look_at_the_complaints(text: str) -> None:
    details: tuple[Detail, ...] | None = None
    try:
        load_text(text, "w.yaml")
    except InvalidDefinition as error:
        details = error.errors
    assert details is None or details
    assert all(detail.file == "w.yaml" and detail.line for detail in details or ())


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_gives_a_definition_or_an_invalid_definition(text: str) -> None:
    load_and_look_at_the_complaints(text)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 30), PIECES),
        min_size=1,
        max_size=4,
    )
)
def test_a_file_with_typing_errors_gives_a_definition_or_an_invalid_definition(
    edits: list[tuple[int, int, str]],
) -> None:
    text = EXAMPLE
    for start, removed, added in edits:
        text = text[:start] + added + text[start + removed :]
    load_and_look_at_the_complaints(text)
