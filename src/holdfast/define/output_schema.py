"""Checks the schema that a node declares for its outputs: JSON Schema 2020-12 without external references.

Limits the size, the patterns and the references, because a small schema can otherwise take for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from holdfast.define import pattern
from holdfast.define.contract import compiled, expected
from holdfast.define.plain import canonical_size, shortened
from holdfast.define.source import Path, did_you_mean

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 64 * 1024
MAX_PATTERNS = 100
MAX_UNFOLDED = 10_000

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_ONE = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "contains",
    "not", "if", "then", "else", "contentSchema",
)  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_PLAIN = (
    "type", "enum", "const", "required", "dependentRequired", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains",
    "maxContains", "minProperties", "maxProperties",
)  # fmt: skip
_KEYWORDS = {word.lower(): word for word in (*_ONE, *_LISTS, *_MAPS, *_PLAIN)}
_REFERENCES = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_DEFINITIONS = ("$defs", "definitions")


class Problem(NamedTuple):
    """A mistake and its place in the schema."""

    path: Path
    message: str
    suggestion: str | None = None


def problems(schema: dict[str, Any]) -> list[Problem]:
    """The mistakes in a schema. Without any, outputs can be checked against it."""
    if canonical_size(schema) > MAX_SCHEMA_BYTES:
        return [Problem((), f"The output_schema is larger than {MAX_SCHEMA_BYTES // 1024} KiB.")]
    if schema.get("$schema", DIALECT) not in (DIALECT, f"{DIALECT}#"):
        return [Problem(("$schema",), "An output_schema is JSON Schema 2020-12.", f"Write {DIALECT}, or leave it out.")]
    mistakes = list(_malformed(schema))
    if not mistakes:
        whole = _Whole(schema)
        mistakes = list(_unfit(whole)) or list(_unbounded(whole)) or list(_uncompilable(schema))
    return mistakes


def _malformed(schema: dict[str, Any]) -> Iterator[Problem]:
    """The mistakes that the meta-schema finds, the first of each place."""
    seen: set[Path] = set()
    for error in compiled({"$ref": DIALECT}).iter_errors(schema):
        path = tuple(error.instance_path)
        if path in seen:
            continue
        seen.add(path)
        expectation, suggestion = expected(error), None
        if path[-1:] == ("type",):
            expectation = f"one of {', '.join(_TYPES)}, or a list of these"
            suggestion = did_you_mean(error.instance, _TYPES) if isinstance(error.instance, str) else None
        message = (
            f"The output_schema is not a valid JSON Schema: expected {expectation}, got {shortened(error.instance)}."
        )
        yield Problem(path, message, suggestion)


class _Whole:
    """A well-formed schema, and all schemas in it by their places, for looking up references."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.parts = dict(_subschemas(schema))
        self._places = {id(part) for part in self.parts.values()}
        self._anchors = {f"#{part[key]}": part for part in self.parts.values() for key in _ANCHORS if key in part}

    def target(self, reference: str) -> Any:
        """The schema that a reference such as #/$defs/NAME names; None if it does not exist."""
        if reference == "#" or reference in self._anchors:
            return self._anchors.get(reference, self.schema)
        current: Any = self.schema
        for step in unquote(reference.removeprefix("#/")).split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(current, list):
                current = current[int(key)] if key.isdecimal() and int(key) < len(current) else None
            else:
                current = current.get(key) if isinstance(current, dict) else None
        return current if isinstance(current, bool) or id(current) in self._places else None


def _unfit(whole: _Whole) -> Iterator[Problem]:
    """Valid JSON Schema that an output_schema must not use."""
    for path, part in whole.parts.items():
        for key, value in part.items():
            meant = _KEYWORDS.get(key.replace("_", "").replace("-", "").lower(), key)
            if key in _REFERENCES:
                yield from _bad_reference(whole, (*path, key), value)
            elif key == "$id" and path:
                yield Problem((*path, key), "Only the whole output_schema may have an '$id', not a part of it.")
            elif key != meant:
                yield Problem((*path, key), f"'{key}' is not a keyword of JSON Schema.", f"Did you mean '{meant}'?")


def _bad_reference(whole: _Whole, path: Path, reference: str) -> Iterator[Problem]:
    if not reference.startswith("#"):
        message = f"{shortened(reference)} is outside the output_schema, and Holdfast fetches no schemas."
        yield Problem(path, message, "Copy it under '$defs', and refer to '#/$defs/NAME'.")
    elif whole.target(reference) is None:
        yield Problem(path, f"There is no schema at {shortened(reference)} in the output_schema.")


def _unbounded(whole: _Whole) -> Iterator[Problem]:
    patterns = sum(len(part.get("patternProperties", ())) + ("pattern" in part) for part in whole.parts.values())
    if patterns > MAX_PATTERNS:
        yield Problem((), f"The output_schema has {patterns:,} patterns; at most {MAX_PATTERNS} are checked.")
    try:
        unfolded = _unfolded(whole.schema, whole, {})
    except RecursionError:
        yield Problem((), "The references of the output_schema are nested too deeply.")
        return
    if unfolded > MAX_UNFOLDED:
        message = f"With all references followed, the output_schema has more than {MAX_UNFOLDED:,} parts."
        yield Problem((), message, "Use fewer references to parts that have references themselves.")


def _unfolded(schema: Any, whole: _Whole, known: dict[int, int]) -> int:
    """The number of schemas with every reference followed; a circular reference counts once."""
    if not isinstance(schema, dict):
        return 1
    if id(schema) not in known:
        known[id(schema)] = 1
        within = [part for step, part in _parts(schema) if step[0] not in _DEFINITIONS]
        within += [whole.target(schema[key]) for key in _REFERENCES if key in schema]
        known[id(schema)] = 1 + sum(_unfolded(part, whole, known) for part in within)
    return known[id(schema)]


def _uncompilable(schema: dict[str, Any]) -> Iterator[Problem]:
    from jsonschema_rs import ValidationError

    try:
        compiled(schema)
    except ValidationError as error:
        path = tuple(error.instance_path)
        if error.kind.name == "format":
            yield Problem(path, f"The pattern {pattern.UNREADABLE}.", pattern.SUGGESTION)
        else:
            yield Problem(path, f"The output_schema cannot be used: {error.message}.")


def _subschemas(schema: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every schema within a schema, with its place. Values of `enum` and `const` are not schemas."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for step, part in _parts(schema):
        yield from _subschemas(part, (*path, *step))


def _parts(schema: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    for key in schema:
        if key in _ONE:
            yield (key,), schema[key]
        elif key in _LISTS:
            yield from (((key, index), part) for index, part in enumerate(schema[key]))
        elif key in _MAPS:
            yield from (((key, name), part) for name, part in schema[key].items())
