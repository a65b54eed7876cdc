"""Expressions as people read them in a drawing."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


def short_expression(expression: str) -> str:
    """`(nodes.check.output.size) > 100` becomes `check.size > 100`: for people, not for machines."""
    parts = _QUOTED.split(expression)
    # Every second part is a text in quotation marks, which does not change.
    return "".join(part if number % 2 else _short(part) for number, part in enumerate(parts)).strip()


def _short(part: str) -> str:
    text = re.sub(r"\{\{\s*|\s*\}\}", "", part)
    text = re.sub(r"\bnodes\.([\w-]+)\.output\b", r"\1", text)
    return re.sub(r"(?<!\w)\(([\w.-]+)\)", r"\1", re.sub(r"\s+", " ", text))
