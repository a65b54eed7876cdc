"""The operators on JSON values: strict about types, with limits that are checked before a large value is made.

Knows nothing of syntax or scopes. Messages name kinds and keys, never the values themselves.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from holdfast.define.plain import OutsizedError, Sizes

# No chain of filters can make a longer text.
MAX_TEXT_CHARS = 1 << 20
# One unit is a new character or a visited item: at most about a second of work and tens of megabytes.
MAX_WORK = 2_000_000
# Larger integers fit neither a bigint column nor most JSON readers.
MAX_INTEGER = 2**63 - 1


class EvaluationError(Exception):
    """An evaluation failed; Expression turns it into a TemplateError."""


class UndefinedError(EvaluationError):
    """A key or an item is missing; `default` and `is defined` catch this."""


class Budget:
    """The work that one evaluation may still do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise EvaluationError(f"this expression takes too many steps (more than {MAX_WORK:,})")

    def spend_text(self, chars: int) -> None:
        """Call it with a text's length before the text is made."""
        if chars > MAX_TEXT_CHARS:
            raise EvaluationError(f"the text would be longer than {MAX_TEXT_CHARS:,} characters")
        self.spend(chars)


def kind(value: Any) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    for types, name in (
        (bool, "boolean"),
        ((int, float), "number"),
        (str, "string"),
        (list, "list"),
        (Mapping, "object"),
    ):
        if isinstance(value, types):
            return name
    return type(value).__name__


def described(value: Any) -> str:
    name = kind(value)
    return {"null": name, "object": "an object"}.get(name, f"a {name}")


def is_number(value: Any) -> bool:
    # A tuple is faster than `int | float`, which would be built at each call of this hot function.
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def checked(value: Any) -> Any:
    """The number, if it fits into JSON and a bigint."""
    if isinstance(value, int):
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return value
        raise EvaluationError("the number does not fit into 64 bits")
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise EvaluationError("the result is not a finite number")


def to_json_text(value: Any, budget: Budget) -> str:
    """Compact JSON with sorted keys, so that the text does not depend on the order of keys in the database."""
    try:
        Sizes().bound(value, MAX_TEXT_CHARS)
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except OutsizedError as error:
        raise EvaluationError(f"{described(value)} that is {error} cannot become text") from None
    except orjson.JSONEncodeError as error:
        raise EvaluationError(f"{described(value)} that is not plain JSON cannot become text") from error
    budget.spend_text(len(text))
    return text


def to_text(value: Any, budget: Budget) -> str:
    """A value as part of a text. Null is an error: an empty gap would go unnoticed."""
    if isinstance(value, str):
        return value
    if value is None:
        raise EvaluationError("null cannot become text; give a replacement with: | default('…', true)")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(checked(value))
    return to_json_text(value, budget)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def equal(left: Any, right: Any, budget: Budget) -> bool:
    """Equality of JSON values: 1 equals 1.0, but true does not equal 1. Never fails on types."""
    if type(left) in _SCALARS:
        return bool(left == right) and (type(left) is bool) is (type(right) is bool)
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if type(one) in _SCALARS:
            if one != other or (type(one) is bool) is not (type(other) is bool):
                return False
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            budget.spend(len(one))
            pairs.extend(zip(one, other, strict=True))
        elif isinstance(one, Mapping) and isinstance(other, Mapping):
            if one.keys() != other.keys():
                return False
            budget.spend(len(one))
            pairs.extend((one[key], other[key]) for key in one)
        else:
            return False
    return True


def contains(item: Any, container: Any, budget: Budget) -> bool:
    if isinstance(container, str):
        if not isinstance(item, str):
            raise EvaluationError(f"'in' looks for a string in a string, not for {described(item)}")
        budget.spend(len(container))
        return item in container
    if isinstance(container, list):
        budget.spend(len(container))
        return any(equal(item, other, budget) for other in container)
    if isinstance(container, Mapping):
        return isinstance(item, str) and item in container
    raise EvaluationError(f"'in' needs a list, a string or an object on its right, not {described(container)}")


def ordered(symbol: str, compare: Callable[[Any, Any], bool]) -> Operator:
    def apply(left: Any, right: Any, budget: Budget) -> bool:
        if (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        hint = ""
        if {kind(left), kind(right)} == {"number", "string"}:
            hint = "; convert the string with: | int  or  | float"
        raise EvaluationError(f"'{symbol}' cannot compare {described(left)} with {described(right)}{hint}")

    return apply


def arithmetic(symbol: str, compute: Callable[[Any, Any], Any]) -> Operator:
    def apply(left: Any, right: Any, budget: Budget) -> Any:
        if not (is_number(left) and is_number(right)):
            raise EvaluationError(f"'{symbol}' works on two numbers, not on {described(left)} and {described(right)}")
        try:
            return checked(compute(left, right))
        except ZeroDivisionError:
            raise EvaluationError(f"'{symbol}' divides by zero") from None
        except OverflowError:
            raise EvaluationError("the result is not a finite number") from None

    return apply


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        # Checked before it is computed: an integer power can fill the memory.
        least_bits = (base.bit_length() - 1) * exponent
        if least_bits > 63:
            raise EvaluationError("the number does not fit into 64 bits")
    return base**exponent


_add_numbers = arithmetic("+", operator.add)


def add(left: Any, right: Any, budget: Budget) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        budget.spend_text(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        budget.spend(len(left) + len(right))
        return left + right
    if is_number(left) and is_number(right):
        return _add_numbers(left, right, budget)
    hint = "; join texts with ~" if isinstance(left, str) or isinstance(right, str) else ""
    raise EvaluationError(f"'+' cannot add {described(right)} to {described(left)}{hint}")


def concatenate(left: Any, right: Any, budget: Budget) -> str:
    one, other = to_text(left, budget), to_text(right, budget)
    budget.spend_text(len(one) + len(other))
    return one + other


def negate(value: Any) -> Any:
    if not is_number(value):
        raise EvaluationError(f"'-' works on a number, not on {described(value)}")
    return checked(-value)


def member(value: Any, key: Any, shown: str, shown_key: str | None) -> Any:
    """The value of an object's key or a list's index, or an UndefinedError that says what exists instead.

    `shown_key` is None for a computed key: that is data, which messages do not show.
    """
    if isinstance(value, Mapping):
        if isinstance(key, str):
            if key in value:
                return value[key]
            raise UndefinedError(f"{shown} has no {shown_key or 'such key'} ({_keys_of(value)})")
        raise EvaluationError(f"{shown} is an object: its keys are strings, not {described(key)}")
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
        if -len(value) <= key < len(value):
            return value[key]
        raise UndefinedError(f"{shown} has no item {shown_key or 'there'} (its length is {len(value)})")
    hint = "; a part of it is a slice such as [0:1]" if isinstance(value, str) and is_number(key) else ""
    raise UndefinedError(f"{shown} is {described(value)}, so it has no {shown_key or 'such key'}{hint}")


def _keys_of(value: Mapping[str, Any]) -> str:
    if not value:
        return "it is empty"
    names = [str(key)[:40] for key, _ in zip(value, range(6), strict=False)]
    return "it has: " + ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def slice_of(value: Any, start: Any, stop: Any, budget: Budget) -> Any:
    for bound in (start, stop):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise EvaluationError(f"a slice's bounds are whole numbers, not {described(bound)}")
    if not isinstance(value, list | str):
        raise EvaluationError(f"only a list or a string can be sliced, not {described(value)}")
    first, last, _ = slice(start, stop).indices(len(value))
    budget.spend(max(0, last - first))
    return value[first:last]


Operator = Callable[[Any, Any, Budget], Any]

OPERATORS: Mapping[str, Operator] = {
    "==": equal,
    "!=": lambda left, right, budget: not equal(left, right, budget),
    "<": ordered("<", operator.lt),
    "<=": ordered("<=", operator.le),
    ">": ordered(">", operator.gt),
    ">=": ordered(">=", operator.ge),
    "in": contains,
    "not in": lambda left, right, budget: not contains(left, right, budget),
    "+": add,
    "-": arithmetic("-", operator.sub),
    "~": concatenate,
    "*": arithmetic("*", operator.mul),
    "/": arithmetic("/", operator.truediv),
    "//": arithmetic("//", operator.floordiv),
    "%": arithmetic("%", operator.mod),
    "**": arithmetic("**", _power),
}

TESTS: Mapping[str, Callable[[Any], bool]] = {
    "none": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "mapping": lambda value: isinstance(value, Mapping),
}
