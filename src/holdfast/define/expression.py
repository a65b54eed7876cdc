"""A parsed expression that can be evaluated: the tree of parser.py compiled to closures, once, at load.

The language looks like Jinja, with less power: literals, paths into a scope, operators, tests and the filters
of filters.py. A path finds keys of objects and items of lists, never attributes, so that `x.items` is the key
"items". A missing key or item is an error, unless `default` or `is defined` catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from holdfast.define.filters import FILTERS
from holdfast.define.operators import (
    OPERATORS,
    TESTS,
    Budget,
    EvaluationError,
    UndefinedError,
    member,
    negate,
    slice_of,
)
from holdfast.define.parser import ROOTS, SECRETS, Parser
from holdfast.define.tokens import ExpressionSyntaxError
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
from holdfast.errors import Detail, TemplateError, cut

__all__ = ["ROOTS", "Expression", "ExpressionSyntaxError", "Path", "compile_expression"]

Path = tuple[str | int, ...]
Scope = Mapping[str, Any]
Run = Callable[[Scope, Budget], Any]

# How many characters of an expression a message shows.
_SHOWN_CHARS = 200
# Filters whose own result can be undefined: `default` and `is defined` catch that too.
_CAN_BE_UNDEFINED = {"first", "last", "min", "max", "default"}


class Expression:
    """One compiled expression."""

    __slots__ = ("paths", "roots", "run", "source", "spends")

    def __init__(self, tree: Tree, source: str) -> None:
        self.source = source
        self.paths = frozenset(_paths_of(tree))
        self.roots = frozenset(str(path[0]) for path in self.paths)
        self.run: Run = _compile(tree)
        # A plain path creates no values, so it needs no budget.
        self.spends = not isinstance(tree, Literal | Root) and _static_path(tree) is None

    def evaluate(self, scope: Scope) -> Any:
        """The value in this scope, or a TemplateError that carries the expression and no data."""
        try:
            return self.run(scope, Budget() if self.spends else _UNUSED)
        except EvaluationError as error:
            raise self.failure(error) from None

    def failure(self, error: EvaluationError, where: str | None = None) -> TemplateError:
        message = f"{error} in {{{{ {cut(self.source, _SHOWN_CHARS)} }}}}"
        failure = TemplateError(f"{where}: {message}" if where else message, expression=self.source)
        failure.errors = (Detail(message, path=where),)
        return failure

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


_UNUSED = Budget()


def compile_expression(source: str, allowed_roots: AbstractSet[str] = ROOTS) -> Expression:
    """Parses and compiles `source`, or raises an ExpressionSyntaxError with the offset of the mistake."""
    return Expression(Parser(source, allowed_roots).parse_all(), source.strip())


def compile_embedded(text: str, start: int, allowed_roots: AbstractSet[str]) -> tuple[Expression, int]:
    """The expression that begins behind a `{{` and the offset behind its `}}`."""
    tree, end = Parser(text, allowed_roots, start=start).parse_embedded()
    return Expression(tree, text[start : end - 2].strip()), end


def secret_reference(name: str) -> str:
    """What stands for a secret everywhere but in the worker that runs the handler."""
    return f"{{{{ {SECRETS}.{name} }}}}"


def _static_path(tree: Tree) -> Path | None:
    """The keys of a path that has only constant keys; None for everything else."""
    keys: list[str | int] = []
    while isinstance(tree, Member):
        key = tree.key.value if isinstance(tree.key, Literal) else None
        if isinstance(key, bool) or not isinstance(key, str | int):
            return None
        keys.append(key)
        tree = tree.base
    if isinstance(tree, Secret):
        return (SECRETS, tree.name)
    return (tree.name, *reversed(keys)) if isinstance(tree, Root) else None


def _paths_of(tree: Tree) -> set[Path]:
    paths: set[Path] = set()
    waiting = [tree]
    while waiting:
        current = waiting.pop()
        path = _static_path(current)
        if path is not None:
            paths.add(path)
        else:
            waiting.extend(children(current))
    return paths


def _shown(tree: Tree) -> str:
    """A path as its author wrote it; computed keys are data and are not shown."""
    match tree:
        case Root(name):
            return name
        case Member(base, Literal(str(key))):
            return f"{_shown(base)}.{key}" if key.isidentifier() else f'{_shown(base)}["{key}"]'
        case Member(base, Literal(int(key))):
            return f"{_shown(base)}[{key}]"
        case Member(base, _) | Slice(base, _, _):
            return f"{_shown(base)}[…]"
        case _:
            return "the value"


def _compile(tree: Tree) -> Run:
    match tree:
        case Literal(value):
            return lambda scope, budget: value
        case Secret(name):
            reference = secret_reference(name)
            return lambda scope, budget: reference
        case Root() | Member():
            return _compile_path(tree)
        case Slice(base, start, stop):
            run, first, last = _compile(base), _compile(start), _compile(stop)
            return lambda scope, budget: slice_of(run(scope, budget), first(scope, budget), last(scope, budget), budget)
        case ListOf(items):
            runs = [_compile(item) for item in items]
            return lambda scope, budget: [run(scope, budget) for run in runs]
        case ObjectOf(keys, values):
            pairs = [(key, _compile(value)) for key, value in zip(keys, values, strict=True)]
            return lambda scope, budget: {key: run(scope, budget) for key, run in pairs}
        case Not(operand):
            run = _compile(operand)
            return lambda scope, budget: not run(scope, budget)
        case Negative(operand):
            run = _compile(operand)
            return lambda scope, budget: negate(run(scope, budget))
        case Binary():
            return _compile_binary(tree)
        case Test(name, operand):
            return _compile_test(name, operand)
        case Filtered():
            return _compile_filter(tree)
        case Choice(condition, then, otherwise):
            test, yes, no = _compile(condition), _compile(then), _compile(otherwise)
            return lambda scope, budget: (yes if test(scope, budget) else no)(scope, budget)


def _compile_path(tree: Root | Member) -> Run:
    keys = _static_path(tree)
    if keys is not None and all(isinstance(key, str) for key in keys):
        return _compile_plain_path(tree, keys)
    assert isinstance(tree, Member)
    base, key, shown = _compile(tree.base), _compile(tree.key), _shown(tree.base)
    shown_key = repr(tree.key.value) if isinstance(tree.key, Literal) else None
    return lambda scope, budget: member(base(scope, budget), key(scope, budget), shown, shown_key)


def _compile_plain_path(tree: Root | Member, keys: Path) -> Run:
    """A direct look-up: of JSON values only objects can be subscripted with a string."""

    def find(scope: Scope, budget: Budget) -> Any:
        value: Any = scope
        try:
            for key in keys:
                value = value[key]
        except (KeyError, TypeError):
            raise _MissingError(tree, scope) from None
        return value

    return find


class _MissingError(UndefinedError):
    """A part of a plain path is missing. `default` often catches this, so the message is made only when it is shown."""

    def __init__(self, tree: Tree, scope: Scope) -> None:
        super().__init__()
        self._tree = tree
        self._scope = scope

    def __str__(self) -> str:
        try:
            self._walk(self._tree)
        except UndefinedError as error:
            return str(error.args[0])
        return f"{_shown(self._tree)} changed while it was read"

    def _walk(self, tree: Tree) -> Any:
        match tree:
            case Member(base, Literal(key)):
                return member(self._walk(base), key, _shown(base), repr(key))
            case Root(name) if name in self._scope:
                return self._scope[name]
            case _:
                raise UndefinedError(f"'{_shown(tree)}' has no value here")


def _compile_binary(tree: Binary) -> Run:
    left, right = _compile(tree.left), _compile(tree.right)
    if tree.operator == "and":
        return lambda scope, budget: left(scope, budget) and right(scope, budget)
    if tree.operator == "or":
        return lambda scope, budget: left(scope, budget) or right(scope, budget)
    apply = OPERATORS[tree.operator]
    return lambda scope, budget: apply(left(scope, budget), right(scope, budget), budget)


def _can_be_undefined(tree: Tree) -> bool:
    return isinstance(tree, Root | Member | Slice) or (isinstance(tree, Filtered) and tree.name in _CAN_BE_UNDEFINED)


def _compile_test(name: str, operand: Tree) -> Run:
    run = _compile(operand)
    if name != "defined":
        test = TESTS[name]
        return lambda scope, budget: test(run(scope, budget))
    catches = _can_be_undefined(operand)

    def is_defined(scope: Scope, budget: Budget) -> bool:
        try:
            run(scope, budget)
        except UndefinedError:
            if catches:
                return False
            raise
        return True

    return is_defined


def _compile_filter(tree: Filtered) -> Run:
    run = _compile(tree.operand)
    names = tree.argument_names
    arguments = {name: _compile(value) for name, value in zip(names, tree.arguments, strict=True)}
    if tree.name == "default":
        return _compile_default(run, _can_be_undefined(tree.operand), arguments)
    apply = FILTERS[tree.name].function
    if not arguments:
        return lambda scope, budget: apply(run(scope, budget), budget)
    return lambda scope, budget: apply(
        run(scope, budget), budget, **{name: argument(scope, budget) for name, argument in arguments.items()}
    )


def _compile_default(run: Run, catches: bool, arguments: Mapping[str, Run]) -> Run:
    """`default` evaluates its arguments only when it needs them: the fallback may be undefined too."""
    fallback = arguments.get("default_value") or _compile(Literal(""))
    also_falsy = arguments.get("boolean") or _compile(Literal(False))

    def value_or_default(scope: Scope, budget: Budget) -> Any:
        try:
            value = run(scope, budget)
        except UndefinedError:
            if catches:
                return fallback(scope, budget)
            raise
        return value if value or not also_falsy(scope, budget) else fallback(scope, budget)

    return value_or_default
