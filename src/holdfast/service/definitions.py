"""Workflow definitions that come with a request: as YAML, or as a JSON object of the same form."""

from __future__ import annotations

from typing import Any

import orjson

from holdfast.define.definition import Definition
from holdfast.define.load import load_text


def definition_of(document: dict[str, Any]) -> Definition:
    """JSON is YAML, too: one reader finds all mistakes."""
    return load_text(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(), "definition")
