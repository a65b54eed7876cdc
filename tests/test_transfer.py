"""Views that travel from the service to a client of ours arrive as they were."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast.views
from holdfast.define.definition import Definition
from holdfast.define.load import load_file
from holdfast.errors import Detail, HoldfastError, NotFound, Refused
from holdfast.operations.submitting import Submission
from holdfast.store.records import SignalAnswer
from holdfast.views.outcome import StageState
from holdfast.views.transfer import from_transfer, to_transfer
from holdfast.views.verbs import Plan, VerbRequest
from tests.conftest import examples

NO_ANSWER = (StageState, VerbRequest)
"""What `views` has for its own use, and what is never sent on its own."""
TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FILES = Path(__file__).parent / "define" / "files"
DEFINITIONS = [load_file(path) for path in (examples() / "demo.yaml", *sorted(FILES.glob("*.yaml")))]


def view_types() -> list[type]:
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(holdfast.views.__path__, "holdfast.views."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.name:
                found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return [kind for _, kind in sorted(found.items()) if kind not in NO_ANSWER]


def values_of(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Any value of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of([values_of(one, depth) for one in arguments])
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.lists(values_of(arguments[0], depth + 1), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(one, depth) for one in arguments))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1], depth + 1), max_size=2)
    if origin is not None and issubclass(origin, Sequence):
        return st.lists(values_of(arguments[0], depth + 1), max_size=2)
    return values_of_class(kind, depth)


def values_of_class(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    plain: dict[Any, st.SearchStrategy[Any]] = {
        Any: VALUES,
        object: VALUES,
        NoneType: st.none(),
        str: TEXTS,
        bool: st.booleans(),
        int: st.integers(-(2**31), 2**31),
        float: st.floats(0, 1e9),
        datetime: st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        Definition: st.sampled_from(DEFINITIONS),
    }
    if kind in plain:
        return plain[kind]
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if issubclass(kind, HoldfastError):
        return st.builds(kind, st.just("It was refused."), remedy=st.none() | st.just("Do something else."))
    return records_of(kind, depth)


def records_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        names = {one.name: hints[one.name] for one in fields(kind) if one.init and "local" not in one.metadata}
    else:
        names = {name: hints[name] for name in kind._fields}
    return st.builds(kind, **{name: values_of(one, depth) for name, one in names.items()})


def plain(value: Any) -> Any:
    """The value with what has no equality of its own written out."""
    if isinstance(value, HoldfastError):
        return type(value), value.to_problem()
    if is_dataclass(value) and not isinstance(value, type) and not isinstance(value, Definition):
        return type(value), [plain(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, list | tuple):
        return type(value), [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value), value


@pytest.mark.parametrize("kind", [*view_types(), Submission, SignalAnswer], ids=lambda kind: kind.__qualname__)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_view_arrives_as_it_was(kind: type, data: st.DataObject) -> None:
    view = data.draw(values_of(kind))
    sent = orjson.dumps(to_transfer(view))
    assert plain(from_transfer(kind, orjson.loads(sent))) == plain(view)


def test_a_field_of_a_later_version_is_left_out_and_a_missing_one_has_its_default() -> None:
    data = to_transfer(SignalAnswer(applied=True, reason="done"))
    assert from_transfer(SignalAnswer, {**data, "mood": "good"}) == SignalAnswer(applied=True, reason="done")
    del data["remedy"]
    assert from_transfer(SignalAnswer, data) == SignalAnswer(applied=True, reason="done")
    with pytest.raises(ValueError, match="SignalAnswer lacks applied"):
        from_transfer(SignalAnswer, {"reason": "done"})


def test_a_refusal_in_a_plan_is_of_its_own_class() -> None:
    hints = get_type_hints(Plan)
    refusal = Refused("No.", remedy="Wait.", instance="job", errors=[Detail("wrong", line=3, suggestion="right")])
    for error in (refusal, NotFound("No.")):
        arrived: Any = from_transfer(hints["refusal"], orjson.loads(orjson.dumps(to_transfer(error))))
        assert (type(arrived), arrived.to_problem()) == (type(error), error.to_problem())
