"""Params, sources and results with `{{ expression }}` in their texts, compiled once and rendered per task.

Only the definition's own text is parsed; values that a rendering inserts stay data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from holdfast.define.expression import Expression, ExpressionSyntaxError, Path, compile_embedded
from holdfast.define.operators import Budget, EvaluationError, to_text
from holdfast.define.parser import SECRETS, refuse_whitespace_control

# Deeper params are a mistake or an attack; compiling and rendering recurse once or twice a level.
MAX_DEPTH = 64

_OPENING = re.compile(r"\{[{%#]")
_Render = Callable[[Mapping[str, Any], Budget], Any]


class Template:
    """A JSON value with compiled expressions.

    Renderings share the constant parts and the values of paths: do not change what `render` returns.
    """

    __slots__ = ("_constant", "_render", "is_constant", "paths", "roots")

    def __init__(self, constant: Any, render: _Render | None, expressions: list[Expression]) -> None:
        self._constant = constant
        self._render = render
        self.is_constant = render is None
        self.paths: frozenset[Path] = frozenset().union(*(e.paths for e in expressions))
        self.roots: frozenset[str] = frozenset().union(*(e.roots for e in expressions))

    def render(self, scope: Mapping[str, Any]) -> Any:
        """The value in this scope. A TemplateError names the place, such as `params.group.name`.

        All expressions together have one budget, so that many small ones cannot add up to a large one.
        """
        if self._render is None:
            return self._constant
        return self._render(scope, Budget())


def compile_template(value: Any, allowed_roots: AbstractSet[str], where: str = "params") -> Template:
    """Compiles any JSON value. Raises the ExpressionSyntaxError of its first mistake."""
    compiler = _Compiler(allowed_roots, where)
    render = compiler.compile(value, ())
    if compiler.errors:
        raise compiler.errors[0]
    return Template(value, render, compiler.expressions)


def template_errors(value: Any, allowed_roots: AbstractSet[str]) -> list[ExpressionSyntaxError]:
    """Every mistake in a value at once; each error's `path` holds the keys that lead to its text."""
    compiler = _Compiler(allowed_roots, "")
    compiler.compile(value, ())
    return compiler.errors


def always_text(text: str, allowed_roots: AbstractSet[str]) -> bool:
    """Whether the rendering of a text is a text, whatever its expressions give."""
    parts = _parts_of(text, allowed_roots)
    return not _is_native(parts) or bool(_secrets_of(parts))


def secrets_in(text: str, allowed_roots: AbstractSet[str]) -> tuple[str, ...]:
    """The names of the secrets that a text refers to, in order, each as often as it stands there."""
    return _secrets_of(_parts_of(text, allowed_roots))


class _Compiler:
    """Turns a value into a function that renders it, or into None if it is constant."""

    def __init__(self, allowed_roots: AbstractSet[str], where: str) -> None:
        self.errors: list[ExpressionSyntaxError] = []
        self.expressions: list[Expression] = []
        self._allowed_roots = allowed_roots
        self._where = where

    def compile(self, value: Any, path: Path) -> _Render | None:
        try:
            if len(path) > MAX_DEPTH:
                raise ExpressionSyntaxError(f"Nested too deeply (more than {MAX_DEPTH} levels).", 0)
            match value:
                case str():
                    return self._text(value, path)
                case dict():
                    return self._object(value, path)
                case list():
                    return self._list(value, path)
                case None | bool() | int():
                    return None
                case float() if math.isfinite(value):
                    return None
            raise ExpressionSyntaxError(f"{type(value).__name__} is not a JSON value.", 0)
        except ExpressionSyntaxError as error:
            error.path = path
            self.errors.append(error)
            return None

    def _object(self, value: dict[Any, Any], path: Path) -> _Render | None:
        if not all(isinstance(key, str) for key in value):
            raise ExpressionSyntaxError("The keys of an object must be strings.", 0)
        compiled = {key: self.compile(child, (*path, key)) for key, child in value.items()}
        changing = [(key, render) for key, render in compiled.items() if render is not None]
        if not changing:
            return None
        if len(changing) == len(value):
            return lambda scope, budget: {key: render(scope, budget) for key, render in changing}

        def render_object(scope: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
            rendered = dict(value)
            for key, render in changing:
                rendered[key] = render(scope, budget)
            return rendered

        return render_object

    def _list(self, value: list[Any], path: Path) -> _Render | None:
        compiled = [self.compile(child, (*path, index)) for index, child in enumerate(value)]
        changing = [(index, render) for index, render in enumerate(compiled) if render is not None]
        if not changing:
            return None

        def render_list(scope: Mapping[str, Any], budget: Budget) -> list[Any]:
            rendered = list(value)
            for index, render in changing:
                rendered[index] = render(scope, budget)
            return rendered

        return render_list

    def _text(self, text: str, path: Path) -> _Render | None:
        parts = _parts_of(text, self._allowed_roots)
        expressions = [part for part in parts if isinstance(part, Expression)]
        if not expressions:
            return None
        self.expressions.extend(expressions)
        where = self._where + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
        return _native(expressions[0], where) if _is_native(parts) else _joined(parts, where)


def _is_native(parts: list[str | Expression]) -> bool:
    """Whether a text is one expression and nothing else."""
    others = [part for part in parts if isinstance(part, str)]
    return len(parts) - len(others) == 1 and not any(part.strip() for part in others)


def _parts_of(text: str, allowed_roots: AbstractSet[str]) -> list[str | Expression]:
    """The literal texts and the expressions of a text, in order."""
    parts: list[str | Expression] = []
    position = 0
    while opening := _OPENING.search(text, position):
        if opening.group() != "{{":
            raise ExpressionSyntaxError(
                f"'{opening.group()}' begins a statement or comment, which templates cannot contain.",
                opening.start(),
                f'Write it as {{{{ "{opening.group()}" }}}} if it is meant as text.',
            )
        refuse_whitespace_control(text, opening.end())
        expression, end = compile_embedded(text, opening.end(), allowed_roots)
        if opening.start() > position:
            parts.append(text[position : opening.start()])
        parts.append(expression)
        position = end
    if position < len(text):
        parts.append(text[position:])
    return parts


def _secrets_of(parts: list[str | Expression]) -> tuple[str, ...]:
    # A secret stands alone in its braces.
    paths = [path for part in parts if isinstance(part, Expression) for path in part.paths]
    return tuple(str(path[1]) for path in paths if path[0] == SECRETS)


def _native(expression: Expression, where: str) -> _Render:
    """A text that is one expression and nothing else keeps the value's type."""
    run = expression.run

    def render(scope: Mapping[str, Any], budget: Budget) -> Any:
        try:
            return run(scope, budget)
        except EvaluationError as error:
            raise expression.failure(error, where) from None

    return render


def _joined(parts: list[str | Expression], where: str) -> _Render:
    """Text with expressions gives a text. Its length is checked before it is joined."""
    first = next(part for part in parts if isinstance(part, Expression))

    def render(scope: Mapping[str, Any], budget: Budget) -> str:
        current = first
        try:
            texts: list[str] = []
            for part in parts:
                if isinstance(part, str):
                    texts.append(part)
                else:
                    current = part
                    texts.append(to_text(part.run(scope, budget), budget))
            budget.spend_text(sum(map(len, texts)))
        except EvaluationError as error:
            raise current.failure(error, where) from None
        return "".join(texts)

    return render
