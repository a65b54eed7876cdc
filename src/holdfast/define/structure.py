"""Checks the graph of a workflow: all names exist, no cycle, one start at most, all nodes reachable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.define.definition import Definition
from holdfast.define.document import WorkflowDocument
from holdfast.define.graph import CycleError, Graph, build_graph
from holdfast.define.kinds import KINDS, kind_of_document
from holdfast.define.node_document import DependsOnDocument, NodeDocument
from holdfast.define.source import Path, Report, did_you_mean
from holdfast.errors import cut


def check_references(document: WorkflowDocument, known: Mapping[str, object], report: Report) -> bool:
    """Checks that every named node exists, and that no node names itself. Whether there was no mistake."""
    before = len(report.problems)
    for name, node in document.nodes.items():
        if report.is_full:
            break
        seen: set[tuple[Path, str]] = set()
        for path, group, target in references(name, node, report):
            if (group, target) in seen:
                report.at_value(path, f"'{cut(target)}' is named twice.")
            elif target == name:
                report.at_value(path, f"The node '{name}' names itself.")
            elif target not in known:
                report.at_value(path, f"There is no node '{cut(target)}'.", did_you_mean(target, known))
            seen.add((group, target))
        _check_depends_on(name, node, report)
    return len(report.problems) == before


def references(name: str, node: NodeDocument, report: Report) -> Iterator[tuple[Path, Path, str]]:
    """Each node name in a node's document: its place, the list that it belongs to, and the name."""
    for group, targets in kind_of_document(node).targets(node, ("nodes", name)):
        for index, target in enumerate(targets):
            short = tuple(step for step in group if step != "all_of")
            yield report.source.first_of((*group, index), group, (*short, index), short), group, target


def _check_depends_on(name: str, node: NodeDocument, report: Report) -> None:
    depends_on: DependsOnDocument | None = getattr(node, "depends_on", None)
    both = set(depends_on.all_of or ()) & set(depends_on.any_of or ()) if depends_on else set()
    for source in sorted(both):
        path = ("nodes", name, "depends_on", "any_of")
        report.at_key(path, f"'{cut(source)}' is in all_of and in any_of.", "Remove it from one of them.")


def check_graph(definition: Definition, is_whole: bool, report: Report) -> Graph | None:
    """The graph, if there is no cycle and no broken node: a missing edge would cause misleading messages."""
    try:
        graph = build_graph(definition)
    except CycleError as error:
        # check_references has reported nodes that name themselves.
        if len(set(error.cycle)) > 1:
            report.at_key(("nodes", error.cycle[0]), str(error))
        return None
    if not is_whole:
        return None
    for kind in KINDS.values():
        kind.check_graph(graph, report)
    return graph
