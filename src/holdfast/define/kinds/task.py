"""The node type `task`: a worker runs one handler. A node without a type is a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from holdfast.define.fields import Name, Names
from holdfast.define.kinds.kind import Kind
from holdfast.define.node import Node, NodeType
from holdfast.define.node_document import (
    DeliverableDocument,
    DependsOn,
    ImportanceName,
    NodeDocument,
    RerunDocument,
    any_case,
)
from holdfast.define.readings import Reading, work_readings
from holdfast.define.source import Path, Report
from holdfast.define.work_document import Work, WorkflowDefaults, task_spec


class TaskDocument(NodeDocument, Work):
    """Runs one handler on a worker."""

    type: Annotated[Literal["task"], *any_case("task")] = "task"
    """The type of the node. Default task."""

    handler: Name
    """The function that a worker runs."""

    importance: ImportanceName | None = None
    """What its failure means for the job: critical fails the job, important makes it partial. Default critical."""

    deliverable: DeliverableDocument | None = None
    """What it delivers; shown with the job's outcome."""

    rerun: RerunDocument | None = None
    """Whether its completed tasks may run again when a person asks for it. Default: after a confirmation."""

    next: Names | None = None
    """The node or nodes that follow."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class Task(Kind[TaskDocument]):
    node_type = NodeType.TASK
    document = TaskDocument
    accent = "#2563eb"

    def own_fields(
        self, document: TaskDocument, defaults: WorkflowDefaults, path: Path, report: Report
    ) -> dict[str, Any]:
        return {"task": task_spec(document, document.handler, defaults, path, report)}

    def readings(self, node: Node, document: TaskDocument, path: Path, report: Report) -> Iterator[Reading]:
        return work_readings(document, path, node.name, report)
