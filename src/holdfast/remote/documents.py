"""Definitions on their way to the service: as they were written, so that it checks them as it checks all others."""

from __future__ import annotations

from typing import Any

import orjson

from holdfast.define.definition import Definition
from holdfast.errors import InvalidInput


def fields_of(definition: Definition) -> dict[str, Any]:
    """The fields of a submission that name or bring a definition. For one from a store its hash will do."""
    if definition.document is None:
        return {"workflow": definition.workflow_id, "definition_hash": definition.hash()}
    return brought(definition)


def brought(definition: Definition) -> dict[str, Any]:
    """The fields that bring a definition, with the text that it was read from."""
    text = definition.text
    source = {"kind": text.kind, "content": text.content, "name": text.name} if text is not None else None
    if source is not None and source["kind"] != "python":
        return {"source": source}
    found: dict[str, Any] = {"definition": _document(definition)}
    return found | ({"source": source} if source is not None else {})


def body_of(definition: Definition) -> tuple[str, str]:
    """The definition as a body of its own: its media type and its text."""
    if definition.text is not None and definition.text.kind != "python":
        return f"application/{definition.text.kind}", definition.text.content
    return "application/json", orjson.dumps(_document(definition), option=orjson.OPT_NON_STR_KEYS).decode()


def _document(definition: Definition) -> Any:
    if definition.document is None:
        raise InvalidInput(
            f"The definition of {definition.workflow_id} was read from a store: it is not known as it was written.",
            remedy="Load its file, or build it with Workflow.",
        )
    # Branches may be named by booleans; in JSON all names are texts.
    return orjson.loads(orjson.dumps(definition.document, option=orjson.OPT_NON_STR_KEYS))
