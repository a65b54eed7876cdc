"""Views on their way from the service to a client of ours: all fields, also those that JSON for people leaves out.

The annotations of a view say how it is read again. A field that another version does not know is left out, and one
that another version lacks has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from holdfast.define.definition import Definition
from holdfast.errors import HoldfastError
from holdfast.views.encoding import LEAVES
from holdfast.views.problems import from_problem

View = TypeVar("View")
Read = Callable[[Any], Any]


def to_transfer(view: Any) -> Any:
    """A view as JSON from which `from_transfer` makes an equal one."""
    kind = type(view)
    if kind in LEAVES:
        return view
    if isinstance(view, Definition):
        return view.to_json()
    if is_dataclass(kind):
        return {
            name: value if is_verbatim or type(value) in LEAVES else to_transfer(value)
            for name, is_verbatim in _travelling(kind)
            for value in (getattr(view, name),)
        }
    if isinstance(view, datetime):
        return view.isoformat()
    if isinstance(view, Enum):
        return view.value
    if isinstance(view, HoldfastError):
        return view.to_problem()
    if isinstance(view, tuple) and hasattr(view, "_fields"):
        return {name: to_transfer(value) for name, value in zip(view._fields, view, strict=True)}
    if isinstance(view, list | tuple):
        return [to_transfer(one) for one in view]
    if isinstance(view, Mapping):
        return {key: to_transfer(value) for key, value in view.items()}
    return view


@cache
def _travelling(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a view, and whether each holds JSON already."""
    return tuple((one.name, "verbatim" in one.metadata) for one in fields(kind) if "local" not in one.metadata)


def from_transfer(kind: type[View], data: Any) -> View:
    """The view of that type; ValueError or TypeError if it is none."""
    return cast(View, _reader(cast(Any, kind))(data))


@cache
def _reader(kind: Any) -> Read:
    """What reads values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        key, value = map(_reader, arguments)
        return lambda data: {key(name): value(one) for name, one in data.items()}
    if origin is not None and issubclass(origin, Sequence):
        item = _reader(arguments[0])
        return lambda data: [item(one) for one in data]
    if kind is Definition:
        return Definition.from_json
    if isinstance(kind, type):
        return _class(kind)
    return _as_it_is


def _class(kind: Any) -> Read:
    if issubclass(kind, Enum):
        return cast(Read, kind)
    if kind is datetime:
        return datetime.fromisoformat
    if kind is float:
        # JSON writes 1.0 as 1 in some languages.
        return float
    if kind is int:
        # The key of an object is always a text.
        return int
    if issubclass(kind, HoldfastError):
        return from_problem
    if is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return _record(kind)
    return _as_it_is


def _record(kind: Any) -> Read:
    """Reads an object as a dataclass or a named tuple."""
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        names = [one.name for one in fields(kind) if one.init]
        required = {
            one.name for one in fields(kind) if one.init and one.default is MISSING and one.default_factory is MISSING
        }
    else:
        names, required = list(kind._fields), set(kind._fields) - set(kind._field_defaults)
    readers: dict[str, Read] = {}

    def read(data: Any) -> Any:
        if not readers:
            # Only now: a type may contain itself.
            readers.update({name: _reader(hints[name]) for name in names})
        missing = [name for name in required if name not in data]
        if missing:
            raise ValueError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
        return kind(**{name: read_one(data[name]) for name, read_one in readers.items() if name in data})

    return read


def _tuple(arguments: tuple[Any, ...]) -> Read:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _reader(arguments[0])
        return lambda data: tuple(item(one) for one in data)
    items = [_reader(one) for one in arguments]
    return lambda data: tuple(read(one) for read, one in zip(items, data, strict=True))


def _union(arguments: tuple[Any, ...]) -> Read:
    """None, or the one kind that there is besides it. Errors differ by their codes; plain values need no reading."""
    others = [one for one in arguments if one is not NoneType]
    if len(others) == 1 or all(isinstance(one, type) and issubclass(one, HoldfastError) for one in others):
        read = _reader(others[0])
    elif all(one in (str, int, float, bool) for one in others):
        read = _as_it_is
    else:
        raise TypeError(f"a view cannot travel with a field that is one of {others}")
    return lambda data: None if data is None else read(data)


def _as_it_is(data: Any) -> Any:
    return data
