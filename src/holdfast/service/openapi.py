"""Completes the OpenAPI document: an example for each parameter, body and answer, made from its schema.

An example of a body can be sent as it is. It knows no route: what is declared for a route is all that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.service.schemas import Schema

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
JSON_TYPES = ("application/json", "application/problem+json")
TIME = "2026-03-01T12:00:00Z"
_JOB = "0198c5a2-7f3e-7b1c-9d2a-5e8f0c4b6a11"
_HASH = "5f7a1c0e9b3d4f6a8c2e1d0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a0f9e8d7"
KNOWN: dict[str, Any] = {
    "job_id": _JOB,
    "job": "5e8f0c4b6a11",
    "workflow": "flood",
    "workflow_id": "flood",
    "node": "stack",
    "stage": "2",
    "version": "1",
    "prefix": "hf_4Jk8sQ2x",
    "definition_hash": _HASH,
    "identity": _HASH,
    "digest": f"sha256:{_HASH}",
    "sha256": _HASH,
    "fingerprint": "4155c0c0b33246b5",
    "key": "order-4711",
    "text": "flood",
    "label": ["region=CIV"],
    "labels": {"region": "CIV"},
    "correlation_id": "order-4711",
    "correlation": "order-4711",
    "external_ids": {"gateway": "g-1"},
    "external_id": "gateway:g-1",
    "callback_url": "https://portal.example/done",
    "tenant": "default",
    "roles": ["operator"],
    "scopes": ["read", "submit", "operate"],
    "reason": "the service answers again",
    "message": "the service does not answer",
    "code": "HANDLER_ERROR",
    "class": "transient",
    "status": "completed",
    "answer": "applied",
    "verb": "resume",
    "event": "node_completed",
    "runs": [["completed", 997], ["failed", 3]],
    "handler": "raster.stack",
    "queue": "default",
    "actor": "ada",
    "by": "ada",
    "method": "POST",
    "path": f"/api/v1/jobs/{_JOB}/resume",
    "request_id": "9f86d081884c7d65",
    "database": "holdfast",
    "cron": "0 2 * * *",
    "time_zone": "Africa/Kigali",
    "overlap": "skip",
    "catch_up": "last",
    "schedule": "night",
    "output": {"tiles": 12},
    "inputs": {"region": "CIV"},
    "params": {"region": "CIV"},
    "file": "flood.yaml",
    "format": "json",
    "datetime": TIME,
    "collection_id": "floods",
}
"""What a reader expects below a name. It is used where it fits the schema."""
USUAL_IN_BODIES = ("reason",)
"""Optional fields that an example of a body has."""


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each operation of a document, with its method and its path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                yield method.upper(), path, operation


def complete(document: dict[str, Any]) -> None:
    """Give every parameter, body and answer of a document an example, where it has none."""
    schemas = document["components"]["schemas"]
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            if "example" not in parameter:
                parameter["example"] = Examples(schemas).of(parameter["schema"], parameter["name"])
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if "example" not in content and kind in JSON_TYPES:
                content["example"] = Examples(schemas, is_sent=True).of(content["schema"])
        for answer in operation["responses"].values():
            _drop_what_is_not_answered(answer)
            for kind, content in answer.get("content", {}).items():
                if "example" not in content and kind in JSON_TYPES:
                    content["example"] = Examples(schemas).of(content["schema"])


def _drop_what_is_not_answered(answer: dict[str, Any]) -> None:
    """FastAPI adds JSON to every answer, with an empty schema where the route has another media type."""
    content = answer.get("content", {})
    if not content.get("application/json", {"schema": True}).get("schema") and len(content) > 1:
        del content["application/json"]


class Examples:
    """Makes values that fit schemas; what is sent has only what it needs."""

    def __init__(self, schemas: dict[str, Schema], *, is_sent: bool = False) -> None:
        self._schemas = schemas
        self._is_sent = is_sent
        self._inside: list[str] = []

    def of(self, schema: Schema, name: str = "") -> Any:
        if "example" in schema:
            return schema["example"]
        if "$ref" in schema:
            return self._of_named(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            known = KNOWN.get(name)
            return known if known in schema["enum"] else schema["enum"][0]
        if "anyOf" in schema:
            return self._of_one(schema["anyOf"], name)
        types = kinds_of(schema)
        if name in KNOWN and (not types or kind_of(KNOWN[name]) in types):
            return KNOWN[name]
        return self._of_kind(schema, next((kind for kind in types if kind != "null"), "null"), name)

    def _of_named(self, name: str) -> Any:
        if name in self._inside:
            # A view that contains itself ends here.
            return None
        self._inside.append(name)
        try:
            return self.of(self._schemas[name])
        finally:
            self._inside.pop()

    def _of_one(self, choices: list[Schema], name: str) -> Any:
        known = KNOWN.get(name)
        fits = name in KNOWN and any(kind_of(known) in kinds_of(one) for one in choices)
        if fits and not any("enum" in one for one in choices):
            return known
        found = (self.of(one, name) for one in choices if kinds_of(one) != ["null"])
        return next((one for one in found if one is not None), None)

    def _of_kind(self, schema: Schema, kind: str, name: str) -> Any:
        match kind:
            case "object":
                return self._object(schema)
            case "array":
                found = self.of(schema.get("items", {}), name)
                return [found] * schema.get("minItems", 1) if found is not None else []
            case "string":
                return TIME if schema.get("format") == "date-time" else name.replace("_", " ") or "text"
            case "integer" | "number":
                return max(schema.get("minimum", 0), min(1, schema.get("maximum", 1)))
            case "boolean":
                return bool(schema.get("default", False)) if self._is_sent else True
            case _:
                return None

    def _object(self, schema: Schema) -> dict[str, Any]:
        required = schema.get("required", [])
        return {
            name: self.of(one, name)
            for name, one in schema.get("properties", {}).items()
            if name in required or not self._is_sent or name in USUAL_IN_BODIES
        }


def kinds_of(schema: Schema) -> list[str]:
    """The types that a schema names itself."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    named = {str: "string", int: "integer", float: "number", list: "array", dict: "object", type(None): "null"}
    return named[type(value)]
