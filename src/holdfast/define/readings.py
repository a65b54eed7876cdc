"""The inputs and outputs that a workflow's templates and conditions read, with their places in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.node_program import ONLY_IN_PARAMS, ROOTS
from holdfast.define.source import Path, Report
from holdfast.define.template import compile_template
from holdfast.define.work_document import Work


@dataclass(frozen=True, slots=True)
class Reading:
    """A template or condition: its texts and their places, its node, and the paths that it reads."""

    texts: Sequence[tuple[Path, str]]
    node: str | None
    paths: AbstractSet[Path]

    def place(self, read: Path) -> tuple[Path, int | None]:
        """The place of the text that reads a path, and the offset in it if it is known."""
        for path, text in self.texts:
            offset = text.find(f"{read[0]}.{read[1]}")
            if offset >= 0:
                return path, offset
        return self.texts[0][0], None


def work_readings(
    work: Work, path: Path, node: str, report: Report, params_roots: frozenset[str] = ROOTS
) -> Iterator[Reading]:
    """What a task reads: its params, then the keys of its limits, which are the same for all items of a fan-out."""
    yield from template_readings(work.params, (*path, "params"), node, params_roots | ONLY_IN_PARAMS, report)
    for name, limit in (("concurrency", work.concurrency), ("rate", work.rate)):
        if limit is not None:
            yield from template_readings(limit.key, (*path, name, "key"), node, ROOTS, report)


def template_readings(
    value: Any, path: Path, node: str | None, roots: frozenset[str], report: Report
) -> Iterator[Reading]:
    """What each text in a value reads; a template that cannot be parsed is reported instead."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from template_readings(item, (*path, key), node, roots, report)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from template_readings(item, (*path, index), node, roots, report)
    elif isinstance(value, str) and "{" in value:
        try:
            yield Reading([(path, value)], node, compile_template(value, roots).paths)
        except ExpressionSyntaxError as error:
            message = f"The template is not valid: {error.message}"
            report.at_value(path, message, error.suggestion, error.position)
