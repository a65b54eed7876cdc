"""The edges of a definition: which nodes a node waits for, in which order, and what is upstream of it.

Built once per definition, so that every question is one look-up. Knows nothing of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.define.definition import Definition
from holdfast.define.kinds import kind_of
from holdfast.define.node import Node

Edges = Mapping[str, tuple[str, ...]]
"""Node names by node name, in the order of the file."""


class CycleError(ValueError):
    """The nodes wait for each other; `cycle` names them in order and ends with the first one again."""

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(f"The nodes form a cycle: {' -> '.join(cycle)}.")
        self.cycle = tuple(cycle)


@dataclass(frozen=True, slots=True)
class Graph:
    """The edges of one definition, by node name."""

    names: tuple[str, ...]
    nodes: Mapping[str, Node]
    all_of: Edges
    any_of: Edges
    sources: Edges
    outgoing: Edges
    order: tuple[str, ...]
    roots: tuple[str, ...]
    ends: tuple[str, ...]
    result_nodes: tuple[str, ...]
    fan_out_of: Mapping[str, str]
    _stages: Mapping[str, int]
    _bits: Mapping[str, int]
    _ancestors: Mapping[str, int]

    def stage_number(self, name: str) -> int | None:
        """The node's position in the file, from 1, without start and end (which have none)."""
        return self._stages.get(name)

    def is_upstream(self, name: str, of: str) -> bool:
        """Whether `name` always ends before `of` can start."""
        return bool(self._ancestors[of] & self._bits.get(name, 0))

    def ancestors(self, name: str) -> frozenset[str]:
        mask = self._ancestors[name]
        return frozenset(other for other, bit in self._bits.items() if mask & bit)

    def descendants(self, name: str) -> frozenset[str]:
        bit = self._bits[name]
        return frozenset(other for other, mask in self._ancestors.items() if mask & bit)


def build_graph(definition: Definition) -> Graph:
    """Raises CycleError when the nodes wait for each other; edges to unknown nodes are left out."""
    nodes = {node.name: node for node in definition.nodes}
    all_of, any_of = incoming_edges(definition.nodes)
    sources = {name: all_of[name] + any_of[name] for name in nodes}
    outgoing = _outgoing_edges(definition.nodes, sources)
    order = topological_order(tuple(nodes), sources, outgoing)
    bits = {name: 1 << position for position, name in enumerate(nodes)}
    return Graph(
        names=tuple(nodes),
        nodes=nodes,
        all_of=all_of,
        any_of=any_of,
        sources=sources,
        outgoing=outgoing,
        order=order,
        roots=tuple(name for name in nodes if not sources[name]),
        ends=tuple(name for name in nodes if not outgoing[name]),
        result_nodes=_result_nodes(nodes, sources, outgoing),
        fan_out_of=_fan_outs(nodes, sources),
        _stages=_stage_numbers(definition.nodes),
        _bits=bits,
        _ancestors=_ancestor_bits(order, sources, bits),
    )


def incoming_edges(nodes: Sequence[Node]) -> tuple[Edges, Edges]:
    """The all_of and any_of sources of each node.

    A `next` or a branch joins its target's all_of, unless the target's depends_on names the source.
    """
    known = {node.name for node in nodes}
    all_of = {node.name: [name for name in _unique(node.all_of) if name in known] for node in nodes}
    any_of = {node.name: [name for name in _unique(node.any_of) if name in known] for node in nodes}
    for node in nodes:
        for target in pointed_to(node):
            if target in known and node.name not in all_of[target] and node.name not in any_of[target]:
                all_of[target].append(node.name)
    return (
        {name: tuple(sources) for name, sources in all_of.items()},
        {name: tuple(one for one in sources if one not in all_of[name]) for name, sources in any_of.items()},
    )


def pointed_to(node: Node) -> tuple[str, ...]:
    """The nodes that this one names in its `next` or in a branch, each once."""
    targets = [*node.next, *(target for branch in node.branches for target in branch.targets)]
    return tuple(_unique(targets))


def topological_order(names: Sequence[str], sources: Edges, outgoing: Edges) -> tuple[str, ...]:
    """Sources before targets; nodes that are free at the same time keep the order of the file."""
    waiting = {name: len(sources[name]) for name in names}
    rank = {name: position for position, name in enumerate(names)}
    free = [name for name in names if waiting[name] == 0]
    order: list[str] = []
    while free:
        order.extend(free)
        freed: list[str] = []
        for target in (target for name in free for target in outgoing[name]):
            waiting[target] -= 1
            if waiting[target] == 0:
                freed.append(target)
        free = sorted(freed, key=rank.__getitem__)
    if len(order) < len(names):
        raise CycleError(_find_cycle([name for name in names if waiting[name]], sources))
    return tuple(order)


def _find_cycle(stuck: Sequence[str], sources: Edges) -> list[str]:
    """Every stuck node waits for a stuck node, so walking backwards must reach a node twice."""
    stuck_names = set(stuck)
    path: list[str] = []
    current = stuck[0]
    while current not in path:
        path.append(current)
        current = next(name for name in sources[current] if name in stuck_names)
    cycle = path[path.index(current) :][::-1]
    first = min(range(len(cycle)), key=lambda i: stuck.index(cycle[i]))
    cycle = cycle[first:] + cycle[:first]
    return [*cycle, cycle[0]]


def _outgoing_edges(nodes: Sequence[Node], sources: Edges) -> dict[str, tuple[str, ...]]:
    targets = {node.name: [name for name in pointed_to(node) if name in sources] for node in nodes}
    for node in nodes:
        for source in sources[node.name]:
            if node.name not in targets[source]:
                targets[source].append(node.name)
    return {name: tuple(names) for name, names in targets.items()}


def _result_nodes(
    nodes: Mapping[str, Node],
    sources: Edges,
    outgoing: Edges,
) -> tuple[str, ...]:
    """The nodes whose output is the job's result: right before an end, or followed by nothing."""
    last = {source for name, node in nodes.items() if kind_of(node).is_exit for source in sources[name]}
    last.update(name for name in nodes if not outgoing[name])
    return tuple(name for name, node in nodes.items() if name in last and kind_of(node).has_output)


def _fan_outs(nodes: Mapping[str, Node], sources: Edges) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for name, node in nodes.items():
        if kind_of(node).gathers_items:
            for source in sources[name]:
                if kind_of(nodes[source]).has_task_per_item:
                    pairs.setdefault(name, source)
    return pairs


def _stage_numbers(nodes: Sequence[Node]) -> dict[str, int]:
    stages = [node.name for node in nodes if not kind_of(node).is_border]
    return {name: number for number, name in enumerate(stages, start=1)}


def _ancestor_bits(order: Sequence[str], sources: Edges, bits: Mapping[str, int]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for name in order:
        mask = 0
        for source in sources[name]:
            mask |= masks[source] | bits[source]
        masks[name] = mask
    return masks


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
