"""The OpenAPI document is valid and complete: nothing that a reader or a generator of clients needs is left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from holdfast.operations.identity import Permission
from holdfast.service.openapi import JSON_TYPES, operations
from tests.service.routes_of import Route, all_routes, document

PROBLEM = "#/components/schemas/Problem"


def test_the_document_is_valid() -> None:
    OPENAPI_31_VALIDATOR.validate(document())
    assert document()["openapi"].startswith("3.1")


def test_every_name_of_an_operation_is_its_own() -> None:
    names = Counter(operation["operationId"] for _, _, operation in operations(document()))
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.parametrize("route", all_routes(), ids=lambda route: route.title)
def test_every_operation_is_described_to_its_end(route: Route) -> None:
    assert lacks_of(route.operation, route.permission) == []


def lacks_of(operation: dict[str, Any], permission: Permission) -> list[str]:
    """What the description of an operation lacks."""
    lacks = [
        f"it has no {name}" for name in ("summary", "description", "tags", "operationId") if not operation.get(name)
    ]
    if operation.get("x-holdfast-scope") != permission:
        lacks.append("it does not say which permission it needs")
    for one in operation.get("parameters", ()):
        lacks += [
            f"the parameter {one['name']} has no {what}" for what in ("description", "schema") if not one.get(what)
        ]
        lacks += misfits(f"the example of the parameter {one['name']}", one["schema"], one.get("example"))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if content.get("example") is None:
            lacks.append(f"its body has no example as {kind}: name the field in service/openapi.py, KNOWN")
        lacks += misfits(f"the example of the body as {kind}", content.get("schema"), content.get("example"))
    lacks += [lack for status, answer in operation["responses"].items() for lack in _lacks_of_answer(status, answer)]
    expected = {"422", "429", "503"} | ({"401", "403"} if permission is not Permission.PUBLIC else set())
    lacks += [f"it does not say that it may answer {one}" for one in sorted(expected - operation["responses"].keys())]
    if permission is not Permission.PUBLIC and not operation.get("security"):
        lacks.append("it does not say that it needs a credential")
    return lacks


def _lacks_of_answer(status: str, answer: dict[str, Any]) -> list[str]:
    lacks = [] if answer.get("description") else [f"answer {status} has no description"]
    content = answer.get("content", {})
    if not content and status not in ("204", "304"):
        lacks.append(f"answer {status} has no content")
    if int(status) >= 400 and content.get("application/problem+json", {}).get("schema") != {"$ref": PROBLEM}:
        lacks.append(f"answer {status} is no problem")
    for kind, one in content.items():
        if not one.get("schema"):
            lacks.append(f"answer {status} has no schema as {kind}")
        if kind in JSON_TYPES:
            lacks += misfits(f"the example of answer {status}", one.get("schema"), one.get("example"))
    return lacks


def misfits(what: str, schema: Any, example: Any) -> list[str]:
    """Where an example does not fit its schema."""
    if schema is None:
        return [f"{what} has no schema"]
    whole = {**schema, "components": document()["components"]}
    return [
        f"{what} does not fit its schema at {'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in jsonschema_rs.validator_for(whole, validate_formats=True).iter_errors(example)
    ]


def test_every_schema_says_what_it_is() -> None:
    schemas = document()["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_what_lacks_is_noticed() -> None:
    bare: dict[str, Any] = {
        "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}, "example": "x"}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}, "example": 7}}},
        "responses": {"200": {"content": {"application/json": {}}}, "404": {"description": "no"}},
    }
    lacks = "\n".join(lacks_of(bare, Permission.READ))
    for words in ("no summary", "limit has no description", "parameter limit does not fit", "body as application/json"):
        assert words in lacks
    for words in ("200 has no description", "404 is no problem", "may answer 401", "needs a credential", "no schema"):
        assert words in lacks
