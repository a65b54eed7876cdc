"""The positions of nodes in a layered drawing: layers from top to bottom, few crossings, straight chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.define.graph import Graph

SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """The layer and the centre of every node, and the centres that an edge passes on its way down."""

    layer: Mapping[str, int]
    x: Mapping[str, float]
    bends: Mapping[tuple[str, str], tuple[float, ...]]
    left: float
    right: float
    depth: int


@dataclass(frozen=True, slots=True)
class _Slot:
    """A node, or the place in a layer that an edge passes through."""

    name: str
    width: float


def layered(graph: Graph, width: float, gap: float) -> Layout:
    """Puts every node below the nodes that it waits for. `width` is that of a node, `gap` the space between two."""
    layer = _layers(graph)
    rows, links, chains = _rows(graph, layer, width, gap)
    up, down = _neighbours(links)
    for sweep in range(SWEEPS):
        if sweep % 2 == 0:
            for above, row in pairwise(rows):
                _sort(row, above, up)
        else:
            for below, row in pairwise(reversed(rows)):
                _sort(row, below, down)
    x = _positions(rows, up, down, gap)
    bends = {edge: tuple(x[name] for name in chain) for edge, chain in chains.items()}
    nodes = [x[name] for name in graph.names]
    reach = [*nodes, *(bend for chain in bends.values() for bend in chain)]
    return Layout(
        layer=layer,
        x={name: x[name] for name in graph.names},
        bends=bends,
        left=min(reach) - width / 2,
        right=max(reach) + width / 2,
        depth=len(rows),
    )


def _layers(graph: Graph) -> dict[str, int]:
    layer: dict[str, int] = {}
    for name in graph.order:
        layer[name] = max((layer[source] + 1 for source in graph.sources[name]), default=0)
    return layer


_Links = list[tuple[str, str]]
_Edge = tuple[str, str]


def _rows(
    graph: Graph, layer: Mapping[str, int], width: float, gap: float
) -> tuple[list[list[_Slot]], _Links, dict[_Edge, list[str]]]:
    """The layers, with a slot wherever an edge passes one, and the links from layer to layer."""
    rows: list[list[_Slot]] = [[] for _ in range(max(layer.values()) + 1)]
    for name in graph.order:
        rows[layer[name]].append(_Slot(name, width))
    links: _Links = []
    chains: dict[_Edge, list[str]] = {}
    for source in graph.order:
        for target in graph.outgoing[source]:
            chain = [f"{source}\0{target}\0{depth}" for depth in range(layer[source] + 1, layer[target])]
            for depth, name in enumerate(chain, start=layer[source] + 1):
                rows[depth].append(_Slot(name, gap / 2))
            links += zip([source, *chain], [*chain, target], strict=True)
            chains[source, target] = chain
    return rows, links, chains


def _neighbours(links: _Links) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    up: dict[str, list[str]] = {}
    down: dict[str, list[str]] = {}
    for above, below in links:
        up.setdefault(below, []).append(above)
        down.setdefault(above, []).append(below)
    return up, down


def _sort(row: list[_Slot], fixed: Sequence[_Slot], neighbours: Mapping[str, list[str]]) -> None:
    """Moves each slot to the mean position of its neighbours in the fixed row, which avoids most crossings."""
    place = {slot.name: index for index, slot in enumerate(fixed)}
    own = {slot.name: float(index) for index, slot in enumerate(row)}

    def mean(slot: _Slot) -> float:
        places = [place[name] for name in neighbours.get(slot.name, ())]
        return sum(places) / len(places) if places else own[slot.name]

    row.sort(key=mean)


def _positions(
    rows: Sequence[list[_Slot]],
    up: Mapping[str, list[str]],
    down: Mapping[str, list[str]],
    gap: float,
) -> dict[str, float]:
    x: dict[str, float] = {}
    for row in rows:
        _spread(row, gap, x, lambda slot: 0.0)
    for sweep in range(SWEEPS):
        neighbours = up if sweep % 2 == 0 else down

        def preferred(slot: _Slot, neighbours: Mapping[str, list[str]] = neighbours) -> float:
            places = [x[name] for name in neighbours.get(slot.name, ())]
            return sum(places) / len(places) if places else x[slot.name]

        for row in rows if sweep % 2 == 0 else reversed(rows):
            _spread(row, gap, x, preferred)
    return x


def _spread(row: list[_Slot], gap: float, x: dict[str, float], preferred: Callable[[_Slot], float]) -> None:
    """Puts a row's slots near their preferred positions, in order and without overlap.

    Slots that would overlap form a block at the mean of their preferred positions.
    """
    blocks: list[tuple[float, float, list[tuple[_Slot, float]]]] = []
    for slot in row:
        size = slot.width + gap
        members = [(slot, size / 2)]
        wish, weight = preferred(slot), size
        start = wish - size / 2
        while blocks and blocks[-1][0] + blocks[-1][1] > start:
            before, before_size, before_members = blocks.pop()
            before_wish = before + before_size / 2
            count, before_count = len(members), len(before_members)
            merged = before_size + weight
            # The mean of the preferred left edges of both blocks, weighted by their members.
            start = (before_count * (before_wish - before_size / 2) + count * (start - before_size)) / (
                count + before_count
            )
            members = before_members + [(one, offset + before_size) for one, offset in members]
            weight = merged
        blocks.append((start, weight, members))
    for start, _, members in blocks:
        for slot, offset in members:
            x[slot.name] = start + offset
