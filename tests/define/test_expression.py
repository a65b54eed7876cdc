"""What expressions mean, what they refuse, and that no text and no data makes them misbehave."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.define.expression import ROOTS, ExpressionSyntaxError, compile_expression
from holdfast.define.filters import FILTERS
from holdfast.define.operators import MAX_INTEGER, MAX_TEXT_CHARS
from holdfast.define.parser import MAX_DEPTH, MAX_NODES
from holdfast.define.tokens import MAX_SOURCE_CHARS
from holdfast.errors import TemplateError

SCOPE: dict[str, Any] = {
    "inputs": {
        "region": "CIV",
        "limit": 100,
        "ratio": 0.5,
        "flag": True,
        "nothing": None,
        "empty": "",
        "zero": 0,
        "braces": "{{ inputs.region }}",
        "_private": 1,
        "my-key": 2,
    },
    "nodes": {
        "validate": {"output": {"crs": "EPSG:4326", "bounds": [1, 2, 3, 4]}},
        "my-node": {"output": {"size": 7}},
        "list": {"output": [{"name": "b", "size": 2}, {"name": "a", "size": 3}, {"name": "c", "size": 1}]},
    },
    "item": {"items": "the key", "keys": 3, "if": 1, "in": 2, "values": {"count": 9}},
    "index": 4,
    "job": {"id": "8f2c"},
    "upstream": {"output": {"count": 11}},
}

VALID: list[tuple[str, Any]] = [
    # Literals
    ("1", 1),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    ("2.5e-1", 0.25),
    ("0", 0),
    (str(MAX_INTEGER), MAX_INTEGER),
    ("'a'", "a"),
    ('"it\'s"', "it's"),
    (r"'it\'s\n\t\\ \x41 \u00e9 \/'", "it's\n\t\\ A é /"),
    ("'größe 漢字'", "größe 漢字"),
    ("[true, false, none, null, True, False, None]", [True, False, None, None, True, False, None]),
    ("[]", []),
    ("[1, [2,],]", [1, [2]]),
    ('{"a": 1, \'b\': {"c": [2]}}', {"a": 1, "b": {"c": [2]}}),
    ("{}", {}),
    # Paths
    ("inputs", SCOPE["inputs"]),
    ("inputs.region", "CIV"),
    ("input.region", "CIV"),
    ("inputs . region", "CIV"),
    ('inputs["region"]', "CIV"),
    ("inputs['re' ~ 'gion']", "CIV"),
    ('inputs["_private"]', 1),
    ('inputs["my-key"]', 2),
    ('nodes["my-node"].output.size', 7),
    ("nodes.validate.output.bounds[0]", 1),
    ("nodes.validate.output.bounds[-1]", 4),
    ("nodes.validate.output.bounds.1", 2),
    ("nodes.list.output.0.name", "b"),
    ("nodes.list.output[index - 3].name", "a"),
    ("nodes.validate.output.bounds[1:3]", [2, 3]),
    ("nodes.validate.output.bounds[:2]", [1, 2]),
    ("nodes.validate.output.bounds[-2:]", [3, 4]),
    ("nodes.validate.output.bounds[3:1]", []),
    ("nodes.validate.output.bounds[:]", [1, 2, 3, 4]),
    ("inputs.region[0:2]", "CI"),
    ("upstream.output.count", 11),
    ("job.id", "8f2c"),
    ("[[1, 2], [3]][0][1]", 2),
    ('{"a": {"b": 5}}.a.b', 5),
    # Keys win over methods, and words over operators
    ("item.items", "the key"),
    ("item.keys", 3),
    ("item.values.count", 9),
    ("item.if + item.in", 3),
    # Arithmetic
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3.5),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("7 % 4", 3),
    ("2 ** 10", 1024),
    ("2 ** 3 ** 2", 512),
    ("-2 ** 2", -4),
    ("2 ** -1", 0.5),
    ("2 ** 62", 2**62),
    ("1 ** 999999999", 1),
    ("10 - 2 - 3", 5),
    ("- - 1", 1),
    ("1 + -1", 0),
    ("1 + 0.5", 1.5),
    ("inputs.limit * inputs.ratio", 50.0),
    ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]),
    ("'n' ~ 1 ~ true ~ 1.5 ~ [1, 'a'] ~ {'b': 1, 'a': 2}", 'n1true1.5[1,"a"]{"a":2,"b":1}'),
    # Comparisons and logic
    ("1 == 1.0", True),
    ("1 == true", False),
    ("[1] == [true]", False),
    ("0 == false", False),
    ("'1' == 1", False),
    ("none == null", True),
    ("{'a': [1, 2]} == {'a': [1, 2]}", True),
    ("{'a': 1} == {'b': 1}", False),
    ("[1, 2] != [1, 3]", True),
    ("[1] == [1, 2]", False),
    ("1 < 1.5", True),
    ("'a' < 'b'", True),
    ("2 >= 2 and 3 <= 4", True),
    ("1 in [1, 2]", True),
    ("true in [1, 2]", False),
    ("3 not in [1, 2]", True),
    ("not 3 in [1, 2]", True),
    ("'I' in inputs.region", True),
    ("'region' in inputs", True),
    ("1 in inputs", False),
    ("not true or true", True),
    ("true or false and false", True),
    ("inputs.empty or 'fallback'", "fallback"),
    ("inputs.region and 5", 5),
    ("false and nodes.missing.output", False),
    ("not not 1", True),
    ("1 + 1 == 2 and 'a' ~ 'b' == 'ab'", True),
    # Choices
    ("'a' if true else 'b'", "a"),
    ("'a' if 0 else 'b' if 0 else 'c'", "c"),
    ("'a' if false", None),
    ("inputs.missing if false else 1", 1),
    # Tests
    ("inputs.region is defined", True),
    ("inputs.missing is defined", False),
    ("inputs.missing.deep.er is not defined", True),
    ("inputs.nothing.deep is undefined", True),
    ("inputs.nothing is defined", True),
    ("nodes.list.output[9] is defined", False),
    ("inputs.nothing is none", True),
    ("inputs.nothing is null", True),
    ("inputs.region is not none", True),
    ("1 is number and 'a' is string and [] is list and {} is mapping and true is boolean", True),
    ("true is number", False),
    ("not inputs.missing is defined", True),
    ("1 is defined", True),
    ("[] | first is defined", False),
    # default
    ("inputs.missing | default('x')", "x"),
    ("inputs.missing.deep | default('x')", "x"),
    ("inputs.nothing.deep | default('x')", "x"),
    ("inputs.missing | default", ""),
    ("inputs.nothing | default('x')", None),
    ("inputs.nothing | default('x', true)", "x"),
    ("inputs.empty | default('x', true)", "x"),
    ("inputs.empty | default('x')", ""),
    ("inputs.zero | default(5, boolean=true)", 5),
    ("inputs.region | default(inputs.missing)", "CIV"),
    ("inputs.missing | default(inputs.gone) | default(3)", 3),
    ("inputs.missing[0:2] | default([])", []),
    ("[] | first | default(0)", 0),
    ("[] | max | default(0)", 0),
    # Filters
    ("'AbC' | lower ~ 'AbC' | upper", "abcABC"),
    ("'  a ' | trim", "a"),
    ("[1, 2] | length + 'abc' | length + {'a': 1} | length", 6),
    ("[1, 'a', true] | join(', ')", "1, a, true"),
    ("[] | join", ""),
    ("nodes.list.output | join('-', attribute='name')", "b-a-c"),
    ("'a,b,,c' | split(',')", ["a", "b", "", "c"]),
    ("' a  b ' | split", ["a", "b"]),
    ("'aXbX' | replace('X', '--')", "a--b--"),
    ("[3, 1] | first + [3, 1] | last", 4),
    ("' 12 ' | int", 12),
    ("'-3' | int", -3),
    ("3.9 | int", 3),
    ("true | int", 1),
    ("'x' | int(7)", 7),
    ("none | int(default=0)", 0),
    ("'1.5e2' | float", 150.0),
    ("3 | float", 3.0),
    ("'x' | float(0.5)", 0.5),
    ("true | string ~ 5 | string", "true5"),
    ("2.567 | round(1)", 2.6),
    ("2.1 | round(0, 'ceil')", 3.0),
    ("2.9 | round(method='floor')", 2.0),
    ("5 | round(2)", 5),
    ("-1 | abs", 1),
    ("-inputs.limit | abs", 100),
    ("[3, 1.5, 2] | min", 1.5),
    ("['b', 'a'] | max", "b"),
    ("(nodes.list.output | max(attribute='size')).name", "a"),
    ("[1, 2.5] | sum", 3.5),
    ("[] | sum", 0),
    ("nodes.list.output | sum(attribute='size')", 6),
    ("[3, 1, 2] | sort", [1, 2, 3]),
    ("['b', 'B', 'a'] | sort(reverse=true)", ["b", "a", "B"]),
    ("nodes.list.output | sort(attribute='name') | first", {"name": "a", "size": 3}),
    ("[1, 1.0, true, 'a', 'A', 'a', [1], [1], none] | unique", [1, True, "a", "A", [1], None]),
    ("{'b': [1, none], 'a': 'é\"'} | tojson", '{"a":"é\\"","b":[1,null]}'),
    ("'a,b' | split(',') | last | upper", "B"),
    ("'<b>' | tojson", '"<b>"'),
]


@pytest.mark.parametrize(("source", "expected"), VALID)
def test_valid_expression_gives_its_value(source: str, expected: Any) -> None:
    value = compile_expression(source).evaluate(SCOPE)
    assert value == expected
    assert type(value) is type(expected)


def test_every_filter_of_the_contract_exists_and_no_other() -> None:
    names = "default lower upper trim length join split replace first last int float string round abs min max"
    assert " ".join(FILTERS) == f"{names} sum sort unique tojson"


REFUSED: list[tuple[str, int, str]] = [
    ("", 0, "Expected a value, found the end"),
    ("   ", 3, "Expected a value"),
    ("1 +", 3, "Expected a value"),
    ("(1", 2, "Expected ')'"),
    ("[1, 2", 5, "Expected ','"),
    ("{'a' 1}", 5, "Expected ':'"),
    ("{a: 1}", 1, "Expected a key in quotes"),
    ("1 2", 2, "Expected the end, found '2'"),
    ("1 )", 2, "Expected the end, found ')'"),
    ("'abc", 0, "quote is never closed"),
    (r"'a\qb'", 2, "escape is not part"),
    (r"'\u0000'", 1, "escape is not part"),
    (r"'\ud800'", 1, "escape is not part"),
    ("1_000", 0, "not a number"),
    ("010", 0, "not a number"),
    ("0x10", 0, "not a number"),
    ("1.", 0, "not a number"),
    ("1.a", 0, "not a number"),
    ("9223372036854775808", 0, "too large"),
    ("9" * 4000, 0, "too large"),
    ("1e400", 0, "too large"),
    ("inputs.a[99999999999999999999]", 9, "too large"),
    ("inputs.99999999999999999999", 7, "too large"),
    ("٣", 0, "not part of the language"),
    ("inputs.größe", 9, 'written in brackets: item["größe"]'),
    # Names
    ("inptus.a", 0, "Unknown name 'inptus'. Did you mean 'inputs'?"),
    ("1 + node.x", 4, "Did you mean 'nodes'?"),
    ("large", 0, "Texts need quotes"),
    ("nodes.my-thing.output", 9, 'nodes["my-node"]'),
    ("secrets.KEY", 0, "Secrets cannot be used here"),
    ("env.HOME", 0, "Unknown name"),
    ("self", 0, "Unknown name"),
    # Attribute climbing and calls
    ("inputs.__class__", 7, "cannot begin with an underscore"),
    ("''.__class__.__mro__", 3, "cannot begin with an underscore"),
    ("inputs._k", 7, '["_k"]'),
    ("inputs.get('a')", 10, "There are no calls"),
    ("'{0.__class__}'.format(1)", 22, "There are no calls"),
    ("range(10)", 0, "There is no function 'range'"),
    ("lipsum()", 0, "There is no function"),
    ("(inputs)()", 8, "There are no calls"),
    ("lambda: 1", 0, "Unknown name"),
    ("[x for x in inputs]", 1, "Unknown name"),
    ("import os", 0, "Unknown name"),
    ("inputs.a := 1", 9, "Expected the end"),
    # Operators
    ("1 < 2 < 3", 6, "Comparisons cannot be chained"),
    ("1 == 2 in [3]", 7, "Comparisons cannot be chained"),
    ("inputs.a = 1", 9, "Compare with '=='"),
    ("1 & 2", 2, "'and'"),
    ("!inputs.a", 0, "'not'"),
    ("1 + not true", 4, "in parentheses"),
    ("+1", 0, "Expected a value"),
    ("1 ; 2", 2, "not part of the language"),
    ("[1, 2, 3][::2]", 11, "Expected a value"),
    # Filters and tests
    ("inputs.a | lenght", 11, "Unknown filter 'lenght'. Did you mean 'length'?"),
    ("inputs.a | attr('x')", 11, "Unknown filter 'attr'"),
    ("inputs.a | 1", 11, "Expected a filter's name"),
    ("'a' | replace('b')", 6, "needs the argument 'new'"),
    ("'a' | lower(1)", 12, "takes at most 0 arguments."),
    ("'a' | split(',', 1)", 17, "takes at most 1 argument."),
    ("[] | sort(revers=true)", 10, "takes no further argument 'revers'"),
    ("'a' | default('b', default_value='c')", 19, "takes no further argument"),
    ("inputs.a is strng", 12, "Unknown test 'strng'. Did you mean 'string'?"),
    ("inputs.a is", 11, "Expected a test"),
    ("inputs.a is sameas(1)", 12, "Unknown test"),
    # Statements and braces
    ("{{ inputs.a }}", 0, "'{{' is not allowed inside"),
    ("{% if 1 %}", 0, "Statements and comments"),
    ("{# no #}", 0, "not part of the language"),
    # Bounds
    ("1 +" + " " * MAX_SOURCE_CHARS + "1", 0, "at most 4096 characters"),
    ("'" + "a" * MAX_SOURCE_CHARS + "'", 0, "at most 4096 characters"),
    ("(" * 1000 + "1" + ")" * 1000, MAX_DEPTH, "nested too deeply"),
    ("[" * 1000, MAX_DEPTH, "nested too deeply"),
    ("-" * 2000 + "1", MAX_DEPTH, "nested too deeply"),
    ("not " * 1000 + "1", MAX_DEPTH * 4, "nested too deeply"),
    ("1" + "~1" * 500, 0, "nested too deeply"),
    ("inputs" + ".a" * 500, 0, "nested too deeply"),
    ("1" + "|abs" * 500, 0, "nested too deeply"),
    ("[" + "1," * (MAX_NODES + 1) + "]", 0, "too many parts"),
]


@pytest.mark.parametrize(("source", "position", "message"), REFUSED)
def test_refused_expression_says_why_and_where(source: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_expression(source)
    assert message in str(caught.value)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "nested",
    [
        "1 ** ",
        "1 if 1 else ",
        "1 or 1 and 1 == 1 + 1 ~ 1 * (",
        "[0, ",
        "{'a': ",
        "[1][",
        "1 | default(",
        "-(",
        "not (",
    ],
)
def test_no_construct_nests_into_a_recursion_error(nested: str) -> None:
    source = (nested * (MAX_SOURCE_CHARS // len(nested)))[:MAX_SOURCE_CHARS]
    with pytest.raises(ExpressionSyntaxError, match="nested too deeply"):
        compile_expression(source)


def test_root_that_is_not_allowed_in_this_place_is_refused_at_load() -> None:
    with pytest.raises(ExpressionSyntaxError, match="'item' cannot be used outside of a fan-out's task") as caught:
        compile_expression("inputs.a ~ item.b", {"inputs", "nodes", "job"})
    assert caught.value.position == 11
    assert caught.value.suggestion == "Names are: inputs, job, nodes."


def test_alias_is_allowed_exactly_where_its_root_is() -> None:
    assert compile_expression("input.a", {"inputs"}).paths == {("inputs", "a")}
    with pytest.raises(ExpressionSyntaxError, match="'input' cannot be used here"):
        compile_expression("input.a", {"nodes"})


FAILING: list[tuple[str, str]] = [
    ("nodes.validate.output.size_mb", "nodes.validate.output has no 'size_mb' (it has: crs, bounds)"),
    ("nodes.gone.output", "nodes has no 'gone' (it has: validate, my-node, list)"),
    ('nodes["my-node"].output.gone', "nodes[\"my-node\"].output has no 'gone'"),
    ("inputs.gone", "(it has: region, limit, ratio, flag, nothing, …)"),
    ("{}.a", "the value has no 'a' (it is empty)"),
    ("inputs.nothing.a", "inputs.nothing is null, so it has no 'a'"),
    ("inputs.region.a", "inputs.region is a string, so it has no 'a'"),
    ("inputs.region[0]", "a slice such as [0:1]"),
    ("nodes.list.output.name", "nodes.list.output is a list, so it has no 'name'"),
    ("nodes.list.output[3]", "nodes.list.output has no item 3 (its length is 3)"),
    ("nodes.list.output[-4].name", "has no item -4"),
    ("nodes.list.output[true]", "is a list, so it has no True"),
    ("nodes.list.output[index]", "nodes.list.output has no item there (its length is 3)"),
    ("inputs[inputs.region]", "inputs has no such key"),
    ("inputs[1]", "inputs is an object: its keys are strings, not a number"),
    ("inputs[1] | default(2)", "its keys are strings"),
    ("[1][0:'a']", "bounds are whole numbers"),
    ("5[0:1]", "only a list or a string"),
    ("inputs.missing is none", "inputs has no 'missing'"),
    ("inputs.missing | lower | default('x')", "inputs has no 'missing'"),
    ("(inputs.missing + 1) | default(0)", "inputs has no 'missing'"),
    ("(inputs.missing + 1) is defined", "inputs has no 'missing'"),
    ("[] | first", "'first' of an empty list"),
    ("1 + 'a'", "'+' cannot add a string to a number; join texts with ~"),
    ("1 + none", "'+' cannot add null to a number"),
    ("true + 1", "'+' cannot add a number to a boolean"),
    ("true * 2", "'*' works on two numbers, not on a boolean and a number"),
    ("'a' * 3", "'*' works on two numbers, not on a string and a number"),
    ("[1] * 3", "'*' works on two numbers"),
    ("'%s' % 1", "'%' works on two numbers"),
    ("-'a'", "'-' works on a number, not on a string"),
    ("-true", "'-' works on a number"),
    ("'5' < 10", "'<' cannot compare a string with a number; convert the string with: | int"),
    ("none > 1", "'>' cannot compare null with a number"),
    ("true < 2", "'<' cannot compare a boolean"),
    ("[1] < [2]", "'<' cannot compare a list"),
    ("1 in 5", "'in' needs a list, a string or an object"),
    ("1 in 'a1'", "'in' looks for a string"),
    ("1 / 0", "'/' divides by zero"),
    ("1 // 0.0", "divides by zero"),
    ("1 % 0", "divides by zero"),
    ("0 ** -1", "divides by zero"),
    ("(-8) ** 0.5", "not a finite number"),
    ("'a' ~ none", "null cannot become text"),
    ("none | string", "null cannot become text"),
    ("5 | lower", "'lower' works on a string, not on a number"),
    ("'abc' | first", "'first' works on a list"),
    ("5 | length", "'length' works on"),
    ("'a' | join", "'join' works on a list"),
    ("'a' | split('')", "separator that is not empty"),
    ("[1, 'a'] | sort", "list of numbers or a list of strings"),
    ("[true, false] | max", "list of numbers or a list of strings"),
    ("['a'] | sum", "'sum' needs a list of numbers"),
    ("nodes.list.output | sum(attribute='gone')", "no such attribute in item 0"),
    ("'3.5' | int", "'int' cannot convert a text"),
    ("'1_000' | int", "'int' cannot convert a text"),
    ("'٣' | int", "'int' cannot convert a text"),
    ("'0x1' | int", "'int' cannot convert a text"),
    ("none | int", "'int' cannot convert null"),
    ("[] | float", "'float' cannot convert a list"),
    ("'nan' | float", "'float' cannot convert a text"),
    ("'-Infinity' | float", "'float' cannot convert a text"),
    ("'1e400' | float", "not a finite number"),
    ("'1_0.5' | float", "'float' cannot convert a text"),
    ("'a' | round", "'round' works on a number"),
    ("1.5 | round(99999999)", "precision between 0 and 15"),
    ("1.5 | round(0, 'up')", "'ceil' and 'floor'"),
    ("1e308 | round(5, 'ceil')", "not a finite number"),
]


@pytest.mark.parametrize(("source", "message"), FAILING)
def test_failing_evaluation_names_what_is_wrong_and_the_expression(source: str, message: str) -> None:
    expression = compile_expression(source)
    with pytest.raises(TemplateError) as caught:
        expression.evaluate(SCOPE)
    assert message in caught.value.message
    assert source in caught.value.message
    assert caught.value.expression == source


def test_missing_root_is_an_error_that_default_catches() -> None:
    with pytest.raises(TemplateError, match="'upstream' has no value here"):
        compile_expression("upstream.output").evaluate({})
    assert compile_expression("upstream.output | default(1)").evaluate({}) == 1


@pytest.mark.parametrize(
    "source",
    [
        "inputs[inputs.k]",
        "inputs.k + 1",
        "inputs.k < 1",
        "inputs.k | int",
        "inputs.k.a",
        "inputs.k[0]",
        "[inputs.k, 1] | sort",
        "[inputs.k][inputs.k]",
        "[1] | sum(attribute=inputs.k)",
        "1.5 | round(0, inputs.k)",
    ],
)
def test_error_never_shows_a_value(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_expression(source).evaluate({"inputs": {"k": "s3cr3t"}})
    assert "s3cr3t" not in str(caught.value)


def test_long_expression_is_cut_in_the_message_and_whole_in_the_field() -> None:
    source = "inputs.gone ~ '" + "x" * 1000 + "'"
    with pytest.raises(TemplateError) as caught:
        compile_expression(source).evaluate(SCOPE)
    assert len(caught.value.message) < 400
    assert caught.value.expression == source


ATTACKS = [
    "2 ** 800000000",
    "10 ** 10 ** 10",
    "10 ** 19",
    "2 ** 63",
    "(-2) ** 9999999",
    "9.9 ** 99999",
    f"{MAX_INTEGER} + 1",
    f"-{MAX_INTEGER} - 1",
    f"{MAX_INTEGER} * {MAX_INTEGER}",
    "1e308 * 10",
    "1e308 + 1e308",
    "[1e308, 1e308] | sum",
    f"[{MAX_INTEGER}, 1] | sum",
    "'a' * 10 ** 9",
    "10 ** 9 * 'a'",
    "[[1]] * 10 ** 9",
    "'x' | replace('', 'yyyyy')",
    "'x'" + " | replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')" * 12,
    "inputs.big ~ inputs.big",
    "inputs.big + inputs.big",
    "[inputs.big, inputs.big] | join",
    "inputs.many | join(inputs.big)",
    "[inputs.big, inputs.big] | tojson",
    "inputs.big | replace('a', 'aaa')",
    "[" + "inputs.big | split('b')," * 100 + "]",
    "[" + "inputs.big ~ ''," * 100 + "]",
    "[" + "inputs.many + inputs.many," * 100 + "]",
    "[" + "inputs.many[1:]," * 100 + "]",
    "[" + "inputs.many | sort," * 100 + "]",
    "[" + "inputs.many | unique," * 100 + "]",
    "[" + "inputs.many | tojson," * 100 + "]",
    "[" + "inputs.many == inputs.many," * 60 + "]",
    "[" + "-1 in inputs.many," * 100 + "]",
    "[" + "inputs.big | upper," * 100 + "]",
    "inputs.digits | int",
    "inputs.digits | float",
    "inputs.long_integer ~ ''",
    "inputs.long_integer + 1",
    "inputs.long_integer / 3",
    "inputs.long_integer ** 2",
    "inputs.long_integer | float",
    "inputs.long_integer | tojson",
    "inputs.infinite + 1",
    "inputs.deep | tojson",
    "inputs.deep ~ ''",
    "[inputs.deep] | unique",
    "inputs.surrogate | tojson",
]


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, Any] = {
    "inputs": {
        "big": "ab" * (MAX_TEXT_CHARS // 2 - 10),
        "many": list(range(50_000)),
        "digits": "9" * 5000,
        "long_integer": 10**5000,
        "infinite": math.inf,
        "deep": _deep(5000),
        "surrogate": ["\ud800"],
    }
}


@pytest.mark.parametrize("source", ATTACKS, ids=lambda source: source[:60])
def test_attack_is_refused_before_it_allocates(source: str) -> None:
    expression = compile_expression(source)
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            expression.evaluate(HOSTILE)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 32 * 1024 * 1024


def test_comparing_deep_data_does_not_recurse() -> None:
    scope = {"inputs": {"a": _deep(5000), "b": _deep(5000)}}
    assert compile_expression("inputs.a == inputs.b").evaluate(scope) is True


def test_work_is_counted_per_evaluation_and_not_over_many() -> None:
    expression = compile_expression("inputs.many | sort | length")
    for _ in range(100):
        assert expression.evaluate(HOSTILE) == 50_000


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("nodes.inventory.output.groups", {("nodes", "inventory", "output", "groups")}),
        ('nodes["my-node"].output[0].x', {("nodes", "my-node", "output", 0, "x")}),
        ("nodes[inputs.which].output", {("nodes",), ("inputs", "which")}),
        ("nodes.a.output[1:][0].x", {("nodes", "a", "output")}),
        ("input.a > 1 and item.b | default(job.id) in [index]", {
            ("inputs", "a"), ("item", "b"), ("job", "id"), ("index",),
        }),
        ("inputs.a is defined", {("inputs", "a")}),
        ("{'k': upstream.output} if inputs.c else [nodes]", {
            ("upstream", "output"), ("inputs", "c"), ("nodes",),
        }),
        ("inputs.a[true]", {("inputs", "a")}),
        ("inputs.a[-1]", {("inputs", "a", -1)}),
        ("1 + 1", set()),
    ],
)  # fmt: skip
def test_an_expression_knows_its_paths_and_roots(source: str, paths: set[tuple[Any, ...]]) -> None:
    expression = compile_expression(source)
    assert expression.paths == paths
    assert expression.roots == {path[0] for path in paths}


def test_data_with_braces_stays_data() -> None:
    assert compile_expression("inputs.braces").evaluate(SCOPE) == "{{ inputs.region }}"
    assert compile_expression("inputs.braces ~ '!'").evaluate(SCOPE) == "{{ inputs.region }}!"


TOKENS = r"""inputs nodes item . a [ ] ( ) { } {{ }} ' " \ | default join if else not in is defined and or
    + - ** * / ~ < == = , : 1 0 1e 1.5 _ é true none % 9999999999999999999"""
FRAGMENTS = [*TOKENS.split(), " ", "\n", "\0"]


@settings(deadline=None, database=None, max_examples=500)
@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS)).map("".join)))
def test_any_text_is_parsed_or_refused_with_an_offset_inside_it(text: str) -> None:
    position = 0
    try:
        compile_expression(text)
    except ExpressionSyntaxError as error:
        position = error.position
    assert 0 <= position <= len(text)


def _joined(*parts: Any) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(p) if isinstance(p, str) else p for p in parts)).map("".join)


LEAVES = """inputs inputs.region inputs.limit inputs.nothing inputs.missing inputs.braces index item.items
    nodes.list.output nodes.validate.output.bounds
    1 0 -2 0.5 9223372036854775807 1e300 'a' '' '12' true none [] [1,2] {}"""
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
TESTS = ["defined", "undefined", "none", "string", "number", "boolean", "list", "mapping"]
CALLS = [
    *(name for name in FILTERS if name != "replace"),
    "replace('a', 'bb')",
    "default(1, true)",
    "join(',')",
]
CALLS += ["sort(reverse=true)", "sort(attribute='name')", "int(0)", "round(2, 'ceil')", "split(',')"]


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _joined("(", inner, " ", st.sampled_from(OPERATORS), " ", inner, ")"),
        _joined("(", inner, " | ", st.sampled_from(CALLS), ")"),
        _joined("(", inner, st.sampled_from([" is ", " is not "]), st.sampled_from(TESTS), ")"),
        _joined("(", inner, " if ", inner, " else ", inner, ")"),
        _joined(st.sampled_from(["(-", "(not "]), inner, ")"),
        _joined("[", inner, ", ", inner, "]"),
        _joined("{'k': ", inner, "}"),
        _joined("(", inner, ")", st.sampled_from(["[0]", "[-1]", "[1:]", ".k", ".name", "[index]"])),
        _joined("(", inner, ")[", inner, "]"),
    )


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(child) for key, child in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) <= MAX_INTEGER
    return value is None or isinstance(value, str)


@settings(deadline=None, database=None, max_examples=1000)
@given(st.recursive(st.sampled_from(LEAVES.split()), _larger, max_leaves=12))
def test_evaluation_gives_a_json_value_or_a_template_error(source: str) -> None:
    expression = compile_expression(source)
    assert expression.roots <= ROOTS
    try:
        value = expression.evaluate(SCOPE)
    except TemplateError as error:
        value = error.expression
    assert _is_json(value)
