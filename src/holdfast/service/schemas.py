"""The JSON Schemas of what the service answers, made from the views, and how routes are described in OpenAPI."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from holdfast.errors import Forbidden, HoldfastError, TooManyRequests, Unauthenticated, Unreachable
from holdfast.operations.identity import Permission
from holdfast.service.table import Declared, ListOf, Media, Page, errors_of

Schema = dict[str, Any]
PROBLEM_NAME = "Problem"
WORKFLOW_TEXT = "workflow_id: flood\nnodes:\n  stack:\n    handler: echo\n"
WORKFLOW_DOCUMENT = {"workflow_id": "flood", "nodes": {"stack": {"handler": "echo"}}}
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
    object: {},
}
PROBLEM: Schema = {
    "type": "object",
    "description": "Why a request was not carried out, and what to do.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "`urn:holdfast:` and the code."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, to what."},
        "instance": {"type": ["string", "null"], "description": "What it happened to."},
        "code": {"type": "string"},
        "remedy": {"type": ["string", "null"], "description": "What to do next."},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "file": {"type": ["string", "null"]},
                    "line": {"type": ["integer", "null"]},
                    "column": {"type": ["integer", "null"]},
                    "path": {"type": ["string", "null"]},
                    "message": {"type": "string"},
                    "suggestion": {"type": ["string", "null"]},
                },
            },
        },
    },
}


def described(route: Declared) -> dict[str, Any]:
    """How FastAPI describes a route: its texts, its answers and its problems."""
    text = inspect.getdoc(route.endpoint) or ""
    summary, _, rest = text.partition("\n")
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": meaning, "content": _content(route.answers) | _other(route)}
        for status, meaning in {route.status: summary, **route.also}.items()
    }
    for error in _problems(route):
        responses.setdefault(error.http_status, {"description": error.title, "content": _problem(error)})
    return {
        "summary": summary.rstrip("."),
        "description": f"{rest.strip()}\n\nNeeds the permission `{route.permission}`.".strip(),
        "responses": responses,
        "openapi_extra": {"x-holdfast-scope": str(route.permission)}
        | _own_body(route)
        | ({} if route.permission is Permission.PUBLIC else {"security": [{"key": []}, {"session": []}]}),
    }


def _own_body(route: Declared) -> dict[str, Any]:
    """The body of a route that reads it itself."""
    if route.reads_body or route.method == "GET":
        return {}
    content = {kind: _definition(kind) for kind in route.body_types}
    return {"requestBody": {"required": True, "content": content}}


def _definition(kind: str) -> dict[str, Any]:
    """A body that is a workflow definition, or a file."""
    if kind == "application/octet-stream":
        return {"schema": {"type": "string", "format": "binary"}, "example": "…"}
    if kind == "application/json":
        return {"schema": {"type": "object"}, "example": WORKFLOW_DOCUMENT}
    return {"schema": {"type": "string"}, "example": WORKFLOW_TEXT}


def _other(route: Declared) -> dict[str, Any]:
    return {kind: {"schema": {"type": "string"}} for kind in route.other_types}


def _problems(route: Declared) -> list[type[HoldfastError]]:
    found = [] if route.permission is Permission.PUBLIC else [Unauthenticated, Forbidden]
    return [*found, *errors_of(route), TooManyRequests, Unreachable]


def _problem(error: type[HoldfastError]) -> dict[str, Any]:
    example = {
        "type": f"urn:holdfast:{error.code}",
        "title": error.title,
        "status": error.http_status,
        "detail": "What happened, to what.",
        "instance": None,
        "code": str(error.code),
        "remedy": "What to do next.",
        "errors": [],
    }
    return {"application/problem+json": {"schema": reference(PROBLEM_NAME), "example": example}}


def _content(answers: Any) -> dict[str, Any]:
    match answers:
        case None:
            return {}
        case Media(type=kind, description=text):
            shape = "object" if kind == "application/json" else "string"
            return {kind: {"schema": {"type": shape, "description": text}}}
        case Page(of=view) | ListOf(of=view):
            return {"application/json": {"schema": page_of(schema_of(view))}}
        case _:
            return {"application/json": {"schema": schema_of(answers)}}


def page_of(items: Schema) -> Schema:
    return {
        "type": "object",
        "required": ["items", "next_cursor"],
        "properties": {
            "items": {"type": "array", "items": items},
            "next_cursor": {
                "type": ["string", "null"],
                "description": "Give it as `cursor` for the next page. Null: this was the last.",
            },
        },
    }


def reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NAMED: dict[str, Schema] = {PROBLEM_NAME: PROBLEM}
"""The schemas of all views that some route of some application answers, by name."""
_OWNERS: dict[str, Any] = {}


def named_in(part: Any) -> dict[str, Schema]:
    """The named schemas to which a part of a document refers, and those to which they refer."""
    found: dict[str, Schema] = {}
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name in _NAMED and name not in found:
                found[name] = _NAMED[name]
                waiting.append(_NAMED[name])
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return dict(sorted(found.items()))


def schema_of(kind: Any) -> Schema:
    """The JSON Schema of a type; that of a view stands under its name."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union([schema_of(one) for one in arguments])
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin is tuple and (len(arguments) < 2 or arguments[1] is not Ellipsis):
        # Not by `prefixItems`: some readers of OpenAPI take them for the older form of `items`.
        number = len(arguments)
        return {
            "type": "array",
            "items": _union(list(map(schema_of, arguments))),
            "minItems": number,
            "maxItems": number,
        }
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": schema_of(arguments[0])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [one.value for one in kind]}
    if is_dataclass(kind):
        return _named(kind)
    return {}


def _named(kind: Any) -> Schema:
    name = kind.__name__
    if _OWNERS.setdefault(name, kind) is not kind:
        name = f"{kind.__module__.rpartition('.')[2].title()}{name}"
        _OWNERS.setdefault(name, kind)
    if name not in _NAMED:
        # First a place for it: a view may contain itself.
        _NAMED[name] = {}
        _NAMED[name].update(_object(kind))
    return reference(name)


def _object(kind: Any) -> Schema:
    hints, texts = get_type_hints(kind), _field_texts(kind)
    keys: list[tuple[str | None, Field[Any]]] = [(one.metadata.get("json", one.name), one) for one in fields(kind)]
    shown = [(key, one) for key, one in keys if key is not None]
    properties = {}
    for key, one in shown:
        text = texts.get(one.name)
        schema = schema_of(hints[one.name])
        properties[key] = {**schema, "description": text} if text is not None else schema
    return {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "required": [key for key, one in shown if "if_any" not in one.metadata],
        "properties": properties,
    }


def _union(parts: list[Schema]) -> Schema:
    plain = [part["type"] for part in parts if list(part) == ["type"] and isinstance(part["type"], str)]
    if len(plain) == len(parts):
        return {"type": list(dict.fromkeys(plain))}
    return {} if {} in parts else {"anyOf": parts}


@cache
def _field_texts(kind: Any) -> dict[str, str]:
    """The docstring below each field of a view."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, after in zip(tree.body, tree.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and is_text:
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found[one.target.id] = inspect.cleandoc(str(after.value.value))
    return found
