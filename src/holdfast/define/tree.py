"""All the forms that a parsed expression can have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Root:
    name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Stands for a value that only a worker knows: `secrets.NAME`."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    base: Tree
    key: Tree


@dataclass(frozen=True, slots=True)
class Slice:
    base: Tree
    start: Tree
    stop: Tree


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class ObjectOf:
    keys: tuple[str, ...]
    values: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Tree


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Tree


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is a key of OPERATORS, or `and`, or `or`."""

    operator: str
    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class Test:
    """`name` is a key of TESTS, or `defined`."""

    name: str
    operand: Tree


@dataclass(frozen=True, slots=True)
class Filtered:
    name: str
    operand: Tree
    argument_names: tuple[str, ...]
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    condition: Tree
    then: Tree
    otherwise: Tree


Tree = Literal | Root | Secret | Member | Slice | ListOf | ObjectOf | Not | Negative | Binary | Test | Filtered | Choice


def children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Literal() | Root() | Secret():
            return ()
        case Member(base, key):
            return (base, key)
        case Slice(base, start, stop):
            return (base, start, stop)
        case ListOf(items):
            return items
        case ObjectOf(_, values):
            return values
        case Not(operand) | Negative(operand) | Test(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Filtered(_, operand, _, arguments):
            return (operand, *arguments)
        case Choice(condition, then, otherwise):
            return (condition, then, otherwise)
