"""Checks an output against the schema that its node declares, and says where it differs, what was expected and found.

The library is imported with the first schema, so that workflows without schemas do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.define.plain import shortened
from holdfast.errors import cut

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

PATTERN_BYTES = 1 << 20
"""The largest size of a compiled pattern."""
EXPECTED_LENGTH = 300

_ARTICLES = {"array": "an array", "object": "an object", "integer": "an integer", "null": "null"}


class Contract:
    """An output schema that has passed `output_schema.problems`, ready to check outputs."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._validator: Draft202012Validator | None = None

    def breach(self, output: bytes) -> str | None:
        """The first mistake in an output, which is JSON text; None if there is none."""
        from jsonschema_rs import ValidationError

        try:
            self._validator = self._validator or compiled(self._schema)
        except ValidationError as error:
            # Another version of Holdfast accepted it.
            return f"this worker cannot read the schema: {error.message}"
        try:
            self._validator.validate(orjson.loads(output))
        except ValidationError as error:
            where = pointer(error.instance_path)
            return f"{f'at {where}: ' if where else ''}expected {expected(error)}, got {shortened(error.instance)}"
        return None


class Contracts:
    """The contracts of a pinned definition. Ignores all other keys, which another version may have written."""

    def __init__(self, definition_json: bytes | str) -> None:
        nodes = orjson.loads(definition_json)["nodes"]
        self._own = _contracts({node["name"]: node["task"] for node in nodes})
        batches = {node["name"]: node["batches"]["task"] for node in nodes if "batches" in node}
        self._of_items = {name: contract for name, contract in self._own.items() if name not in batches}
        self._of_items |= _contracts(batches)

    def of(self, node: str, item: int) -> Contract | None:
        """The contract of an item or, below 0, of the node's own task. Batches have their own contract."""
        return (self._of_items if item >= 0 else self._own).get(node)


def _contracts(tasks: dict[str, Any]) -> dict[str, Contract]:
    schemas = {name: (task or {}).get("output_schema") for name, task in tasks.items()}
    return {name: Contract(schema) for name, schema in schemas.items() if schema is not None}


def compiled(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator that never uses the network, and whose patterns do not backtrack: they take linear time."""
    from jsonschema_rs import Draft202012Validator, RegexOptions

    return Draft202012Validator(schema, offline=True, pattern_options=RegexOptions(size_limit=PATTERN_BYTES))


def pointer(path: Iterable[str | int]) -> str:
    """A place in a JSON value, as RFC 6901 writes it."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def expected(error: ValidationError) -> str:
    """What the schema expects at the place of the mistake."""
    keyword, declared = error.kind.name, error.kind.value
    if keyword in _WORDS:
        return _WORDS[keyword](declared)
    if keyword in ("anyOf", "oneOf") and not all(declared):
        return f"a value that fits only one of the {len(declared)} schemas of oneOf"
    if keyword in ("anyOf", "oneOf"):
        return cut(" or ".join(dict.fromkeys(_alternative(error, failed[0]) for failed in declared)), EXPECTED_LENGTH)
    return f"a value that fits '{keyword}'"


def _alternative(error: ValidationError, failed: ValidationError) -> str:
    within = pointer(failed.instance_path[len(error.instance_path) :]).removeprefix("/")
    return f"{expected(failed)}{f' at {within}' if within else ''}"


def _types(names: list[str]) -> str:
    return " or ".join(_ARTICLES.get(name, f"a {name}") for name in names)


def _several(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "type": _types,
    "enum": lambda values: cut(f"one of {', '.join(map(shortened, values))}", EXPECTED_LENGTH),
    "const": shortened,
    "required": lambda name: f"an object with '{name}'",
    "additionalProperties": lambda names: f"an object without '{names[0]}'",
    "unevaluatedProperties": lambda names: f"an object without '{names[0]}'",
    "falseSchema": lambda _: "nothing",
    "minItems": lambda n: f"an array of at least {_several(n, 'item', 'items')}",
    "maxItems": lambda n: f"an array of at most {_several(n, 'item', 'items')}",
    "uniqueItems": lambda _: "an array without repetitions",
    "minLength": lambda n: f"a string of at least {_several(n, 'character', 'characters')}",
    "maxLength": lambda n: f"a string of at most {_several(n, 'character', 'characters')}",
    "minProperties": lambda n: f"an object of at least {_several(n, 'property', 'properties')}",
    "maxProperties": lambda n: f"an object of at most {_several(n, 'property', 'properties')}",
    "minimum": lambda n: f"a number of at least {n}",
    "maximum": lambda n: f"a number of at most {n}",
    "exclusiveMinimum": lambda n: f"a number above {n}",
    "exclusiveMaximum": lambda n: f"a number below {n}",
    "multipleOf": lambda n: f"a multiple of {n}",
    "pattern": lambda pattern: f"a string that matches {pattern}",
    "not": lambda schema: f"something that does not fit {shortened(schema)}",
    "contains": lambda _: "an array with the items that 'contains' declares",
    "propertyNames": lambda error: f"names of properties that are {expected(error)}",
}
