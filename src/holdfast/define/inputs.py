"""Checks a job's inputs against the declared ones and fills in the defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any

from holdfast.define import pattern
from holdfast.define.definition import Definition, Input, InputType
from holdfast.define.plain import faults, kind_of, parse_json
from holdfast.define.python_values import Unfit, to_plain
from holdfast.define.source import MAX_PROBLEMS, did_you_mean, path_text
from holdfast.errors import Detail, InvalidInput, cut

LIST_LENGTH = 300
"""The longest list of alternatives in a message."""

_PYTHON_TYPES: dict[InputType, tuple[type, ...]] = {
    InputType.STRING: (str,),
    InputType.INTEGER: (int,),
    InputType.NUMBER: (int, float),
    InputType.BOOLEAN: (bool,),
    InputType.ARRAY: (list, tuple),
    InputType.OBJECT: (dict,),
    InputType.ANY: (object,),
}
_ARTICLES = {
    InputType.STRING: "a string",
    InputType.INTEGER: "an integer",
    InputType.NUMBER: "a number",
    InputType.BOOLEAN: "true or false",
    InputType.ARRAY: "an array",
    InputType.OBJECT: "an object",
}


def check_inputs(definition: Definition, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a job with defaults filled in; an optional input without a value is null.

    A workflow that declares no inputs accepts any. Raises InvalidInput with all mistakes.
    """
    problems = list(islice(_problems(definition, dict(values)), MAX_PROBLEMS))
    if problems:
        # Inputs from Python may have a date or a path.
        with suppress(Unfit):
            values = to_plain(dict(values))
            problems = list(islice(_problems(definition, dict(values)), MAX_PROBLEMS))
    if problems:
        _refuse(definition, problems)
    if not definition.inputs:
        return dict(values)
    return {one.name: values[one.name] if one.name in values else deepcopy(one.default) for one in definition.inputs}


def parse_assignments(definition: Definition, assignments: Iterable[str]) -> dict[str, Any]:
    """The inputs of `--input K=V` flags: a declared string takes V as it is, anything else is JSON."""
    types = {one.name: one.type for one in definition.inputs}
    values: dict[str, Any] = {}
    problems: list[Detail] = []
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            problems.append(_flag(assignment, "has no value", "Write --input NAME=VALUE."))
        elif name in values:
            problems.append(_flag(assignment, f"gives '{cut(name)}' a second time"))
        elif types.get(name) is InputType.STRING or (types and name not in types):
            # check_inputs refuses a name that the workflow does not declare.
            values[name] = text
        else:
            try:
                values[name] = parse_json(text)
            except ValueError as error:
                values[name] = None
                problems.append(_flag(assignment, f"is not JSON: {error}", _quoting_hint(name, text)))
    if problems:
        _refuse(definition, problems)
    return values


def value_problems(declared: Input, value: Any) -> Iterator[str]:
    """The mistakes in a value for this input, each as the end of the sentence 'The input NAME …'."""
    if not has_type(declared.type, value):
        yield f"must be {_ARTICLES[declared.type]}, not {kind_of(value)}"
        return
    if declared.enum is not None and not any(_same(value, allowed) for allowed in declared.enum):
        yield cut(f"must be one of {', '.join(map(_shown, declared.enum))}", LIST_LENGTH)
    if isinstance(value, str):
        if declared.pattern is not None and not pattern.matches(declared.pattern, value):
            yield f"does not match the pattern {declared.pattern}"
        yield from _length_problems(declared, len(value), "characters")
    elif isinstance(value, (list, tuple)):
        yield from _length_problems(declared, len(value), "entries")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if declared.minimum is not None and value < declared.minimum:
            yield f"must be at least {declared.minimum:g}"
        if declared.maximum is not None and value > declared.maximum:
            yield f"must be at most {declared.maximum:g}"


def has_type(expected: InputType, value: Any) -> bool:
    """Strict: neither true nor 1.0 is an integer."""
    if isinstance(value, bool):
        return expected in (InputType.BOOLEAN, InputType.ANY)
    return isinstance(value, _PYTHON_TYPES[expected])


def _problems(definition: Definition, values: dict[str, Any]) -> Iterator[Detail]:
    declared = {one.name: one for one in definition.inputs}
    if declared:
        for name in values:
            if name not in declared:
                suggestion = did_you_mean(str(name), declared)
                yield Detail(f"Unknown input '{cut(str(name))}'.", path=f"inputs.{name}", suggestion=suggestion)
    for one in definition.inputs:
        if one.required and not one.has_default and one.name not in values:
            yield Detail(f"The input '{one.name}' is required.", path=f"inputs.{one.name}")
    unclean = faults(values, ("inputs",))
    for path, fault in unclean:
        yield Detail(f"The input {path_text(path[1:])} {fault}.", path=path_text(path))
    unclean_names = {path[1] for path, _ in unclean if len(path) > 1}
    for name, value in values.items():
        if name in declared and name not in unclean_names and not _is_left_out(declared[name], value):
            for problem in value_problems(declared[name], value):
                yield Detail(f"The input '{name}' {problem}.", path=f"inputs.{name}")


def _is_left_out(declared: Input, value: Any) -> bool:
    """For an optional input null means the same as no value, unless null overrides a default."""
    return value is None and not declared.required and (not declared.has_default or declared.default is None)


def _length_problems(declared: Input, length: int, unit: str) -> Iterator[str]:
    if declared.min_length is not None and length < declared.min_length:
        yield f"must have at least {declared.min_length} {unit}"
    if declared.max_length is not None and length > declared.max_length:
        yield f"must have at most {declared.max_length} {unit}"


def _refuse(definition: Definition, problems: list[Detail]) -> None:
    known = cut(", ".join(one.name for one in definition.inputs), LIST_LENGTH)
    raise InvalidInput(
        f"The inputs do not fit the workflow {definition.workflow_id}.",
        errors=problems,
        remedy=f"The workflow takes the inputs: {known}." if known else None,
    )


def _flag(assignment: str, problem: str, suggestion: str | None = None) -> Detail:
    return Detail(f"--input {assignment:.80} {problem}.", suggestion=suggestion)


def _quoting_hint(name: str, text: str) -> str | None:
    is_word = re.fullmatch(r"[\w ./:@-]{1,100}", text) is not None
    return f"For a text write --input '{cut(name)}=\"{text}\"'." if is_word else None


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON, where true does not equal 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else f"{value!s:.60}"
