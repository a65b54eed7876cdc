"""The inputs of a workflow as JSON Schema, from which forms are made."""

from __future__ import annotations

from typing import Any

from holdfast.define.definition import Definition, Input, InputType


def inputs_schema(definition: Definition) -> dict[str, Any]:
    """What a submission's inputs must match. A workflow that declares no inputs takes any."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": definition.name or definition.workflow_id,
        "type": "object",
    }
    if not definition.inputs:
        return schema
    return schema | {
        "properties": {one.name: _property(one) for one in definition.inputs},
        "required": [one.name for one in definition.inputs if one.required and not one.has_default],
        "additionalProperties": False,
    }


def _property(one: Input) -> dict[str, Any]:
    schema: dict[str, Any] = {} if one.type is InputType.ANY else {"type": str(one.type)}
    bounds = {"minimum": one.minimum, "maximum": one.maximum, "pattern": one.pattern}
    schema |= {name: value for name, value in bounds.items() if value is not None}
    lengths = "Items" if one.type is InputType.ARRAY else "Length"
    if one.min_length is not None:
        schema[f"min{lengths}"] = one.min_length
    if one.max_length is not None:
        schema[f"max{lengths}"] = one.max_length
    if one.enum is not None:
        schema["enum"] = list(one.enum)
    if schema and not one.required and (not one.has_default or one.default is None):
        # Null says the same as no value.
        schema = {"anyOf": [schema, {"type": "null"}]}
    if one.description:
        schema["description"] = one.description
    if one.has_default:
        schema["default"] = one.default
    return schema
