"""What is special to a node type: in a workflow file, a definition, a program and a drawing.

Each type is one subclass in a file of its own. Nothing else in `define` asks which type a node has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from holdfast.define.fields import DocumentPart, float_or_none, stripped
from holdfast.define.node import Deliverable, Importance, Node, NodeType, Rerun, Safe, TaskSpec
from holdfast.define.node_document import DeliverableDocument, DependsOnDocument, NodeDocument, RerunDocument
from holdfast.define.node_program import ROOTS, NodeProgram, compile_task
from holdfast.define.readings import Reading
from holdfast.define.source import Path, Report
from holdfast.define.work_document import WorkflowDefaults

if TYPE_CHECKING:
    from holdfast.define.graph import Graph

Document = TypeVar("Document", bound=NodeDocument)

# Every type has these keys in its JSON form, used or not: leaving them out would change the hash of definitions.
_KEYS_OF_ALL_TYPES: dict[str, Any] = {"source": None, "aggregation": "collect", "branches": []}


class Kind(Generic[Document]):
    """One node type. The defaults are those of a type that runs one task, or nothing."""

    node_type: ClassVar[NodeType]
    document: ClassVar[type[NodeDocument]]
    """What people write."""
    node: ClassVar[type[Node]] = Node
    """What a definition has. A type with settings of its own may subclass Node."""

    # How it takes part in the graph.
    is_border: ClassVar[bool] = False
    """Only marks where the flow begins or ends: it has no stage number and runs nothing."""
    is_exit: ClassVar[bool] = False
    """The nodes right before it give the job's result."""
    has_output: ClassVar[bool] = True
    """Its output can be the job's result."""
    has_task_per_item: ClassVar[bool] = False
    """Its own task runs once for each item of a list."""
    gathers_items: ClassVar[bool] = False
    """Takes the items of the fan-out right before it."""

    # How mistakes in a file are explained.
    misplaced: ClassVar[Mapping[str, str]] = {}
    """Why a key of other types does not belong to this one."""
    parts: ClassVar[Mapping[str, type[DocumentPart]]] = {}
    """The parts that only this type has, by key."""
    messages: ClassVar[Mapping[str, str]] = {}
    """The end of the sentence for each error that this type's validators raise."""

    # How it is drawn.
    shape: ClassVar[tuple[str, str]] = ("[", "]")
    """The brackets of its box in Mermaid."""
    accent: ClassVar[str]
    """Its colour in an SVG."""

    def has_items(self, node: Node) -> bool:
        """Whether it has many tasks, with item numbers from 0."""
        return self.has_task_per_item

    def works(self, node: Node) -> Iterator[tuple[Path, TaskSpec]]:
        """What workers run for it, and the place of each in a file."""
        path: Path = ("nodes", node.name)
        if node.batches is not None:
            yield (*path, "batch"), node.batches.task
        if node.task is not None:
            yield (*path, "task") if self.has_task_per_item else path, node.task

    def compensations(self, node: Node) -> Iterator[tuple[Path, TaskSpec]]:
        """What undoes its tasks, and the place of each in a file."""
        for path, task in self.works(node):
            if task.compensate is not None:
                yield (*path, "compensate"), task.compensate

    # The workflow file

    def why_misplaced(self, key: str) -> str | None:
        return self.misplaced.get(key)

    def targets(self, document: Document, path: Path) -> Iterator[tuple[Path, list[str]]]:
        """Each list of node names in the document, and its place."""
        yield (*path, "next"), getattr(document, "next", None) or []
        yield from depends_on_targets(document, path)

    def normalise(self, name: str, document: Document, defaults: WorkflowDefaults, report: Report) -> Node:
        """The node of a document; contradictions go into the report."""
        path: Path = ("nodes", name)
        depends_on: DependsOnDocument | None = getattr(document, "depends_on", None)
        return self.node(
            name=name,
            type=self.node_type,
            description=(document.description or "").strip(),
            importance=Importance(getattr(document, "importance", None) or Importance.CRITICAL),
            next=tuple(getattr(document, "next", None) or ()),
            all_of=tuple(depends_on.all_of or ()) if depends_on else (),
            any_of=tuple(depends_on.any_of or ()) if depends_on else (),
            **self.own_fields(document, defaults, path, report),
            deliverable=_deliverable(document),
            rerun=_rerun(document, path, report),
        )

    def own_fields(self, document: Document, defaults: WorkflowDefaults, path: Path, report: Report) -> dict[str, Any]:
        """The fields of the node that not every type has."""
        return {}

    def readings(self, node: Node, document: Document, path: Path, report: Report) -> Iterator[Reading]:
        """What the node reads at run time."""
        return iter(())

    def check_graph(self, graph: Graph, report: Report) -> None:
        """Checks that the nodes of this type are in a valid place."""

    # The definition and the program

    def to_json(self, node: Node) -> dict[str, Any]:
        """The pinned form: everything that decides how the node behaves, and nothing else."""
        optional: dict[str, Any] = {}
        if node.deliverable is not None:
            optional["deliverable"] = node.deliverable.to_json()
        if node.rerun != Rerun():
            optional["rerun"] = node.rerun.to_json()
        return {
            **optional,
            "name": node.name,
            "type": str(node.type),
            "description": node.description,
            "importance": str(node.importance),
            "next": list(node.next),
            "all_of": list(node.all_of),
            "any_of": list(node.any_of),
            "task": node.task.to_json() if node.task else None,
            **_KEYS_OF_ALL_TYPES,
            **self.own_json(node),
        }

    def own_json(self, node: Node) -> dict[str, Any]:
        """The keys that not every type has; those of later versions only where they are used."""
        return {}

    def from_json(self, data: dict[str, Any]) -> Node:
        return self.node(
            name=data["name"],
            type=self.node_type,
            description=data["description"],
            importance=Importance(data["importance"]),
            next=tuple(data["next"]),
            all_of=tuple(data["all_of"]),
            any_of=tuple(data["any_of"]),
            task=TaskSpec.from_json(data["task"]) if data["task"] else None,
            deliverable=Deliverable(**data["deliverable"]) if "deliverable" in data else None,
            rerun=Rerun.from_json(data["rerun"]) if "rerun" in data else Rerun(),
            **self.own_fields_from_json(data),
        )

    def own_fields_from_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """The fields that `own_json` wrote."""
        return {}

    def compile(self, node: Node) -> NodeProgram:
        return NodeProgram(node, task=compile_task(node.task, ROOTS) if node.task is not None else None)

    # The drawings

    def details(self, node: Node) -> str:
        """What the node does, in a few words."""
        return f"{node.task.handler} on {node.task.queue}" if node.task is not None else ""


def depends_on_targets(document: NodeDocument, path: Path) -> Iterator[tuple[Path, list[str]]]:
    depends_on: DependsOnDocument | None = getattr(document, "depends_on", None)
    if depends_on is not None:
        yield (*path, "depends_on", "all_of"), depends_on.all_of or []
        yield (*path, "depends_on", "any_of"), depends_on.any_of or []


def _deliverable(document: NodeDocument) -> Deliverable | None:
    declared: DeliverableDocument | None = getattr(document, "deliverable", None)
    return Deliverable(declared.name, stripped(declared.location)) if declared is not None else None


def _rerun(document: NodeDocument, path: Path, report: Report) -> Rerun:
    declared: RerunDocument | None = getattr(document, "rerun", None)
    if declared is None:
        return Rerun()
    if declared.safe == "never" and declared.within_hours is not None:
        message = "'within_hours' has no effect with 'safe: never'."
        report.at_key((*path, "rerun", "within_hours"), message, "Remove the key, or use safe: confirm.")
    return Rerun(Safe(declared.safe), float_or_none(declared.within_hours))
