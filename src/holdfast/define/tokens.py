"""The tokens of expressions: text becomes one token at a time, or an error with its offset."""

from __future__ import annotations

import re
from typing import NoReturn

# The other limits of an expression follow from this one.
MAX_SOURCE_CHARS = 4096


class ExpressionSyntaxError(ValueError):
    """A text is not a valid expression.

    `position` is the 0-based offset in the text; inside params, `path` holds the keys that lead to it.
    """

    def __init__(self, message: str, position: int, suggestion: str | None = None) -> None:
        super().__init__(f"{message} {suggestion}" if suggestion else message)
        self.message = message
        self.position = position
        self.suggestion = suggestion
        self.path: tuple[str | int, ...] = ()


_TOKEN_PARTS = r"""
    (?P<space>[ \t\r\n]+)
  | (?P<number>{number})
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<symbol>\*\*|//|==|!=|<=|>=|[-+*/%~<>=|.,:()\[\]{{}}])
"""
_TOKEN = re.compile(_TOKEN_PARTS.format(number=r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"), re.VERBOSE | re.DOTALL)
# After a dot, `a.0.5` is two indexes, not the number 0.5.
_TOKEN_AFTER_DOT = re.compile(_TOKEN_PARTS.format(number="[0-9]+"), re.VERBOSE | re.DOTALL)
HINTS = {
    "=": "Compare with '=='.",
    "(": "There are no functions and no methods; a filter is written: value | name.",
    "&": "Join conditions with 'and'.",
    "!": "Negate with 'not'.",
    "other letters": 'A key with other letters is written in brackets: item["größe"].',
}


class TokenReader:
    """Reads `text` from `start`, one token at a time."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self._start = start
        self._end = min(len(text), start + MAX_SOURCE_CHARS + 1)
        self._kind = self._token = ""
        self._position = self._next = start
        self._advance()

    def _advance(self) -> None:
        if self._kind == "end":
            return
        pattern = _TOKEN_AFTER_DOT if self._token == "." and self._kind == "symbol" else _TOKEN
        while True:
            self._position = self._next
            if self._position - self._start > MAX_SOURCE_CHARS:
                self._fail(f"An expression may have at most {MAX_SOURCE_CHARS} characters.", self._start)
            if self._position == self._end:
                self._kind, self._token = "end", ""
                return
            match = pattern.match(self.text, self._position, self._end)
            if match is None:
                self._bad_character()
            self._next = match.end()
            if match.lastgroup != "space":
                break
        self._kind, self._token = str(match.lastgroup), match.group()
        if self._kind == "number" and pattern is _TOKEN:
            self._check_number()

    def _bad_character(self) -> NoReturn:
        character = self.text[self._position]
        if character in "'\"":
            if self._end < len(self.text):
                self._fail(f"An expression may have at most {MAX_SOURCE_CHARS} characters.", self._start)
            self._fail("This quote is never closed.")
        hint = HINTS.get(character) or (None if character.isascii() else HINTS["other letters"])
        self._fail(f"{character!r} is not part of the language.", suggestion=hint)

    def _check_number(self) -> None:
        following = self.text[self._next : self._next + 1]
        leading_zero = len(self._token) > 1 and self._token[0] == "0" and self._token[1].isdigit()
        if leading_zero or following == "_" or following == "." or following.isalnum():
            self._fail(
                "This is not a number.",
                suggestion="Numbers are written like 12, 0.5 or 1e6; texts need quotes.",
            )

    def _at(self, *tokens: str) -> bool:
        return self._kind in ("symbol", "name") and self._token in tokens

    def _take(self, token: str) -> bool:
        if self._at(token):
            self._advance()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._unexpected(f"'{token}'")

    def _closing_braces(self) -> int:
        if not (self._at("}") and self.text.startswith("}}", self._position)):
            self._unexpected("'}}'")
        return self._position + 2

    def _fail(self, message: str, position: int | None = None, suggestion: str | None = None) -> NoReturn:
        raise ExpressionSyntaxError(message, self._position if position is None else position, suggestion)

    def _unexpected(self, expected: str) -> NoReturn:
        if self._at("=", "("):
            self._fail(f"'{self._token}' is not part of the language here.", suggestion=HINTS[self._token])
        actual = "the end" if self._kind == "end" else f"'{self._token[:40]}'"
        self._fail(f"Expected {expected}, found {actual}.")
