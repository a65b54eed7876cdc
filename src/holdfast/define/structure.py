"""Checks how the nodes of a workflow hang together: every name known, one start, no cycle, all in reach."""

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
    """Whether every node that is named exists and is not the naming node itself."""
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
    """Each name that a node mentions: where it stands, the list that it belongs to, and the name."""
    for group, targets in kind_of_document(node).targets(node, ("nodes", name)):
        for index, target in enumerate(targets):
            short = tuple(step for step in group if step != "all_of")
            yield report.source.first_of((*group, index), group, (*short, index), short), group, target


def _check_depends_on(name: str, node: NodeDocument, report: Report) -> None:
    depends_on: DependsOnDocument | None = getattr(node, "depends_on", None)
    both = set(depends_on.all_of or ()) & set(depends_on.any_of or ()) if depends_on else set()
    for source in sorted(both):
        path = ("nodes", name, "depends_on", "any_of")
        report.at_key(path, f"'{cut(source)}' stands in all_of and in any_of.", "Remove it from one of them.")


def check_graph(definition: Definition, is_whole: bool, report: Report) -> Graph | None:
    """The graph, if the nodes have an order and are all there: an edge that is missing would mislead."""
    try:
        graph = build_graph(definition)
    except CycleError as error:
        # That a node names itself has been said by check_references.
        if len(set(error.cycle)) > 1:
            report.at_key(("nodes", error.cycle[0]), str(error))
        return None
    if not is_whole:
        return None
    for kind in KINDS.values():
        kind.check_graph(graph, report)
    return graph
