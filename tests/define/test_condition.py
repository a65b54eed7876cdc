"""Every spelling of a condition becomes one expression; ambiguous ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.define.condition import branch_condition, compile_condition, map_condition, normalise_condition
from holdfast.define.expression import ROOTS, ExpressionSyntaxError
from holdfast.define.parser import Parser
from holdfast.define.tokens import MAX_SOURCE_CHARS
from holdfast.errors import TemplateError

SCOPE: dict[str, Any] = {
    "inputs": {"limit": 100, "kind": "large", "flag": True, "nothing": None, "word": "in progress"},
    "nodes": {"v": {"output": {"size": 150, "kind": "large", "ok": True}}},
}
FIELD = "{{ nodes.v.output.size }}"


@pytest.mark.parametrize(
    ("text", "stored", "result"),
    [
        ("{{ nodes.v.output.size }} > 100", "(nodes.v.output.size) > 100", True),
        ("{{ nodes.v.output.size > inputs.limit }}", "(nodes.v.output.size > inputs.limit)", True),
        ("nodes.v.output.size > 100", "nodes.v.output.size > 100", True),
        (" {{inputs.kind}} == 'x' and {{ inputs.flag }} ", "(inputs.kind) == 'x' and (inputs.flag)", False),
        ("not {{ inputs.flag }}", "not (inputs.flag)", False),
        (
            "{{ inputs.limit }} + 50 == {{ nodes.v.output.size }}",
            "(inputs.limit) + 50 == (nodes.v.output.size)",
            True,
        ),
        ("{{ inputs }}.limit  <  {{\n 200 \n}}", "(inputs).limit  <  (200)", True),
        ("{{ 1 + 1 }} * 3 == 6", "(1 + 1) * 3 == 6", True),
        ("{{ {'a': {'b': 1}} }}.a.b == 1", "({'a': {'b': 1}}).a.b == 1", True),
        ("{{ '{{' in 'a{{b' }}", "('{{' in 'a{{b')", True),
        ("true", "true", True),
    ],
)
def test_spelling_is_stored_with_parentheses_for_braces(text: str, stored: str, result: bool) -> None:
    assert normalise_condition(text) == stored
    assert compile_condition(stored).evaluate(SCOPE) is result


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("'{{ inputs.kind }}' == 'large'", 0, "Remove the quotes"),
        ("inputs.kind == 'a {{ inputs.kind }}'", 15, "Remove the quotes"),
        ("{{ inputs.kind == large }}", 18, "Unknown name 'large'. Texts need quotes"),
        ("{{ inputs.a }} {{ inputs.b }}", 15, "Expected the end"),
        ("{{ inputs.a > 1", 15, "Expected '}}', found the end"),
        ("{{ {{ inputs.a }} }}", 3, "'{{' is not allowed inside"),
        ("{{- inputs.a }}", 2, "'{{-' and '{{+'"),
        ("{% if inputs.a %}", 0, "Statements and comments"),
        ("{{ inputs.a }} = 1", 15, "Compare with '=='"),
        ("1 < {{ inputs.a }} < 3", 19, "cannot be chained"),
        ("item.a > 1", 0, "'item' cannot be used outside of a fan-out's task"),
        ("", 0, "Expected a value"),
    ],
)
def test_condition_that_could_be_misread_is_refused_with_its_offset(text: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        normalise_condition(text, ROOTS - {"item", "index"})
    assert message in str(caught.value)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("test", "stored", "result"),
    [
        ("< 100", "(nodes.v.output.size) < 100", False),
        (">= 5", "(nodes.v.output.size) >= 5", True),
        ("  >=5 ", "(nodes.v.output.size) >=5", True),
        ("!= 3", "(nodes.v.output.size) != 3", True),
        ("== 'large'", "(nodes.v.output.size) == 'large'", False),
        ("in [150, 'b']", "(nodes.v.output.size) in [150, 'b']", True),
        ("in[150]", "(nodes.v.output.size) in[150]", True),
        ("not in [150]", "(nodes.v.output.size) not in [150]", False),
        ("is defined", "(nodes.v.output.size) is defined", True),
        ("> {{ inputs.limit }}", "(nodes.v.output.size) > (inputs.limit)", True),
        ("> 100 and {{ inputs.flag }}", "(nodes.v.output.size) > 100 and (inputs.flag)", True),
        ("{{ inputs.limit }} > 5", "(inputs.limit) > 5", True),
        (150, "(nodes.v.output.size) == 150", True),
        ("150", "(nodes.v.output.size) == 150", True),
        (-1.5, "(nodes.v.output.size) == -1.5", False),
        ("-1.5", "(nodes.v.output.size) == -1.5", False),
        (True, "(nodes.v.output.size) == true", False),
        ("true", "(nodes.v.output.size) == true", False),
        (None, "(nodes.v.output.size) == null", False),
        ("large", '(nodes.v.output.size) == "large"', False),
        (" 'large' ", "(nodes.v.output.size) == 'large'", False),
        ("2024-01-01", '(nodes.v.output.size) == "2024-01-01"', False),
        ("10-20", '(nodes.v.output.size) == "10-20"', False),
        ("größe 1", '(nodes.v.output.size) == "größe 1"', False),
        ("inside", '(nodes.v.output.size) == "inside"', False),
        ("item", '(nodes.v.output.size) == "item"', False),
    ],
)
def test_branch_tests_the_field(test: Any, stored: str, result: bool) -> None:
    assert branch_condition(FIELD, test) == stored
    assert branch_condition(" nodes.v.output.size ", test) == stored
    assert compile_condition(stored).evaluate(SCOPE) is result


def test_field_of_several_operands_is_kept_together() -> None:
    stored = branch_condition("{{ nodes.v.output.size }} - {{ inputs.limit }}", "== 50")
    assert stored == "((nodes.v.output.size) - (inputs.limit)) == 50"
    assert compile_condition(stored).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("field", "test", "path", "position", "message"),
    [
        ("{{ inptus.a }}", "< 1", "field", 3, "Did you mean 'inputs'?"),
        (FIELD, "< limit", "test", 2, "Unknown name 'limit'"),
        (FIELD, "  < limit", "test", 4, "Unknown name 'limit'"),
        (FIELD, "= 5", "test", 0, "Compare with '=='"),
        (FIELD, "<", "test", 1, "Expected a value"),
        (FIELD, "< 5) or (1", "test", 3, "Expected the end"),
        (FIELD, "in progress", "test", 3, "Texts need quotes"),
        (FIELD, "{{ inputs.a } > 1", "test", 12, "Expected '}}'"),
        (FIELD, "nodes.v.output.size", "test", 0, "Put an expression in {{ … }}"),
        (FIELD, "size > 5", "test", 0, "Put an expression in {{ … }}"),
        (FIELD, "two words!", "test", 0, "a text in quotes of its own"),
        (FIELD, "", "test", 0, "neither a comparison nor a plain value"),
        (FIELD, [1], "test", 0, "A value of type list cannot be used in a comparison"),
        (FIELD, float("nan"), "test", 0, "Unknown name 'NaN'"),
        (FIELD, "== '" + "x" * (MAX_SOURCE_CHARS - 10) + "'", "test", 0, "at most"),
    ],
)
def test_wrong_branch_is_refused_with_its_place(field: str, test: Any, path: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        branch_condition(field, test)
    assert message in str(caught.value)
    assert caught.value.path == (path,)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("condition", "key", "stored", "result"),
    [
        ("{{ nodes.v.output.size > 100 }}", True, "(nodes.v.output.size > 100) == true", True),
        ("{{ nodes.v.output.size }} > 100", "false", "((nodes.v.output.size) > 100) == false", False),
        ("nodes.v.output.size > 100", "true", "(nodes.v.output.size > 100) == true", True),
        ("{{ nodes.v.output.kind }}", "large", '(nodes.v.output.kind) == "large"', True),
        ("{{ nodes.v.output.kind }}", "'large'", "(nodes.v.output.kind) == 'large'", True),
        ("{{ nodes.v.output.size }}", 150, "(nodes.v.output.size) == 150", True),
        ("{{ nodes.v.output.size }}", True, "(nodes.v.output.size) == true", False),
        ("{{ inputs.nothing }}", None, "(inputs.nothing) == null", True),
        ("{{ inputs.word }}", "in progress", '(inputs.word) == "in progress"', True),
    ],
)
def test_key_of_branches_is_compared_with_the_value(condition: str, key: Any, stored: str, result: bool) -> None:
    assert map_condition(condition, key) == stored
    assert compile_condition(stored).evaluate(SCOPE) is result


def test_default_key_of_branches_has_no_condition() -> None:
    assert map_condition("{{ inputs.kind }}", "default") is None


@pytest.mark.parametrize("key", ["> 5", "{{ inputs.kind }}", "inputs.kind", "a|b"])
def test_key_of_branches_that_looks_like_an_expression_is_refused(key: str) -> None:
    with pytest.raises(ExpressionSyntaxError, match="neither a comparison nor a plain value"):
        map_condition("{{ inputs.kind }}", key)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("0", False),
        ("''", False),
        ("none", False),
        ("[]", False),
        ("{}", False),
        ("5", True),
        ("'no'", True),
        ("[0]", True),
    ],
)
def test_result_is_true_or_false_as_in_jinja(text: str, result: bool) -> None:
    assert compile_condition(text).evaluate({}) is result


def test_condition_knows_its_paths_and_shows_its_text_in_errors() -> None:
    condition = compile_condition("(nodes.v.output.gone) > inputs.limit")
    assert condition.roots == {"nodes", "inputs"}
    assert condition.paths == {("nodes", "v", "output", "gone"), ("inputs", "limit")}
    with pytest.raises(TemplateError, match=r"nodes\.v\.output has no 'gone'") as caught:
        condition.evaluate(SCOPE)
    assert caught.value.expression == condition.text == "(nodes.v.output.gone) > inputs.limit"


LEAVES = ["inputs.a", "nodes['{'].b", "1", "'}}'", '"{"', "{'k': {'l': 1}}", "{}"]


def _operations(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    infix = st.sampled_from([" == ", " and ", " or ", " ~ ", "-", " in ", " if "])
    return st.one_of(
        st.tuples(inner, infix, inner).map(lambda parts: f"({''.join(parts)})"),
        inner.map(lambda text: f"not ({text})"),
        inner.map(lambda text: f"({text})[0].k"),
        inner.map(lambda text: f"({text}) | default([ {text} ])"),
    ).map(lambda text: f"({text})")


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), _operations, max_leaves=4)
SPACES = st.sampled_from(["", " ", "\n  "])
BRACED = st.tuples(SPACES, EXPRESSIONS, SPACES).map(lambda parts: f"{{{{ {''.join(parts)} }}}}")


@settings(deadline=None, database=None, max_examples=500)
@given(st.recursive(BRACED, _operations, max_leaves=4), SPACES)
def test_stored_text_means_what_was_written(text: str, space: str) -> None:
    stored = normalise_condition(space + text + space)
    assert Parser(stored, ROOTS).parse_all() == Parser(text, ROOTS, braces=True).parse_all()
    assert compile_condition(stored).text == stored


@settings(deadline=None, database=None, max_examples=500)
@given(st.text() | st.from_regex(r"\w[\w ./:@+-]*") | st.integers() | st.floats() | st.booleans() | st.none())
def test_any_test_becomes_an_acceptable_condition_or_is_refused(test: Any) -> None:
    for make in (branch_condition, map_condition):
        try:
            stored = make(FIELD, test)
        except ExpressionSyntaxError:
            continue
        if stored is not None:
            assert compile_condition(stored).text == stored
