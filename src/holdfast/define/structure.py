"""Checks how the nodes of a workflow hang together: every name known, one start, no cycle, all in reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.define.definition import Definition
from holdfast.define.document import (
    BranchDocument,
    ConditionalDocument,
    DependsOnDocument,
    Surface,
    WorkflowDocument,
)
from holdfast.define.graph import CycleError, Graph, build_graph
from holdfast.define.node import NodeType
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


def references(name: str, node: Surface, report: Report) -> Iterator[tuple[Path, Path, str]]:
    """Each name that a node mentions: where it stands, the list that it belongs to, and the name."""
    for group, targets in _reference_lists(("nodes", name), node):
        for index, target in enumerate(targets):
            short = tuple(step for step in group if step != "all_of")
            yield report.source.first_of((*group, index), group, (*short, index), short), group, target


def _reference_lists(path: Path, node: Surface) -> Iterator[tuple[Path, list[str]]]:
    for key in ("next", "on_true", "on_false"):
        yield (*path, key), getattr(node, key, None) or []
    depends_on: DependsOnDocument | None = getattr(node, "depends_on", None)
    if depends_on is not None:
        yield (*path, "depends_on", "all_of"), depends_on.all_of or []
        yield (*path, "depends_on", "any_of"), depends_on.any_of or []
    if isinstance(node, ConditionalDocument) and node.branches is not None:
        yield from _branch_lists((*path, "branches"), node.branches)


def _branch_lists(
    path: Path, branches: list[BranchDocument] | dict[str, list[str]]
) -> Iterator[tuple[Path, list[str]]]:
    if isinstance(branches, dict):
        for key, targets in branches.items():
            yield (*path, key), targets
    else:
        for index, branch in enumerate(branches):
            yield (*path, index, "next"), branch.next


def _check_depends_on(name: str, node: Surface, report: Report) -> None:
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
    _check_start(graph, report)
    _check_ends(graph, report)
    _check_fan_ins(graph, report)
    return graph


def _check_start(graph: Graph, report: Report) -> None:
    starts = [name for name in graph.names if graph.nodes[name].type is NodeType.START]
    for name in starts[1:]:
        report.at_key(("nodes", name), f"There is a second start; the first is '{starts[0]}'.")
    for name in starts:
        for source in graph.sources[name]:
            report.at_key(("nodes", source), f"'{source}' leads to the start '{name}', which waits for nothing.")
    if len(starts) != 1 or graph.sources[starts[0]]:
        return
    reached = {starts[0]} | graph.descendants(starts[0])
    for name in graph.names:
        if name not in reached and not any(source not in reached for source in graph.sources[name]):
            message = f"The node '{name}' cannot be reached from '{starts[0]}'."
            hint = f"Name it in the next of another node, or give it 'depends_on: [{starts[0]}]'."
            report.at_key(("nodes", name), message, hint)


def _check_ends(graph: Graph, report: Report) -> None:
    for name in graph.names:
        if graph.nodes[name].type is NodeType.END:
            for target in graph.outgoing[name]:
                report.at_key(("nodes", target), f"'{target}' waits for the end '{name}', which nothing follows.")


def _check_fan_ins(graph: Graph, report: Report) -> None:
    for name in graph.names:
        if graph.nodes[name].type is not NodeType.FAN_IN:
            continue
        found = [one for one in graph.sources[name] if graph.nodes[one].type is NodeType.FAN_OUT]
        if len(found) == 1:
            continue
        count = f"has {len(found)} ({', '.join(found)})" if found else "has none"
        report.at_key(
            ("nodes", name),
            f"The fan_in '{name}' must directly follow exactly one fan_out; it {count}.",
            f"Give the fan_out 'next: {name}'." if not found else None,
        )
