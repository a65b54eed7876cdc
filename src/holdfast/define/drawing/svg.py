"""A drawing as a standalone SVG: plain shapes with plain attributes, no scripts, no styles, no links."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from holdfast.define.definition import Definition
from holdfast.define.drawing.edges import OTHERWISE, Edge, edges_of, shortened
from holdfast.define.drawing.layout import Layout, layered
from holdfast.define.graph import Graph, build_graph
from holdfast.define.kinds import kind_of
from holdfast.define.node import Importance, Node

WIDTH, HEIGHT, GAP, DROP = 236.0, 54.0, 28.0, 62.0
MARGIN, HEAD = 28.0, 64.0

_INK, _FAINT, _LINE, _PAPER, _CARD = "#0f172a", "#64748b", "#94a3b8", "#f8fafc", "#ffffff"
_FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def draw_svg(definition: Definition) -> str:
    """The workflow from top to bottom, one card per node."""
    graph = build_graph(definition)
    layout = layered(graph, WIDTH, GAP)
    title = definition.name or definition.workflow_id
    width = max(layout.right - layout.left + 2 * MARGIN, 2 * MARGIN + 8.0 * len(title[:60]))
    height = HEAD + layout.depth * (HEIGHT + DROP) - DROP + MARGIN
    shift = (width - layout.left - layout.right) / 2
    number = "1 node" if len(definition.nodes) == 1 else f"{len(definition.nodes)} nodes"
    head = f"{definition.workflow_id} · version {definition.version} · {number}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="{_FONT}">',
        f"<title>{_text(title, 200)}</title>",
        _ARROW,
        f'<rect width="100%" height="100%" rx="12" fill="{_PAPER}"/>',
        f'<text x="{MARGIN:g}" y="30" font-size="16" font-weight="600" fill="{_INK}">{_text(title, 60)}</text>',
        f'<text x="{MARGIN:g}" y="48" font-size="11" fill="{_FAINT}">{_text(head, 90)}</text>',
        *(_edge(edge, graph, layout, shift) for edge in edges_of(graph)),
        *(_card(node, graph, layout, shift) for node in definition.nodes),
        *(_label(edge, graph, layout, shift) for edge in edges_of(graph) if edge.label),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{_LINE}"/></marker></defs>'
)


def _top(layer: int) -> float:
    return HEAD + layer * (HEIGHT + DROP)


def _half_height(node: Node) -> float:
    return 16.0 if kind_of(node).is_border else HEIGHT / 2


def _text(text: str, length: int) -> str:
    return escape(shortened(text, length))


def _card(node: Node, graph: Graph, layout: Layout, shift: float) -> str:
    x, y = layout.x[node.name] + shift, _top(layout.layer[node.name]) + HEIGHT / 2
    kind = kind_of(node)
    accent = kind.accent
    tip = f"<title>{_text(node.description or node.name, 300)}</title>"
    if kind.is_border:
        return (
            f'<g>{tip}<rect x="{x - 52:.1f}" y="{y - 16:.1f}" width="104" height="32" rx="16" '
            f'fill="{accent}"/>'
            f'<text x="{x:.1f}" y="{y + 4.5:.1f}" font-size="13" font-weight="600" text-anchor="middle" '
            f'fill="#ffffff">{_text(node.name, 14)}</text></g>'
        )
    left, top = x - WIDTH / 2, y - HEIGHT / 2
    stack = _sheets(left, top, accent) if kind.has_items(node) else ""
    dash = ' stroke-dasharray="5 3"' if node.importance is Importance.OPTIONAL else ""
    label = str(node.type).replace("_", "-")
    if node.importance is not Importance.CRITICAL:
        label = f"{label} · {node.importance}"
    about = " + ".join(task.handler for task in node.tasks) or kind.details(node)
    return (
        f'<g>{tip}{stack}<rect x="{left:.1f}" y="{top:.1f}" width="{WIDTH:g}" height="{HEIGHT:g}" rx="8" '
        f'fill="{_CARD}" stroke="{accent}" stroke-width="1.2"{dash}/>'
        f'<rect x="{left:.1f}" y="{top + 8:.1f}" width="4" height="{HEIGHT - 16:g}" fill="{accent}"/>'
        f'<text x="{left + 14:.1f}" y="{top + 22:.1f}" font-size="13" font-weight="600" fill="{_INK}">'
        f"{_text(_numbered(node, graph), 28)}</text>"
        f'<text x="{left + 14:.1f}" y="{top + 40:.1f}" font-size="11" fill="{_FAINT}">'
        f'<tspan fill="{accent}" font-weight="600">{label}</tspan>  {_text(about, 33 - len(label))}</text></g>'
    )


def _numbered(node: Node, graph: Graph) -> str:
    return f"{graph.stage_number(node.name)}  {node.name}"


def _sheets(left: float, top: float, accent: str) -> str:
    """Two more cards behind the first, for a node with many tasks."""
    return "".join(
        f'<rect x="{left + offset:.1f}" y="{top + offset:.1f}" width="{WIDTH:g}" height="{HEIGHT:g}" rx="8" '
        f'fill="{_CARD}" stroke="{accent}" stroke-opacity="0.45"/>'
        for offset in (7.0, 3.5)
    )


def _points(edge: Edge, graph: Graph, layout: Layout, shift: float) -> list[tuple[float, float]]:
    """The points of an edge: from the bottom of the source, through the layers between, to the top of the target."""
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    first, last = layout.layer[edge.source], layout.layer[edge.target]
    points = [(layout.x[edge.source] + shift, _top(first) + HEIGHT / 2 + _half_height(source))]
    for depth, bend in enumerate(layout.bends[edge.source, edge.target], start=first + 1):
        points += [(bend + shift, _top(depth)), (bend + shift, _top(depth) + HEIGHT)]
    return [*points, (layout.x[edge.target] + shift, _top(last) + HEIGHT / 2 - _half_height(target))]


def _edge(edge: Edge, graph: Graph, layout: Layout, shift: float) -> str:
    points = _points(edge, graph, layout, shift)
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f" C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    dash = ' stroke-dasharray="4 4"' if edge.is_any else ""
    line = f'stroke="{_LINE}" stroke-width="1.6"{dash}'
    return f'<path d="{path}" fill="none" {line} marker-end="url(#arrow)"/>'


def _label(edge: Edge, graph: Graph, layout: Layout, shift: float) -> str:
    """A branch's condition on a small plate, below the point where the branches separate."""
    x, y = _points(edge, graph, layout, shift)[1]
    shown = shortened(edge.label, 34, tail=12)
    half, top = len(shown) * 2.9 + 8, y - 29
    color = _FAINT if edge.label == OTHERWISE else kind_of(graph.nodes[edge.source]).accent
    return (
        f"<g><title>{escape(edge.label)}</title>"
        f'<rect x="{x - half:.1f}" y="{top:.1f}" width="{2 * half:.1f}" height="17" rx="8" fill="{_PAPER}" '
        f'stroke="{color}" stroke-opacity="0.5"/>'
        f'<text x="{x:.1f}" y="{top + 12:.1f}" font-size="10" text-anchor="middle" fill="{color}">'
        f"{escape(shown)}</text></g>"
    )
