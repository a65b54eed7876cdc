"""The filters: `value | name(arguments)`. The parameters after `budget` are the arguments that users may write.

Stricter than Jinja: `int` and `float` fail on text that is not a number, and case always matters.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.define.operators import (
    Budget,
    EvaluationError,
    UndefinedError,
    checked,
    described,
    is_number,
    to_json_text,
    to_text,
)

# Python's own int() and float() also take underscores, other scripts' digits, nan and inf.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
# More decimal places than a float has digits.
_MAX_PRECISION = 15


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise EvaluationError(f"'{name}' works on a string, not on {described(value)}; convert it with: | string")


def _list(name: str, value: Any, budget: Budget) -> list[Any]:
    if not isinstance(value, list):
        raise EvaluationError(f"'{name}' works on a list, not on {described(value)}")
    budget.spend(len(value))
    return value


def _attributes(name: str, values: list[Any], attribute: Any) -> list[Any]:
    """The items themselves, or each item's value under one key."""
    if attribute is None:
        return values
    for index, item in enumerate(values):
        if not (isinstance(attribute, str) and isinstance(item, Mapping) and attribute in item):
            raise EvaluationError(f"'{name}' finds no such attribute in item {index}, which is {described(item)}")
    return [item[attribute] for item in values]


def _comparable(name: str, values: list[Any]) -> list[Any]:
    if all(map(is_number, values)) or all(isinstance(value, str) for value in values):
        return values
    raise EvaluationError(f"'{name}' needs a list of numbers or a list of strings")


def lower(value: Any, budget: Budget) -> str:
    text = _text("lower", value)
    budget.spend_text(len(text))
    return text.lower()


def upper(value: Any, budget: Budget) -> str:
    text = _text("upper", value)
    budget.spend_text(len(text))
    return text.upper()


def trim(value: Any, budget: Budget) -> str:
    text = _text("trim", value)
    budget.spend_text(len(text))
    return text.strip()


def length(value: Any, budget: Budget) -> int:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise EvaluationError(f"'length' works on a list, a string or an object, not on {described(value)}")


def join(value: Any, budget: Budget, separator: Any = "", attribute: Any = None) -> str:
    between = _text("join", separator)
    texts = [to_text(item, budget) for item in _attributes("join", _list("join", value, budget), attribute)]
    budget.spend_text(sum(map(len, texts)) + len(between) * max(0, len(texts) - 1))
    return between.join(texts)


def split(value: Any, budget: Budget, separator: Any = None) -> list[str]:
    text = _text("split", value)
    if separator is not None and not _text("split", separator):
        raise EvaluationError("'split' needs a separator that is not empty")
    # Each part costs memory too, so the budget pays for the number of parts as well as for the text.
    budget.spend(2 * len(text))
    return text.split(separator)


def replace(value: Any, budget: Budget, old: Any, new: Any) -> str:
    text, old, new = _text("replace", value), _text("replace", old), _text("replace", new)
    if not old:
        raise EvaluationError("'replace' needs a text to look for that is not empty")
    budget.spend(len(text))
    budget.spend_text(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def first(value: Any, budget: Budget) -> Any:
    return _end("first", value, 0)


def last(value: Any, budget: Budget) -> Any:
    return _end("last", value, -1)


def _end(name: str, value: Any, index: int) -> Any:
    if not isinstance(value, list):
        raise EvaluationError(f"'{name}' works on a list, not on {described(value)}")
    if not value:
        raise UndefinedError(f"'{name}' of an empty list")
    return value[index]


def integer(value: Any, budget: Budget, default: Any = None) -> Any:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return checked(int(value))
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return checked(int(value))
    if default is not None:
        return default
    what = "a text that is not a whole number" if isinstance(value, str) else described(value)
    raise EvaluationError(f"'int' cannot convert {what}")


def floating(value: Any, budget: Budget, default: Any = None) -> Any:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return checked(float(value))
    if isinstance(value, bool | int | float):
        return float(checked(value))
    if default is not None:
        return default
    what = "a text that is not a number" if isinstance(value, str) else described(value)
    raise EvaluationError(f"'float' cannot convert {what}")


def string(value: Any, budget: Budget) -> str:
    return to_text(value, budget)


_ROUNDING: Mapping[str, Callable[[float], float]] = {"ceil": math.ceil, "floor": math.floor}


def rounded(value: Any, budget: Budget, precision: Any = 0, method: Any = "common") -> Any:
    if not is_number(value):
        raise EvaluationError(f"'round' works on a number, not on {described(value)}")
    if isinstance(precision, bool) or not isinstance(precision, int) or not 0 <= precision <= _MAX_PRECISION:
        raise EvaluationError(f"'round' takes a precision between 0 and {_MAX_PRECISION}")
    if isinstance(value, int):
        return checked(value)
    if method == "common":
        return checked(round(checked(value), precision))
    if method not in ("ceil", "floor"):
        raise EvaluationError("'round' knows the methods 'common', 'ceil' and 'floor'")
    scaled = checked(value * 10.0**precision)
    return checked(_ROUNDING[method](scaled) / 10.0**precision)


def absolute(value: Any, budget: Budget) -> Any:
    if not is_number(value):
        raise EvaluationError(f"'abs' works on a number, not on {described(value)}")
    return checked(abs(value))


def minimum(value: Any, budget: Budget, attribute: Any = None) -> Any:
    return _extreme("min", value, budget, attribute, min)


def maximum(value: Any, budget: Budget, attribute: Any = None) -> Any:
    return _extreme("max", value, budget, attribute, max)


def _extreme(name: str, value: Any, budget: Budget, attribute: Any, choose: Callable[..., Any]) -> Any:
    items = _list(name, value, budget)
    if not items:
        raise UndefinedError(f"'{name}' of an empty list")
    keys = _comparable(name, _attributes(name, items, attribute))
    return items[choose(range(len(items)), key=keys.__getitem__)]


def total(value: Any, budget: Budget, attribute: Any = None) -> Any:
    items = _attributes("sum", _list("sum", value, budget), attribute)
    if not all(map(is_number, items)):
        raise EvaluationError("'sum' needs a list of numbers")
    try:
        return checked(sum(items))
    except OverflowError:
        raise EvaluationError("the result is not a finite number") from None


def sort(value: Any, budget: Budget, reverse: Any = False, attribute: Any = None) -> list[Any]:
    items = _list("sort", value, budget)
    keys = _comparable("sort", _attributes("sort", items, attribute))
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
    return [items[index] for index in order]


def unique(value: Any, budget: Budget, attribute: Any = None) -> list[Any]:
    items = _list("unique", value, budget)
    seen: dict[Any, Any] = {}
    for key, item in zip(_attributes("unique", items, attribute), items, strict=True):
        seen.setdefault(_identity(key, budget), item)
    return list(seen.values())


def _identity(value: Any, budget: Budget) -> Any:
    """A hashable value that is the same for all values that are equal under `==`."""
    if isinstance(value, bool):
        return ("boolean", value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return ("json", to_json_text(value, budget))


def tojson(value: Any, budget: Budget) -> str:
    return to_json_text(value, budget)


def default(value: Any, budget: Budget, default_value: Any = "", boolean: Any = False) -> Any:
    """Replaces an undefined value, and with a true second argument also an empty one, zero and null.

    Only its signature is used here: expression.py evaluates its arguments when they are needed.
    """
    raise NotImplementedError


class Filter:
    """A filter's function and the names of its arguments."""

    __slots__ = ("function", "parameters", "required")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        parameters = list(inspect.signature(function).parameters.values())[2:]
        self.parameters = tuple(p.name for p in parameters)
        self.required = tuple(p.name for p in parameters if p.default is p.empty)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "default": default,
    "lower": lower,
    "upper": upper,
    "trim": trim,
    "length": length,
    "join": join,
    "split": split,
    "replace": replace,
    "first": first,
    "last": last,
    "int": integer,
    "float": floating,
    "string": string,
    "round": rounded,
    "abs": absolute,
    "min": minimum,
    "max": maximum,
    "sum": total,
    "sort": sort,
    "unique": unique,
    "tojson": tojson,
}
FILTERS: Mapping[str, Filter] = {name: Filter(function) for name, function in _FUNCTIONS.items()}
