"""Turns pydantic's errors into messages that name the place in the file and the way to correct it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from holdfast.define.bounds import HANDLER_NAME
from holdfast.define.document import (
    INPUT_TYPES,
    BreakerDocument,
    InputDocument,
    ProbeDocument,
    ScheduleDocument,
    WorkflowDocument,
    type_tag,
)
from holdfast.define.fields import (
    FAILURE_CODE,
    INPUT_NAME,
    NODE_NAME,
    PROBE_URL,
    WORKFLOW_ID,
    DocumentPart,
)
from holdfast.define.kinds import DEFAULT_KIND, KINDS, Kind
from holdfast.define.kinds.conditional import BranchDocument
from holdfast.define.node_document import DeliverableDocument, DependsOnDocument, RerunDocument
from holdfast.define.retry_document import JitterRange, RetryDocument
from holdfast.define.source import Path, Source, did_you_mean
from holdfast.define.work_document import ConcurrencyDocument, ErrorRuleDocument, RateDocument
from holdfast.errors import CODE_LENGTH, Detail, cut
from holdfast.masking import masked

REMOVE_QUOTES = "Remove the quotes."
_KINDS = {str(kind.node_type): kind for kind in KINDS.values()}
_NAME_RULES = {
    NODE_NAME: "a letter, then letters, digits, '-' and single '_'",
    INPUT_NAME: "a letter or '_', then letters, digits, '_' and '-'",
    WORKFLOW_ID: "a letter, then letters, digits, '_', '.' and '-'",
    PROBE_URL: "an address with http:// or https://",
    FAILURE_CODE: f"a capital letter, then capital letters, digits and '_', at most {CODE_LENGTH} characters",
    HANDLER_NAME: "a letter or '_', then letters, digits and any of '_', '.', ':', '-'",
}
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
}
_OBJECT_ERRORS = ("dict_type", "model_type", "model_attributes_type")
_INPUT_TYPE_SYNONYMS = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
}
_PARTS: dict[str, type[DocumentPart]] = {
    "jitter": JitterRange,
    "concurrency": ConcurrencyDocument,
    "rate": RateDocument,
    "probe": ProbeDocument,
    "deliverable": DeliverableDocument,
    "rerun": RerunDocument,
    **{key: part for kind in KINDS.values() for key, part in kind.parts.items()},
}


def explain(error: ErrorDetails, source: Source) -> Detail:
    """The message for one of pydantic's errors, at its place in the file."""
    path = source_path(error["loc"])
    error_type, context = error["type"], error.get("ctx", {})
    if path[-1:] == ("[key]",):
        return _bad_name(path[:-1], context, source)
    if error_type == "extra_forbidden":
        return _unknown_key(path, source)
    if error_type == "missing":
        return _missing_key(path, source)
    if error_type in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_type((*path, "type"), source)
    if error_type == "literal_error":
        return _not_among(path, error, source)
    if error_type == "string_pattern_mismatch":
        return _bad_text(path, error, source)
    if error_type in _KIND_MESSAGES:
        message = f"{_subject(path)} {_KIND_MESSAGES[error_type]}"
    else:
        message = _MESSAGES.get(error_type, _expected)(error_type, path, context)
    return source.at_value(
        source.first_of(path, _without_all_of(path)), message, _hint(error_type, path, error["input"])
    )


def source_path(location: tuple[int | str, ...]) -> Path:
    """The path in the file. Pydantic's path also contains the tags of unions."""
    tags = {f"<{name}>" for name in (*_KINDS, "list", "map", "name")}
    return tuple(step for step in location if step not in tags)


def _without_all_of(path: Path) -> Path:
    """`depends_on: [a]` is checked as if all_of had been written."""
    return tuple(step for step in path if step != "all_of")


def _bad_name(path: Path, context: Mapping[str, Any], source: Source) -> Detail:
    name = path[-1]
    if "max_length" in context:
        return source.at_key(path, f"The name is longer than {context['max_length']} characters.")
    rule = _NAME_RULES[context["pattern"]]
    return source.at_key(path, f"'{cut(str(name))}' is not a valid name.", f"A name is {rule}.")


def _bad_text(path: Path, error: ErrorDetails, source: Source) -> Detail:
    what = f"a valid {path[-1]}" if isinstance(path[-1], str) else f"valid in '{path[-2]}'"
    rule = _NAME_RULES[error["ctx"]["pattern"]]
    return source.at_value(path, f"'{cut(masked(str(error['input'])))}' is not {what}: it must be {rule}.")


def _unknown_key(path: Path, source: Source) -> Detail:
    key, parent = str(path[-1]), path[:-1]
    kind = _node_kind(path, source)
    if kind is not None:
        owners = [name for name, one in _KINDS.items() if key in one.document.model_fields]
        reason = kind.why_misplaced(key)
        if owners or reason:
            article = "an" if kind.node_type[0] in "aeiou" else "a"
            message = f"The key '{cut(key)}' does not belong to {article} {kind.node_type} node."
            return source.at_key(path, message, reason or f"It belongs to: {', '.join(owners)}.")
    return source.at_key(path, f"Unknown key '{cut(key)}'.", did_you_mean(key, _known_keys(parent, kind)))


def _node_kind(path: Path, source: Source) -> Kind[Any] | None:
    """The kind of the node whose own key this is."""
    if len(path) != 3 or path[0] != "nodes":
        return None
    tag = type_tag(source.data["nodes"][path[1]])
    return _KINDS[tag[1:-1]] if tag is not None else DEFAULT_KIND


def _known_keys(parent: Path, kind: Kind[Any] | None) -> list[str]:
    model: type[DocumentPart]
    if not parent:
        model = WorkflowDocument
    elif kind is not None:
        model = kind.document
    elif parent[0] == "inputs":
        model = InputDocument
    elif parent == ("schedule",):
        model = ScheduleDocument
    elif parent[0] == "breakers" and len(parent) == 2:
        model = BreakerDocument
    elif parent[-1] == "retry":
        model = RetryDocument
    elif parent[-1] == "depends_on":
        model = DependsOnDocument
    elif parent[-1] in _PARTS:
        model = _PARTS[str(parent[-1])]
    elif parent[-2] == "errors":
        model = ErrorRuleDocument
    else:
        model = BranchDocument
    return [field.alias or name for name, field in model.model_fields.items()]


def _missing_key(path: Path, source: Source) -> Detail:
    parent, key = path[:-1], path[-1]
    if not parent:
        return source.at_key(path, f"The key '{key}' is missing.")
    kind = _node_kind(path, source)
    if kind is None:
        return source.at_key(parent, f"The key '{key}' is missing.")
    name = str(path[1])
    suggestion = None
    if kind is DEFAULT_KIND and _names_border(name) and len(source.data["nodes"][name]) < 3:
        suggestion = f"Did you mean 'type: {name.lower()}'?"
    return source.at_key(parent, f"The {kind.node_type} node '{name}' has no '{key}'.", suggestion)


def _unknown_type(path: Path, source: Source) -> Detail:
    written = source.data["nodes"][path[1]]["type"]
    known = ", ".join(_KINDS)
    if not isinstance(written, str):
        return source.at_value(path, f"A node's type must be one of {known}.")
    suggestion = did_you_mean(written.replace("-", "_"), _KINDS)
    return source.at_value(path, f"Unknown node type '{cut(written)}'; it must be one of {known}.", suggestion)


def _not_among(path: Path, error: ErrorDetails, source: Source) -> Detail:
    written, expected = error["input"], str(error["ctx"]["expected"])
    known = [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]
    suggestion = None
    if isinstance(written, str):
        suggestion = did_you_mean(written, known)
        if tuple(known) == INPUT_TYPES and written.lower() in _INPUT_TYPE_SYNONYMS:
            suggestion = f"Did you mean '{_INPUT_TYPE_SYNONYMS[written.lower()]}'?"
    return source.at_value(path, f"'{path[-1]}' must be one of {', '.join(known)}.", suggestion)


def _expected(error_type: str, path: Path, context: Mapping[str, Any]) -> str:
    if error_type in _OBJECT_ERRORS and path[-1:] == ("depends_on",):
        return "'depends_on' must be a node's name, a list of names, or an object with 'all_of' and 'any_of'."
    return f"{_subject(path)} must be {_EXPECTED.get(error_type, 'another value: ' + error_type)}."


def _subject(path: Path) -> str:
    if not path:
        return "The file"
    if isinstance(path[-1], int):
        return f"Each entry of '{cut(str(path[-2]))}'"
    return f"'{cut(path[-1])}'"


def _list_message(error_type: str, path: Path, context: Mapping[str, Any]) -> str:
    if path[-1] in ("next", "on_true", "on_false", "all_of", "any_of") or path[-2:-1] == ("branches",):
        return f"{_subject(path)} must be a node's name or a list of names."
    if path[-1] == "branches":
        return "'branches' must be a list or an object."
    return f"{_subject(path)} must be a list."


_MESSAGES: dict[str, Callable[[str, Path, Mapping[str, Any]], str]] = {
    "list_type": _list_message,
    "greater_than": lambda _, path, c: f"{_subject(path)} must be greater than {c['gt']:g}.",
    "greater_than_equal": lambda _, path, c: f"{_subject(path)} must be at least {c['ge']:g}.",
    "less_than": lambda _, path, c: f"{_subject(path)} must be less than {c['lt']:g}.",
    "less_than_equal": lambda _, path, c: f"{_subject(path)} must be at most {c['le']:,.0f}.",
    "too_short": lambda _, path, c: f"{_subject(path)} must not be empty.",
    "too_long": lambda _, path, c: f"{_subject(path)} has more than {c['max_length']} entries.",
    "string_too_long": lambda _, path, c: f"{_subject(path)} is longer than {c['max_length']} characters.",
    "blank": lambda _, path, c: f"{_subject(path)} must not be empty.",
}
_KIND_MESSAGES = {error: end for kind in KINDS.values() for error, end in kind.messages.items()}


def _hint(error_type: str, path: Path, written: Any) -> str | None:
    if error_type in _OBJECT_ERRORS and len(path) == 2 and path[0] == "nodes":
        name = str(path[1])
        if not _names_border(name):
            return "A task needs at least a 'handler'."
        return f"Write '{name}: {{type: {name.lower()}}}'."
    if error_type == "string_type" and isinstance(written, bool | int | float):
        return "Put it in quotes."
    if error_type == "string_type" and isinstance(written, dict) and len(written) <= 1:
        return 'Put a template in quotes: "{{ … }}".'
    if error_type in ("int_type", "float_type", "bool_type") and isinstance(written, str):
        return REMOVE_QUOTES if "{{" not in written else "A template is not allowed here."
    return None


def _names_border(name: str) -> bool:
    """Whether a node is called like a type that needs nothing else, such as start."""
    kind = _KINDS.get(name.lower())
    return kind is not None and kind.is_border
