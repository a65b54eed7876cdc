"""Checks what the templates of a workflow read: only what exists, and only what is finished by then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from holdfast.define.condition import compile_condition
from holdfast.define.definition import Definition
from holdfast.define.document import (
    ConditionalDocument,
    FanInDocument,
    FanOutDocument,
    Surface,
    TaskDocument,
    Work,
    WorkflowDocument,
)
from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.graph import Graph
from holdfast.define.node import Node
from holdfast.define.program import ITEM_ROOTS, ROOTS
from holdfast.define.source import Path, Report, did_you_mean
from holdfast.define.template import compile_template
from holdfast.errors import cut

NODE_FIELDS = ("output", "status")


@dataclass(frozen=True, slots=True)
class Reading:
    """Something that is evaluated at run time: the texts that it stands in, whose it is, what it reads."""

    texts: Sequence[tuple[Path, str]]
    node: str | None
    paths: AbstractSet[Path]

    def place(self, read: Path) -> tuple[Path, int | None]:
        """Where a path is read, as well as it can be told."""
        for path, text in self.texts:
            found = text.find(f"{read[0]}.{read[1]}")
            if found >= 0:
                return path, found
        return self.texts[0][0], None


def check_templates(document: WorkflowDocument, definition: Definition, graph: Graph | None, report: Report) -> None:
    """Every template can be read, and names only declared inputs and nodes that come before it."""
    known, inputs = report.source.data["nodes"], report.source.data.get("inputs")
    # A workflow that declares no inputs takes any.
    inputs = inputs if isinstance(inputs, dict) else {}
    for reading in _readings(document, definition, report):
        if report.is_full:
            break
        for path in sorted(reading.paths, key=str):
            if path[0] in ("inputs", "input") and len(path) > 1 and inputs and path[1] not in inputs:
                _complain(reading, path, f"There is no input '{cut(str(path[1]))}'.", inputs, report)
            elif path[0] == "nodes" and len(path) > 1:
                _check_node(reading, path, known, graph, report)
            elif path[0] == "upstream":
                _check_upstream(reading, graph, report)


def _check_node(reading: Reading, path: Path, known: Mapping[str, object], graph: Graph | None, report: Report) -> None:
    name = str(path[1])
    if name not in known:
        _complain(reading, path, f"There is no node '{cut(name)}'.", known, report)
    elif len(path) > 2 and path[2] not in NODE_FIELDS:
        message = f"A node has no '{cut(str(path[2]))}', only {' and '.join(NODE_FIELDS)}."
        _complain(reading, path, message, NODE_FIELDS, report, str(path[2]))
    elif graph is not None and reading.node is not None and not graph.is_upstream(name, reading.node):
        if name == reading.node:
            message = f"The node '{name}' reads its own output."
        else:
            message = f"The node '{name}' is not upstream of '{reading.node}': it may not be finished by then."
        where, offset = reading.place(path)
        report.at_value(where, message, offset=offset)


def _check_upstream(reading: Reading, graph: Graph | None, report: Report) -> None:
    if reading.node is None or (graph is not None and not graph.sources[reading.node]):
        message = "'upstream' is the node right before this one, and here there is none."
        report.at_value(reading.texts[0][0], message)


def _complain(
    reading: Reading, path: Path, message: str, known: Iterable[str], report: Report, word: str | None = None
) -> None:
    where, offset = reading.place(path)
    suggestion = did_you_mean(word or str(path[1]), [one for one in known if one != reading.node])
    report.at_value(where, message, suggestion, offset)


def _readings(document: WorkflowDocument, definition: Definition, report: Report) -> Iterator[Reading]:
    for node in definition.nodes:
        yield from _node_readings(node, document.nodes[node.name], report)
    if "result" in document.model_fields_set:
        yield from _template_readings(document.result, ("result",), None, ROOTS, report)


def _node_readings(node: Node, document: Surface, report: Report) -> Iterator[Reading]:
    name, path = node.name, ("nodes", node.name)
    if node.deliverable is not None:
        # Rendered for whoever looks, at any time: it may read any node.
        where = (*path, "deliverable", "location")
        yield from _template_readings(node.deliverable.location, where, None, ROOTS, report)
    if isinstance(document, TaskDocument | FanInDocument):
        yield from _template_readings(document.params, (*path, "params"), name, ROOTS, report)
        yield from _key_readings(document, path, name, report)
        if isinstance(document, FanInDocument) and document.batch is not None:
            batch, place = document.batch, (*path, "batch")
            yield from _template_readings(batch.size, (*place, "size"), name, ROOTS, report)
            yield from _template_readings(batch.params, (*place, "params"), name, ITEM_ROOTS, report)
            yield from _key_readings(batch, place, name, report)
    elif isinstance(document, FanOutDocument):
        yield from _template_readings(document.source, (*path, "source"), name, ROOTS, report)
        params = document.task.params
        yield from _template_readings(params, (*path, "task", "params"), name, ITEM_ROOTS, report)
        yield from _key_readings(document.task, (*path, "task"), name, report)
    elif isinstance(document, ConditionalDocument):
        # normalise.py has reported what cannot be read, and left it out.
        conditions = [branch.condition for branch in node.branches if branch.condition is not None]
        paths = {read for condition in conditions for read in compile_condition(condition, ROOTS).paths}
        yield Reading(list(_condition_texts(document, path)), name, paths)


def _key_readings(work: Work, path: Path, node: str, report: Report) -> Iterator[Reading]:
    """Keys of limits: the same for all items of a fan-out."""
    for name, limit in (("concurrency", work.concurrency), ("rate", work.rate)):
        if limit is not None:
            yield from _template_readings(limit.key, (*path, name, "key"), node, ROOTS, report)


def _template_readings(
    value: Any, path: Path, node: str | None, roots: frozenset[str], report: Report
) -> Iterator[Reading]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _template_readings(item, (*path, key), node, roots, report)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _template_readings(item, (*path, index), node, roots, report)
    elif isinstance(value, str) and "{" in value:
        try:
            yield Reading([(path, value)], node, compile_template(value, roots).paths)
        except ExpressionSyntaxError as error:
            message = f"The template cannot be read: {error.message}"
            report.at_value(path, message, error.suggestion, error.position)


def _condition_texts(node: ConditionalDocument, path: Path) -> Iterator[tuple[Path, str]]:
    for key in ("condition_field", "condition"):
        text = getattr(node, key)
        if text is not None:
            yield (*path, key), text
    if isinstance(node.branches, list):
        for index, branch in enumerate(node.branches):
            yield (*path, "branches", index, "condition"), branch.condition or ""
    yield path, ""
