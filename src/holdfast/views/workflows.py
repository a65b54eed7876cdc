"""A workflow as people see it: its versions, its text, its graph, and how its jobs go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast.core.states import JobStatus
from holdfast.define.definition import Definition
from holdfast.define.drawing.edges import edges_of
from holdfast.define.graph import build_graph
from holdfast.define.kinds import kind_of
from holdfast.errors import Detail
from holdfast.store.definition_rows import JobStatisticsRow, NodeStatisticsRow, SourceRow, VersionRow
from holdfast.views.encoding import VERBATIM


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """A definition that a workflow id stood for, or stands for now."""

    workflow_id: str
    version: str
    definition_hash: str
    registered_at: datetime
    current: bool
    """Whether a submission by the id takes it."""
    source: str | None
    """`yaml`, `json` or `python`; null if no text of it was stored."""
    file: str | None
    """The name of the file from which it was read."""


@dataclass(frozen=True, slots=True)
class WorkflowVersions:
    """Some versions, the last one first, and the cursor that continues the list; None: these were the last."""

    versions: tuple[WorkflowVersion, ...] = ()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowDetails:
    """A definition with every default of the language filled in."""

    workflow_id: str
    version: str
    definition_hash: str
    registered_at: datetime
    name: str
    description: str
    definition: dict[str, Any] = field(metadata=VERBATIM)


@dataclass(frozen=True, slots=True)
class WorkflowSource:
    """The text from which a definition was read, as it was submitted."""

    workflow_id: str
    version: str
    definition_hash: str
    kind: str
    """`yaml`, `json` or `python`. A Python file may import others, which are not stored."""
    file: str | None
    content: str
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a definition is valid. A definition with warnings is."""

    valid: bool
    workflow_id: str | None
    version: str | None
    node_count: int | None
    definition_hash: str | None
    errors: tuple[dict[str, Any], ...] = field(metadata=VERBATIM)
    """All mistakes, each with its place, as in a problem object."""
    warnings: tuple[dict[str, Any], ...] = field(metadata=VERBATIM)
    """Parts of the definition that have no effect or are probably mistakes."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a workflow."""

    node: str
    type: str
    stage: int | None
    handler: str | None
    importance: str


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """From a node to one that waits for it."""

    source: str
    target: str
    label: str
    """The condition of a branch."""
    any: bool
    """Whether the target waits for any one of several nodes."""


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """The nodes of a workflow in the order of its file, and what waits for what."""

    workflow_id: str
    version: str
    definition_hash: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """How a node went in the last jobs of its workflow."""

    node: str
    completed: int
    failed: int
    failure_share: float | None
    """Of those that completed or failed; null if none did."""
    p50_seconds: float | None
    p95_seconds: float | None


@dataclass(frozen=True, slots=True)
class WorkflowStatistics:
    """How the last jobs of a workflow went, at most 1,000. Durations are those of completed jobs and nodes."""

    workflow_id: str
    jobs: int
    since: datetime | None
    """When the oldest of these jobs was submitted."""
    statuses: dict[str, int]
    p50_seconds: float | None
    p95_seconds: float | None
    nodes: tuple[NodeStatistics, ...]


def validation_view(definition: Definition | None, errors: Sequence[Detail], warnings: Sequence[Detail]) -> Validation:
    return Validation(
        definition is not None,
        definition.workflow_id if definition is not None else None,
        definition.version if definition is not None else None,
        len(definition.nodes) if definition is not None else None,
        definition.hash() if definition is not None else None,
        tuple(one.to_json() for one in errors),
        tuple(one.to_json() for one in warnings),
    )


def version_view(workflow_id: str, row: VersionRow, current: str) -> WorkflowVersion:
    return WorkflowVersion(
        workflow_id,
        row.version,
        row.definition_hash,
        row.registered_at,
        row.definition_hash == current,
        row.kind,
        row.name,
    )


def details_view(row: VersionRow, definition: Definition) -> WorkflowDetails:
    return WorkflowDetails(
        definition.workflow_id,
        row.version,
        row.definition_hash,
        row.registered_at,
        definition.name,
        definition.description,
        definition.to_json(),
    )


def source_view(workflow_id: str, row: VersionRow, source: SourceRow) -> WorkflowSource:
    return WorkflowSource(
        workflow_id, row.version, row.definition_hash, source.kind, source.name, source.text, source.stored_at
    )


def graph_view(definition_hash: str, definition: Definition) -> WorkflowGraph:
    graph = build_graph(definition)
    nodes = (
        GraphNode(
            node.name,
            str(node.type),
            graph.stage_number(node.name),
            node.task.handler if node.task is not None else None,
            str(node.importance),
        )
        for node in definition.nodes
    )
    edges = (GraphEdge(one.source, one.target, one.label, one.is_any) for one in edges_of(graph))
    return WorkflowGraph(definition.workflow_id, definition.version, definition_hash, tuple(nodes), tuple(edges))


def statistics_view(
    definition: Definition, jobs: JobStatisticsRow, nodes: Sequence[NodeStatisticsRow]
) -> WorkflowStatistics:
    """The nodes in the order of the present definition; then those that only earlier ones had."""
    places = {node.name: place for place, node in enumerate(definition.nodes)}
    borders = {node.name for node in definition.nodes if kind_of(node).is_border}
    shown = sorted((row for row in nodes if row.node not in borders), key=lambda row: places.get(row.node, len(places)))
    return WorkflowStatistics(
        definition.workflow_id,
        jobs.jobs,
        jobs.since,
        {str(status): (jobs.statuses or {}).get(status, 0) for status in JobStatus},
        jobs.p50,
        jobs.p95,
        tuple(
            NodeStatistics(
                row.node,
                row.completed,
                row.failed,
                row.failed / (row.completed + row.failed) if row.completed + row.failed else None,
                row.p50,
                row.p95,
            )
            for row in shown
        ),
    )
