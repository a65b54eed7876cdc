"""Workflow definitions that come with a request: as YAML, or as a JSON object of the same form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from holdfast.define.definition import Definition
from holdfast.define.load import check_read, load_text, read_text
from holdfast.define.plain import parse_json
from holdfast.define.program import compile_definition
from holdfast.define.source import DefinitionText, by_place
from holdfast.define.traps import traps
from holdfast.define.workflow_file import Checked
from holdfast.errors import InvalidInput
from holdfast.service.call import CallContext
from holdfast.service.routing import read_body

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
JSON_TYPE = "application/json"
BODY_TYPES = ("application/yaml", JSON_TYPE)


def definition_of(document: dict[str, Any]) -> Definition:
    """JSON is YAML, too: one reader finds all mistakes."""
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    return replace(load_text(text, "definition"), text=DefinitionText("json", text))


def definition_from(text: DefinitionText, document: dict[str, Any] | None) -> Definition:
    """The definition of a text that is kept as it came. What a Python file says is known only from its `document`."""
    if text.kind != "python":
        return definition_in(text)
    if document is None:
        raise InvalidInput(
            "The text of a Python file says nothing by itself.", remedy="Give its `definition`, too, as JSON."
        )
    return replace(definition_of(document), text=text)


async def text_in(call: CallContext, file: str | None) -> DefinitionText:
    """The body of a request that is a definition, as it came."""
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in YAML_TYPES and kind != JSON_TYPE and not kind.endswith("+json"):
        raise InvalidInput(
            f"The body must be a workflow definition in YAML or JSON, not '{kind}'.",
            remedy=f"Send `Content-Type: {YAML_TYPES[0]}` or `{JSON_TYPE}`.",
        )
    raw = await read_body(call.request, call.state)
    if kind in YAML_TYPES:
        return DefinitionText("yaml", _decoded(raw), file)
    return await call.state.beside.run(lambda: DefinitionText("json", _json(raw), file))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("The body is not UTF-8.") from None


def _json(raw: bytes) -> str:
    text = _decoded(raw)
    try:
        parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The body is not JSON: {error}.") from None
    return text


def definition_in(text: DefinitionText) -> Definition:
    """The definition that a text says, with the text as it came. Raises InvalidDefinition with all its mistakes."""
    return replace(load_text(text.content, text.name or "definition"), text=text)


def checked(text: DefinitionText) -> Checked:
    """The definition, or None, all mistakes of a text, and its warnings."""
    source, problems = read_text(text.content, text.name)
    definition, problems = check_read(source, problems)
    if definition is None or source is None:
        return Checked(None, problems, [])
    return Checked(definition, [], by_place(traps(compile_definition(definition), source)))
