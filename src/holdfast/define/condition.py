"""Conditions of conditionals: every spelling becomes one expression, checked at load and stored as its text.

In a condition `{{ … }}` is an operand, never text: `{{ nodes.v.output.size }} > 100` is stored as
`(nodes.v.output.size) > 100`. The result counts as in Jinja: null, false, 0, "" and empty lists and
objects are false, everything else is true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from holdfast.define.expression import ROOTS, Expression, ExpressionSyntaxError, Path, compile_expression
from holdfast.define.parser import Parser
from holdfast.define.tree import Literal

DEFAULT_BRANCH = "default"

_BEGINS_WITH_OPERATOR = re.compile(r"""[<>=!]|(?:in|is|not\s+in)(?=[\s\[({'"])""")
# Words, codes, dates, versions: texts without quotes that cannot be mistaken for an expression.
_BARE_TEXT = re.compile(r"\w[\w ./:@+-]*")


class Condition:
    """A normalised condition, ready to be evaluated as often as wanted."""

    __slots__ = ("_expression",)

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    @property
    def text(self) -> str:
        return self._expression.source

    @property
    def roots(self) -> frozenset[str]:
        return self._expression.roots

    @property
    def paths(self) -> frozenset[Path]:
        return self._expression.paths

    def evaluate(self, scope: Mapping[str, Any]) -> bool:
        return bool(self._expression.evaluate(scope))


def compile_condition(text: str, allowed_roots: AbstractSet[str] = ROOTS) -> Condition:
    """Compiles a condition that has already been normalised, as a definition stores it."""
    return Condition(compile_expression(text, allowed_roots))


def normalise_condition(text: str, allowed_roots: AbstractSet[str] = ROOTS) -> str:
    """The text that a definition stores: `{{ x }}` becomes `(x)`, the rest stays as it was written."""
    return _normalised(text, allowed_roots)[0]


def branch_condition(field: str, test: Any, allowed_roots: AbstractSet[str] = ROOTS) -> str:
    """The condition of one branch under `condition_field`.

    A test is the rest of a comparison (`< 100`, `in ['a', 'b']`), a whole condition with `{{ … }}`,
    or a value that the field must equal: a number, a boolean, null, or a text with or without quotes.
    An error's `path` is ("field",) or ("test",), and its position lies in that text.
    """
    subject = _placed("field", _subject, field, allowed_roots)
    tested = _placed("test", _tested, subject, test, allowed_roots)
    return _placed("test", _storable, tested, allowed_roots)


def map_condition(condition: str, key: Any, allowed_roots: AbstractSet[str] = ROOTS) -> str | None:
    """The condition of one key of `branches`: the value equals the key. None for the default branch.

    `true` and `false` match only booleans, as `==` does: a condition that gives "yes" takes neither.
    """
    if key == DEFAULT_BRANCH:
        return None
    subject = _placed("field", _subject, condition, allowed_roots)
    literal = _placed("test", _literal, key)
    return _placed("test", _storable, f"{subject} == {literal}", allowed_roots)


def _normalised(text: str, allowed_roots: AbstractSet[str]) -> tuple[str, bool]:
    """The normalised text, and whether it is one `{{ … }}` and nothing else."""
    parser = Parser(text, allowed_roots, braces=True)
    parser.parse_all()
    normalised, position = "", 0
    for opened, closed in parser.operands:
        normalised += f"{text[position:opened]}({text[opened + 2 : closed - 2].strip()})"
        position = closed
    outside = [text[: parser.operands[0][0]], text[position:]] if len(parser.operands) == 1 else [text]
    return (normalised + text[position:]).strip(), not "".join(outside).strip()


def _storable(text: str, allowed_roots: AbstractSet[str]) -> str:
    """Checks the whole: parts within the limits of length and depth may exceed them together."""
    try:
        compile_expression(text, allowed_roots)
    except ExpressionSyntaxError as error:
        raise ExpressionSyntaxError(error.message, 0, error.suggestion) from error
    return text


def _placed(place: str, function: Any, *arguments: Any) -> str:
    try:
        return str(function(*arguments))
    except ExpressionSyntaxError as error:
        error.path = (place,)
        raise


def _subject(field: str, allowed_roots: AbstractSet[str]) -> str:
    """The field in exactly one pair of parentheses."""
    normalised, is_one_operand = _normalised(field, allowed_roots)
    return normalised if is_one_operand else f"({normalised})"


def _tested(subject: str, test: Any, allowed_roots: AbstractSet[str]) -> str:
    if isinstance(test, str) and _BEGINS_WITH_OPERATOR.match(test.strip()):
        return f"{subject} {_rest_of_comparison(test, allowed_roots)}"
    if isinstance(test, str) and "{{" in test:
        return normalise_condition(test, allowed_roots)
    return f"{subject} == {_literal(test)}"


def _rest_of_comparison(test: str, allowed_roots: AbstractSet[str]) -> str:
    """Checks `< 100` by putting a number in the field's place, which keeps the offsets simple."""
    stand_in = "0 "
    try:
        return normalise_condition(stand_in + test, allowed_roots)[len(stand_in) :].lstrip()
    except ExpressionSyntaxError as error:
        error.position = max(0, error.position - len(stand_in))
        raise


def _literal(value: Any) -> str:
    """A value as an expression. YAML and Python give the same: 5 and "5" are the number, large the text."""
    if isinstance(value, str):
        stripped = value.strip()
        if _is_literal(stripped):
            return stripped
        if not _BARE_TEXT.fullmatch(stripped) or _reads_a_path(stripped):
            # An expression without braces must not silently become a text that equals nothing.
            raise ExpressionSyntaxError(
                "This is neither a comparison nor a plain value.",
                0,
                "Put an expression in {{ … }} and a text in quotes of its own, such as \"'two words!'\".",
            )
        return json.dumps(stripped, ensure_ascii=False)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ExpressionSyntaxError(f"A value of type {type(value).__name__} cannot be used in a comparison.", 0)


def _is_literal(text: str) -> bool:
    """Whether a text is a number, a boolean, null or a text in quotes."""
    try:
        return isinstance(Parser(text, frozenset()).parse_all(), Literal)
    except ExpressionSyntaxError:
        return False


def _reads_a_path(text: str) -> bool:
    try:
        return any(len(path) > 1 for path in compile_expression(text).paths)
    except ExpressionSyntaxError:
        return False
