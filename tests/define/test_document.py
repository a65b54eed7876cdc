"""The JSON Schema for editors accepts and refuses the same files as the loader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from holdfast.define.document import schema
from holdfast.define.yaml import read_yaml

FILES = Path(__file__).parent / "files"


def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def data(text: str) -> Any:
    source, _ = read_yaml(text, typed_keys=lambda path: True)
    assert source is not None
    return source.data


def test_the_schema_is_a_valid_schema_of_draft_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_valid_files_fit_the_schema(file: Path) -> None:
    assert [str(error) for error in validator().iter_errors(data(file.read_text()))] == []


@pytest.mark.parametrize(
    "text",
    [
        "nodes: {a: {handler: x}}",
        "workflow_id: w",
        "workflow_id: w\nnodes: {}",
        "workflow_id: w\nnodes: {a/b: {handler: x}}",
        "workflow_id: w\nnodes: {a__b: {handler: x}}",
        "workflow_id: w\nnodes: {a: {}}",
        "workflow_id: w\nnodes: {a: {handler: 5}}",
        "workflow_id: w\nnodes: {a: {handler: x, retrys: {}}}",
        "workflow_id: w\nnodes: {a: {type: tsak, handler: x}}",
        "workflow_id: w\nnodes: {a: {handler: x, timeout_seconds: 0}}",
        "workflow_id: w\nnodes: {a: {handler: x, retry: {backoff: expo}}}",
        "workflow_id: w\nnodes: {a: {handler: x, depends_on: {some_of: [b]}}}",
        "workflow_id: w\nnodes: {a: {type: fan_out, source: x}}",
        "workflow_id: w\nnodes: {a: {type: end, next: b}}",
        "workflow_id: w\ninputs: {x: {type: str}}\nnodes: {a: {handler: x}}",
        "workflow_id: w\nsecrets: {}\nnodes: {a: {handler: x}}",
    ],
)
def test_invalid_files_do_not_fit_the_schema(text: str) -> None:
    assert not validator().is_valid(data(text))


def properties(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, dict):
        if isinstance(part.get("properties"), dict) and "description" in part:
            yield from part["properties"].items()
        for one in part.values():
            yield from properties(one)


def test_every_key_has_a_description_and_none_allows_others() -> None:
    keys = list(properties(schema()))
    assert len(keys) > 60
    assert [key for key, part in keys if not part.get("description")] == []
    parts = [schema(), *schema()["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in parts)
