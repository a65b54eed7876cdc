"""The grammar of expressions: text becomes a small frozen tree, or an error with its offset.

There are no calls, no attributes and no statements. Knows nothing of data; expression.py evaluates the tree.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NoReturn

from holdfast.define.filters import FILTERS
from holdfast.define.operators import MAX_INTEGER, TESTS
from holdfast.define.tokens import HINTS, ExpressionSyntaxError, TokenReader
from holdfast.define.tree import (
    Binary,
    Choice,
    Filtered,
    ListOf,
    Literal,
    Member,
    Negative,
    Not,
    ObjectOf,
    Root,
    Secret,
    Slice,
    Test,
    Tree,
    children,
)

# Parsing takes at most six Python frames a level, evaluating two: far below Python's recursion limit.
MAX_DEPTH = 64
# Keeps the work of one evaluation small even when each step is cheap.
MAX_NODES = 1000

ROOTS = frozenset({"inputs", "nodes", "item", "index", "job", "upstream"})
SECRETS = "secrets"
SECRET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*\Z")
"""As in names of variables. Two underscores separate a tenant from a name there."""
SECRET_LENGTH = 100
ALIASES = {"input": "inputs"}
_ONLY_IN_ITEMS = {"item", "index"}


_KEYWORD_ARGUMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t\r\n]*=(?!=)")
_IN = re.compile(r"[ \t\r\n]+in(?![A-Za-z0-9_])")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "/": "/"}

_ALONE = "Write {{ secrets.NAME }}; text may stand before and after the braces."
_SECRET_RULE = "Write secrets.NAME: a letter first, then letters, digits and single underscores, at most 100 in all."

_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}
_CONSTANTS |= {"True": True, "False": False, "None": None}
_WORDS = {"and", "or", "not", "in", "is", "if", "else"}
_COMPARISONS = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"}
# Jinja's precedence; `**` is the only one that groups from the right.
_BINDING = {"or": 1, "and": 2, **dict.fromkeys(_COMPARISONS, 4), "+": 5, "-": 5, "~": 6}
_BINDING |= {"*": 7, "/": 7, "//": 7, "%": 7, "**": 9}
_NOT_BINDING, _NEGATIVE_BINDING = 3, 8


class Parser(TokenReader):
    """Reads one expression from `text`, beginning at `start`.

    With `braces`, `{{ … }}` is an operand, and `operands` has the place of each.
    """

    def __init__(self, text: str, allowed_roots: AbstractSet[str], *, start: int = 0, braces: bool = False) -> None:
        super().__init__(text, start)
        self.operands: list[tuple[int, int]] = []
        self._allowed_roots = allowed_roots
        self._braces = braces
        self._depth = 0
        self._secret_at: int | None = None

    def parse_all(self) -> Tree:
        """The whole text as one expression."""
        tree = self._expression()
        if self._kind != "end":
            self._unexpected("the end")
        return self._bounded(tree)

    def parse_embedded(self) -> tuple[Tree, int]:
        """The expression before the next `}}`, and the offset after the braces."""
        try:
            tree = self._expression()
            end = self._closing_braces()
        except ExpressionSyntaxError:
            if self._kind == "end":
                raise ExpressionSyntaxError("'{{' is never closed.", self._start - 2) from None
            raise
        if self._secret_at is not None and not isinstance(tree, Secret):
            self._fail("A secret stands alone in its braces: nothing can be computed from it.", self._secret_at, _ALONE)
        return self._bounded(tree), end

    def _too_deep(self, position: int | None = None) -> NoReturn:
        self._fail(f"The expression is nested too deeply (more than {MAX_DEPTH} levels).", position)

    def _bounded(self, tree: Tree) -> Tree:
        """Checks the finished tree again: a left-leaning chain such as a + b + c is deep without nesting."""
        level, depth, seen = [tree], 0, 0
        while level:
            depth, seen = depth + 1, seen + len(level)
            if depth > MAX_DEPTH:
                self._too_deep(self._start)
            level = [child for parent in level for child in children(parent)]
        if seen > MAX_NODES:
            self._fail(f"The expression has too many parts (more than {MAX_NODES}).", self._start)
        return tree

    def _expression(self) -> Tree:
        tree = self._operation(0)
        if not self._take("if"):
            return tree
        condition = self._operation(0)
        if not self._take("else"):
            return Choice(condition, tree, Literal(None))
        self._depth += 1
        otherwise = self._expression()
        self._depth -= 1
        return Choice(condition, tree, otherwise)

    def _operation(self, minimum: int, *, filters: bool = True) -> Tree:
        """Precedence climbing: an operand, then each operator that binds at least as tightly as `minimum`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._too_deep()
        tree = self._operand(minimum, filters)
        compared = False
        while (operator := self._operator()) is not None and _BINDING[operator] >= minimum:
            binding = _BINDING[operator]
            if compared and operator in _COMPARISONS:
                self._fail("Comparisons cannot be chained.", suggestion="Join two of them with 'and'.")
            compared = operator in _COMPARISONS
            self._advance()
            if operator == "not in":
                self._advance()
            right = self._operation(_NEGATIVE_BINDING if operator == "**" else binding + 1, filters=filters)
            tree = Binary(operator, tree, right)
        self._depth -= 1
        return tree

    def _operator(self) -> str | None:
        if self._at("not") and _IN.match(self.text, self._next, self._end):
            return "not in"
        return self._token if self._at(*_BINDING) else None

    def _operand(self, minimum: int, filters: bool) -> Tree:
        if self._at("not"):
            if minimum > _NOT_BINDING:
                self._fail("'not' is not allowed here.", suggestion="Put it and its operand in parentheses.")
            self._advance()
            return Not(self._operation(_NOT_BINDING))
        # As in Jinja, a filter takes the negative number: -1 | abs is 1.
        is_negative = self._take("-")
        tree = _negative(self._operation(_NEGATIVE_BINDING, filters=False)) if is_negative else self._primary()
        return self._filters(tree) if filters else tree

    def _primary(self) -> Tree:
        tree: Tree
        if self._kind == "number":
            tree = self._number()
        elif self._kind == "string":
            tree = self._string()
        elif self._kind == "name" and self._token not in _WORDS:
            tree = self._name()
        elif self._at("{") and self.text.startswith(("{%", "{#"), self._position):
            self._fail("Statements and comments are not part of the language.")
        elif self._at("{") and self.text.startswith("{{", self._position):
            tree = self._braced()
        elif self._take("("):
            tree = self._expression()
            self._expect(")")
        elif self._take("["):
            tree = ListOf(tuple(self._until("]")))
        elif self._take("{"):
            tree = self._object()
        else:
            self._unexpected("a value")
        return self._members(tree)

    def _number(self) -> Literal:
        digits = self._token
        value = int(digits) if digits.isdigit() and len(digits) <= 19 else float(digits)
        if value == math.inf or (digits.isdigit() and value > MAX_INTEGER):
            self._fail("This number is too large.")
        self._advance()
        return Literal(value)

    def _string(self) -> Literal:
        token, position = self._token, self._position
        if self._braces and "{{" in token:
            self._fail(
                "'{{ … }}' inside quotes stays text in a condition.",
                suggestion="Remove the quotes: {{ … }} is an operand. Join texts with ~.",
            )

        def unescape(match: re.Match[str]) -> str:
            code = match[1] or match[2]
            character = chr(int(code, 16)) if code else _ESCAPED.get(match[3])
            if character is None or character == "\0" or "\ud800" <= character <= "\udfff":
                self._fail("This escape is not part of the language.", position + 1 + match.start())
            return character

        value = _ESCAPE.sub(unescape, token[1:-1])
        self._advance()
        return Literal(value)

    def _name(self) -> Tree:
        name, position = self._token, self._position
        self._advance()
        if name in _CONSTANTS:
            return Literal(_CONSTANTS[name])
        if self._at("("):
            self._fail(f"There is no function '{name[:40]}'.", position, HINTS["("])
        root = ALIASES.get(name, name)
        if root not in self._allowed_roots:
            self._unknown_name(name, position)
        return self._secret(position) if root == SECRETS else Root(root)

    def _secret(self, position: int) -> Secret:
        has_name = self._take(".") and self._kind == "name"
        name = self._token if has_name else ""
        if not SECRET_NAME.match(name) or len(name) > SECRET_LENGTH:
            self._fail("This is not the name of a secret.", position, _SECRET_RULE)
        self._advance()
        self._secret_at = position
        return Secret(name)

    def _unknown_name(self, name: str, position: int) -> NoReturn:
        allowed = sorted(set(self._allowed_roots) - ALIASES.keys())
        known = ", ".join(allowed)
        if name == SECRETS:
            self._fail("Secrets cannot be used here.", position, "Only params of a handler may have them.")
        if ALIASES.get(name, name) in ROOTS:
            where = " outside of a fan-out's task" if name in _ONLY_IN_ITEMS else " here"
            self._fail(f"'{name}' cannot be used{where}.", position, f"Names are: {known}.")
        suggestion = _did_you_mean(name, allowed) or f"Texts need quotes; names are: {known}."
        if re.search(r"[A-Za-z0-9_]-$", self.text[max(0, position - 2) : position]):
            suggestion = 'A key with a hyphen is written in brackets: nodes["my-node"].'
        self._fail(f"Unknown name '{name[:40]}'.", position, suggestion)

    def _braced(self) -> Tree:
        if not self._braces:
            self._fail("'{{' is not allowed inside an expression.")
        opened = self._position
        self._advance()
        refuse_whitespace_control(self.text, self._next)
        self._advance()
        self._braces = False
        tree = self._expression()
        self._braces = True
        closed = self._closing_braces()
        self.operands.append((opened, closed))
        self._advance()
        self._advance()
        return tree

    def _until(self, closing: str) -> Iterable[Tree]:
        while not self._take(closing):
            yield self._expression()
            if not self._at(closing):
                self._expect(",")

    def _object(self) -> ObjectOf:
        keys: list[str] = []
        values: list[Tree] = []
        while not self._take("}"):
            if self._kind != "string":
                self._unexpected("a key in quotes")
            keys.append(str(self._string().value))
            self._expect(":")
            values.append(self._expression())
            if not self._at("}"):
                self._expect(",")
        return ObjectOf(tuple(keys), tuple(values))

    def _members(self, tree: Tree) -> Tree:
        while True:
            if self._take("."):
                tree = Member(tree, self._key())
            elif self._take("["):
                tree = self._index(tree)
            elif self._at("("):
                self._fail("There are no calls.", suggestion=HINTS["("])
            else:
                return tree

    def _key(self) -> Literal:
        key: str | int = self._token
        if self._kind == "number":
            key = int(key) if len(self._token) <= 19 else self._fail("This number is too large.")
        elif self._kind != "name":
            self._unexpected("a key after the dot")
        elif self._token.startswith("_"):
            self._fail(
                f"'.{self._token[:40]}' is refused: a name after a dot cannot begin with an underscore.",
                suggestion=f'A key is also written in brackets: ["{self._token[:40]}"].',
            )
        self._advance()
        return Literal(key)

    def _index(self, base: Tree) -> Tree:
        start: Tree = Literal(None)
        if not self._at(":"):
            start = self._expression()
        if not self._take(":"):
            self._expect("]")
            return Member(base, start)
        stop: Tree = Literal(None) if self._at("]") else self._expression()
        self._expect("]")
        return Slice(base, start, stop)

    def _filters(self, tree: Tree) -> Tree:
        while True:
            if self._take("|"):
                tree = self._filter(tree)
            elif self._take("is"):
                tree = self._test(tree)
            else:
                return tree

    def _test(self, operand: Tree) -> Tree:
        negated = self._take("not")
        name = {"null": "none", "None": "none"}.get(self._token, self._token)
        if self._kind != "name":
            self._unexpected("a test after 'is'")
        if name not in (*TESTS, "defined", "undefined"):
            suggestion = _did_you_mean(name, TESTS) or f"Tests are: defined, undefined, {', '.join(TESTS)}."
            self._fail(f"Unknown test '{name[:40]}'.", suggestion=suggestion)
        self._advance()
        if name == "undefined":
            name, negated = "defined", not negated
        tree = Test(name, operand)
        return Not(tree) if negated else tree

    def _filter(self, operand: Tree) -> Tree:
        name, position = self._token, self._position
        if self._kind != "name":
            self._unexpected("a filter's name after '|'")
        if name not in FILTERS:
            suggestion = _did_you_mean(name, FILTERS) or f"Filters are: {', '.join(FILTERS)}."
            self._fail(f"Unknown filter '{name[:40]}'.", suggestion=suggestion)
        self._advance()
        arguments = self._arguments(name) if self._take("(") else {}
        missing = [p for p in FILTERS[name].required if p not in arguments]
        if missing:
            self._fail(f"The filter '{name}' needs the argument '{missing[0]}'.", position)
        return Filtered(name, operand, tuple(arguments), tuple(arguments.values()))

    def _arguments(self, name: str) -> dict[str, Tree]:
        parameters = FILTERS[name].parameters
        arguments: dict[str, Tree] = {}
        while not self._take(")"):
            position = self._position
            keyword = _KEYWORD_ARGUMENT.match(self.text, position, self._end) if self._kind == "name" else None
            if keyword:
                parameter = keyword[1]
                self._advance()
                self._advance()
            elif len(arguments) < len(parameters):
                parameter = parameters[len(arguments)]
            else:
                noun = "argument" if len(parameters) == 1 else "arguments"
                self._fail(f"The filter '{name}' takes at most {len(parameters)} {noun}.")
            if parameter not in parameters or parameter in arguments:
                self._fail(f"The filter '{name}' takes no further argument '{parameter[:40]}'.", position)
            arguments[parameter] = self._expression()
            if not self._at(")"):
                self._expect(",")
        return arguments


def _negative(operand: Tree) -> Tree:
    """A negative number is a literal, so that `a[-1]` is a path like `a[1]`."""
    value = operand.value if isinstance(operand, Literal) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Literal(-value)
    return Negative(operand)


def refuse_whitespace_control(text: str, position: int) -> None:
    """Refuses `{{- x }}`: Jinja's whitespace control would be read as a minus."""
    if text.startswith(("-", "+"), position):
        raise ExpressionSyntaxError(
            "'{{-' and '{{+' are not part of the language.",
            position,
            "For a negative number write {{ -1 }}, with a space.",
        )


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name[:40], sorted(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else None
