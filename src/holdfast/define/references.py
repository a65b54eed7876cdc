"""Checks that templates read only inputs and nodes that exist, and only nodes that have finished by then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.define.definition import Definition
from holdfast.define.document import WorkflowDocument
from holdfast.define.graph import Graph
from holdfast.define.kinds import kind_of
from holdfast.define.node_program import ROOTS
from holdfast.define.program import NOTIFY_ROOTS
from holdfast.define.readings import Reading, template_readings
from holdfast.define.source import Path, Report, did_you_mean
from holdfast.errors import cut

NODE_FIELDS = ("output", "status")


def check_templates(document: WorkflowDocument, definition: Definition, graph: Graph | None, report: Report) -> None:
    """Checks that every template can be parsed and reads only declared inputs and upstream nodes."""
    known, inputs = report.source.data["nodes"], report.source.data.get("inputs")
    # A workflow that declares no inputs accepts any.
    inputs = inputs if isinstance(inputs, dict) else {}
    for reading in _readings(document, definition, report):
        if report.is_full:
            break
        for path in sorted(reading.paths, key=str):
            if path[0] in ("inputs", "input") and len(path) > 1 and inputs and path[1] not in inputs:
                _report(reading, path, f"There is no input '{cut(str(path[1]))}'.", inputs, report)
            elif path[0] == "nodes" and len(path) > 1:
                _check_node(reading, path, known, graph, report)
            elif path[0] == "upstream":
                _check_upstream(reading, graph, report)


def _check_node(reading: Reading, path: Path, known: Mapping[str, object], graph: Graph | None, report: Report) -> None:
    name = str(path[1])
    if name not in known:
        _report(reading, path, f"There is no node '{cut(name)}'.", known, report)
    elif len(path) > 2 and path[2] not in NODE_FIELDS:
        message = f"A node has no '{cut(str(path[2]))}', only {' and '.join(NODE_FIELDS)}."
        _report(reading, path, message, NODE_FIELDS, report, str(path[2]))
    elif graph is not None and reading.node is not None and not graph.is_upstream(name, reading.node):
        if name == reading.node:
            message = f"The node '{name}' reads its own output."
        else:
            message = f"The node '{name}' is not upstream of '{reading.node}': it may not have finished by then."
        where, offset = reading.place(path)
        report.at_value(where, message, offset=offset)


def _check_upstream(reading: Reading, graph: Graph | None, report: Report) -> None:
    if reading.node is None or (graph is not None and not graph.sources[reading.node]):
        message = "'upstream' is the node right before this one, and there is no such node here."
        report.at_value(reading.texts[0][0], message)


def _report(
    reading: Reading, path: Path, message: str, known: Iterable[str], report: Report, word: str | None = None
) -> None:
    where, offset = reading.place(path)
    suggestion = did_you_mean(word or str(path[1]), [one for one in known if one != reading.node])
    report.at_value(where, message, suggestion, offset)


def _readings(document: WorkflowDocument, definition: Definition, report: Report) -> Iterator[Reading]:
    for node in definition.nodes:
        path: Path = ("nodes", node.name)
        if node.deliverable is not None:
            # Rendered whenever a job is shown, so it may read any node.
            where = (*path, "deliverable", "location")
            yield from template_readings(node.deliverable.location, where, None, ROOTS, report)
        yield from kind_of(node).readings(node, document.nodes[node.name], path, report)
    for place, rule in enumerate(definition.notify):
        yield from template_readings(rule.email, ("notify", place, "email"), None, NOTIFY_ROOTS, report)
    if "result" in document.model_fields_set:
        yield from template_readings(document.result, ("result",), None, ROOTS, report)
