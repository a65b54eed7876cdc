"""Templates keep native types, refuse statements at load, name the place of an error, never render data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.define.expression import ROOTS, ExpressionSyntaxError
from holdfast.define.operators import MAX_TEXT_CHARS
from holdfast.define.template import MAX_DEPTH, compile_template, template_errors
from holdfast.errors import TemplateError

SCOPE: dict[str, Any] = {
    "inputs": {"region": "CIV", "limit": 100, "ratio": 0.5, "flag": True, "nothing": None, "list": [1, "a"]},
    "nodes": {"inventory": {"output": {"groups": [{"key": "g1"}]}}},
    "item": {"key": "k1", "text": "{{ inputs.region }}"},
    "index": 3,
}


def render(value: Any, scope: dict[str, Any] = SCOPE) -> Any:
    return compile_template(value, ROOTS).render(scope)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{ inputs.limit }}", 100),
        ("  {{ inputs.limit }}\n", 100),
        ("{{inputs.flag}}", True),
        ("{{ inputs.nothing }}", None),
        ("{{ inputs.list }}", [1, "a"]),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{{'a': 1}}}", {"a": 1}),
        ("{{ '}}' }}", "}}"),
        ('{{ "{{" }}', "{{"),
        ('{{ "{{" }} x }}', "{{ x }}"),
        ('{{ "{%" }}', "{%"),
        ("{{ 1\n +\n 1 }}", 2),
        ("n={{ inputs.limit }}", "n=100"),
        ("{{ inputs.flag }}/{{ inputs.ratio }}/{{ index }}", "true/0.5/3"),
        ("{{ index }}{{ index }}", "33"),
        ("{{ index }} ", 3),
        ("x: {{ inputs.list }} {{ {'b': 1, 'a': none} }}", 'x: [1,"a"] {"a":null,"b":1}'),
        ("{{ inputs.nothing | default('-', true) }}!", "-!"),
        ("plain", "plain"),
        ("", ""),
        ("a } b }} c { d", "a } b }} c { d"),
        ("größe {{ item.key }} 漢", "größe k1 漢"),
        (5, 5),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ([], []),
        (["{{ index }}", "a", ["{{ item.key }}"]], [3, "a", ["k1"]]),
        (
            {"a": "{{ index }}", "b": {"c": [1, {"d": "x{{ index }}"}]}},
            {"a": 3, "b": {"c": [1, {"d": "x3"}]}},
        ),
        ({"{{ index }}": "{{ index }}"}, {"{{ index }}": 3}),
    ],
)
def test_value_is_rendered(value: Any, expected: Any) -> None:
    rendered = render(value)
    assert rendered == expected
    assert type(rendered) is type(expected)


def test_order_of_keys_is_kept() -> None:
    assert list(render({"z": "{{ index }}", "a": 1, "m": "{{ index }}"})) == ["z", "a", "m"]
    assert list(render({"z": "{{ index }}", "a": "{{ index }}"})) == ["z", "a"]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("{{ inputs.a", 0, "'{{' is never closed"),
        ("ab {{ inputs.a }", 15, "Expected '}}', found '}'"),
        ("{{", 0, "'{{' is never closed"),
        ("{{ 'abc }}", 3, "quote is never closed"),
        ("{{ }}", 3, "Expected a value, found '}'"),
        ("{{ inputs.a b }}", 12, "Expected '}}', found 'b'"),
        ("x {{ inptus.a }}", 5, "Did you mean 'inputs'?"),
        ("{{ index }} {{ index | lenght }}", 23, "Did you mean 'length'?"),
        ("{{ {{ index }} }}", 3, "'{{' is not allowed inside an expression"),
        ("a {% if x %}", 2, "'{%' begins a statement or comment"),
        ("{{ index }}{# note #}", 11, "'{#' begins a statement or comment"),
        ("{{- index }}", 2, "'{{-' and '{{+' are not part"),
        ("{{ index -}}", 10, "Expected a value, found '}'"),
        ("{{ " + "(" * 3000, 67, "nested too deeply"),
        ("{{ " + "1 + " * 2000 + "1 }}", 2, "at most 4096 characters"),
    ],
)
def test_mistake_in_a_text_is_refused_at_load_with_its_offset(text: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_template({"group": [text]}, ROOTS)
    assert message in str(caught.value)
    assert caught.value.position == position
    assert caught.value.path == ("group", 0)


def test_all_mistakes_of_a_value_are_found_at_once() -> None:
    value = {"a": "{{ x }}", "b": ["fine {{ index }}", {"c": "{% y %}"}], "d": "{{ item.z }}"}
    errors = template_errors(value, {"inputs", "index"})
    assert [(error.path, error.position) for error in errors] == [
        (("a",), 3),
        (("b", 1, "c"), 0),
        (("d",), 3),
    ]
    assert template_errors({"a": "{{ index }}"}, ROOTS) == []


def test_item_is_refused_where_there_are_no_items() -> None:
    with pytest.raises(ExpressionSyntaxError, match="'item' cannot be used outside of a fan-out's task"):
        compile_template("{{ item.key }}", {"inputs", "nodes", "job"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not a JSON value"),
        ({1, 2}, "set is not a JSON value"),
        ({1: "a"}, "keys of an object must be strings"),
        (b"x", "bytes is not a JSON value"),
    ],
)
def test_a_value_that_is_not_json_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError, match=message) as caught:
        compile_template({"a": value}, ROOTS)
    assert caught.value.path == ("a",)


def test_params_nest_up_to_the_bound_and_no_deeper() -> None:
    value: Any = "{{ index }}"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert compile_template(value, ROOTS).roots == {"index"}
    with pytest.raises(ExpressionSyntaxError, match="Nested too deeply"):
        compile_template({"a": value}, ROOTS)
    for _ in range(50_000):
        value = [value]
    assert len(template_errors(value, ROOTS)) == 1


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        (
            {"group": {"name": "{{ item.gone }}"}},
            "params.group.name",
            "item has no 'gone' (it has: key, text)",
        ),
        ({"list": [1, "a{{ 1 / 0 }}"]}, "params.list[1]", "divides by zero"),
        ("{{ inputs.nothing }} km", "params", "null cannot become text; give a replacement"),
    ],
)
def test_error_names_the_place_in_the_params(value: Any, where: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(value)
    assert caught.value.message.startswith(f"{where}: ")
    assert message in caught.value.message
    assert f"{{{{ {caught.value.expression} }}}}" in caught.value.message
    assert caught.value.errors[0].path == where


def test_place_is_named_after_what_is_compiled() -> None:
    with pytest.raises(TemplateError, match=r"^result\.a: "):
        compile_template({"a": "{{ item.gone }}"}, ROOTS, where="result").render(SCOPE)


def test_template_without_expressions_is_a_shared_constant() -> None:
    value = {"a": [1, {"b": "text"}]}
    template = compile_template(value, ROOTS)
    assert template.is_constant
    assert template.render({}) is value
    assert template.roots == frozenset()
    assert template.paths == frozenset()


def test_renderings_share_static_parts_and_do_not_change_the_source() -> None:
    value = {"static": {"big": [1, 2, 3]}, "moving": "{{ index }}"}
    template = compile_template(value, ROOTS)
    assert not template.is_constant
    one, other = template.render({"index": 1}), template.render({"index": 2})
    assert (one["moving"], other["moving"]) == (1, 2)
    assert one["static"] is other["static"] is value["static"]
    assert value["moving"] == "{{ index }}"


def test_roots_and_paths_are_those_of_all_expressions() -> None:
    template = compile_template({"a": "{{ input.x }}", "b": ["{{ item.y }}-{{ nodes.n.output }}"]}, ROOTS)
    assert template.roots == {"inputs", "item", "nodes"}
    assert template.paths == {("inputs", "x"), ("item", "y"), ("nodes", "n", "output")}


def test_data_with_braces_is_never_rendered() -> None:
    assert render("{{ item.text }}") == "{{ inputs.region }}"
    assert render("<{{ item.text }}>") == "<{{ inputs.region }}>"
    assert render({"a": "{{ [item.text] }}"}) == {"a": ["{{ inputs.region }}"]}
    assert render("{{ '{' ~ '{ index }}' }}") == "{{ index }}"


@settings(deadline=None, database=None)
@given(st.text(alphabet="{}%# ilndexputs.'\"") | st.just("{{ index }}"))
def test_text_in_data_is_rendered_unchanged(text: str) -> None:
    scope = {"item": {"text": text}, "index": 7}
    assert render("{{ item.text }}", scope) == text
    assert render("a{{ item.text }}b", scope) == f"a{text}b"
    assert render(["{{ item.text ~ '' }}"], scope) == [text]


@settings(deadline=None, database=None, max_examples=500)
@given(
    st.text()
    | st.lists(st.sampled_from(["{{", "}}", "{", "}", "{%", "{#", "-", " ", "index", "'", "a", "|"])).map("".join)
)
def test_any_text_is_a_template_or_refused_with_an_offset_inside_it(text: str) -> None:
    errors = template_errors(text, ROOTS)
    assert all(0 <= error.position <= len(text) for error in errors)
    if "{" not in text:
        assert render(text) == text


def test_many_expressions_in_one_text_cannot_add_up() -> None:
    scope = {"item": "x" * (MAX_TEXT_CHARS // 2)}
    with pytest.raises(TemplateError, match="longer than"):
        render("{{ item }}" * 1000, scope)


def test_long_text_of_many_small_expressions_is_rendered() -> None:
    assert render("{{ item }}, " * 500, {"item": "x" * 1000}) == ("x" * 1000 + ", ") * 500


def test_many_expressions_in_one_value_share_one_budget() -> None:
    scope = {"item": "x" * (MAX_TEXT_CHARS // 2)}
    with pytest.raises(TemplateError, match=r"params\[3\]: this expression takes too many steps"):
        render(["{{ item ~ '!' }}"] * 1000, scope)
