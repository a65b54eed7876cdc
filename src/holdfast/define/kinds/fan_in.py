"""The node type `fan_in`: combines the items of the fan-out before it, all at once or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from holdfast.define.bounds import MAX_ITEMS
from holdfast.define.fields import DocumentPart, Name, Names
from holdfast.define.kinds.kind import Kind
from holdfast.define.node import AUTO, Aggregation, Batches, Node, NodeType, TaskSpec
from holdfast.define.node_document import (
    DeliverableDocument,
    DependsOn,
    ImportanceName,
    NodeDocument,
    RerunDocument,
    any_case,
)
from holdfast.define.node_program import ITEM_ROOTS, ROOTS, NodeProgram, compile_task
from holdfast.define.readings import Reading, template_readings, work_readings
from holdfast.define.source import Path, Report
from holdfast.define.template import compile_template
from holdfast.define.work_document import Work, WorkflowDefaults, task_spec

if TYPE_CHECKING:
    from holdfast.define.graph import Graph


def _batch_size(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ITEMS
    if not is_number and value != "auto" and not (isinstance(value, str) and "{{" in value):
        raise PydanticCustomError("batch_size", 'should be a number of items such as 100, a template, or "auto"')
    return value


BatchSize = Annotated[
    Any,
    BeforeValidator(_batch_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_ITEMS}, {"type": "string"}]}),
]


class BatchDocument(Work):
    """Takes the items in pages, each in a separate task. Missing keys come from the node; its params can also use
    `item`, the page, and `index`."""

    size: BatchSize = "auto"
    """The number of items in a batch: a number, a template, or auto: 1 batch for up to 100 items, 5 for up to 500,
    20 for up to 2,000, then one per 100. Default auto."""

    handler: Name
    """The function that runs for each batch. It gets `page`, and reads its items with ctx.results(**page)."""


class FanInDocument(NodeDocument, Work):
    """Combines the items of a fan-out."""

    type: Annotated[Literal["fan_in"], *any_case("fan_in")]
    """The type of the node."""

    aggregation: Literal["collect", "concat", "sum", "first", "last"] | None = None
    """How the items are combined without a handler. Default collect."""

    handler: Name | None = None
    """The function that a worker runs after all items or, with `batch`, after all batches."""

    batch: BatchDocument | None = None
    """Processes the items in batches, in parallel, before the handler runs once."""

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


class FanIn(Kind[FanInDocument]):
    node_type = NodeType.FAN_IN
    document = FanInDocument
    gathers_items = True
    parts: ClassVar[Mapping[str, type[DocumentPart]]] = {"batch": BatchDocument}
    messages: ClassVar[Mapping[str, str]] = {
        "batch_size": f"must be a number of items such as 100, at most {MAX_ITEMS:,}, a template, or auto.",
    }
    shape = ("[/", "\\]")
    accent = "#0d9488"

    def has_items(self, node: Node) -> bool:
        return node.batches is not None

    def own_fields(
        self, document: FanInDocument, defaults: WorkflowDefaults, path: Path, report: Report
    ) -> dict[str, Any]:
        fields = {
            "task": _task(document, defaults, path, report),
            "aggregation": _aggregation(document, path, report),
            "batches": _batches(document, defaults, path, report),
        }
        if document.rerun is not None and document.handler is None and document.batch is None:
            report.at_key((*path, "rerun"), "'rerun' needs a handler: without one nothing runs.")
        if document.batch is not None and document.batch.compensate is not None:
            _check_compensate(document, path, report)
        return fields

    def readings(self, node: Node, document: FanInDocument, path: Path, report: Report) -> Iterator[Reading]:
        yield from work_readings(document, path, node.name, report)
        if document.batch is not None:
            place = (*path, "batch")
            yield from template_readings(document.batch.size, (*place, "size"), node.name, ROOTS, report)
            yield from work_readings(document.batch, place, node.name, report, ITEM_ROOTS)

    def check_graph(self, graph: Graph, report: Report) -> None:
        """Each fan-in directly follows exactly one fan-out."""
        for name in graph.names:
            if graph.nodes[name].type is not self.node_type:
                continue
            fan_outs = [one for one in graph.sources[name] if graph.nodes[one].type is NodeType.FAN_OUT]
            if len(fan_outs) == 1:
                continue
            count = f"has {len(fan_outs)} ({', '.join(fan_outs)})" if fan_outs else "has none"
            report.at_key(
                ("nodes", name),
                f"The fan_in '{name}' must directly follow exactly one fan_out; it {count}.",
                f"Give the fan_out 'next: {name}'." if not fan_outs else None,
            )

    def own_json(self, node: Node) -> dict[str, Any]:
        own: dict[str, Any] = {"aggregation": str(node.aggregation)}
        if node.batches is not None:
            own["batches"] = node.batches.to_json()
        return own

    def own_fields_from_json(self, data: dict[str, Any]) -> dict[str, Any]:
        return {
            "aggregation": Aggregation(data["aggregation"]),
            "batches": Batches.from_json(data["batches"]) if "batches" in data else None,
        }

    def compile(self, node: Node) -> NodeProgram:
        task = compile_task(node.task, ROOTS) if node.task is not None else None
        batches = node.batches
        if batches is None:
            return NodeProgram(node, task=task)
        return NodeProgram(
            node,
            task=task,
            batches=compile_task(batches.task, ITEM_ROOTS, "batch."),
            batch_size=compile_template(batches.size, ROOTS, "batch.size") if batches.size != AUTO else None,
            has_items=True,
        )

    def details(self, node: Node) -> str:
        task = super().details(node) or str(node.aggregation)
        if node.batches is None:
            return task
        batch = node.batches.task
        return f"{batch.handler} on {batch.queue} in batches, then {task}"


def _batches(document: FanInDocument, defaults: WorkflowDefaults, path: Path, report: Report) -> Batches | None:
    """The task of a batch: keys that the batch does not have come from the node, apart from output_schema and
    compensate.

    A batch gets its page as one more param. Its output is not the node's output, so the node's schema does not apply.
    """
    if document.batch is None:
        return None
    batch, path = document.batch, (*path, "batch")
    # Checked alone first: mistakes of the batch are reported here, those of inherited keys with the node.
    task_spec(batch, batch.handler, defaults, path, report)
    params = batch.params or {}
    if "page" in params:
        report.at_key(
            (*path, "params", "page"), "Every batch gets the param 'page' from Holdfast; give yours another name."
        )
    inherited = {key: getattr(document, key) for key in Work.model_fields if getattr(batch, key) is None}
    own: dict[str, Any] = {"params": {"page": "{{ item }}", **params}}
    own |= {"output_schema": batch.output_schema, "compensate": batch.compensate}
    work = batch.model_copy(update=inherited | own)
    task = task_spec(work, batch.handler, defaults, path, Report(report.source))
    return Batches(task, batch.size.strip() if isinstance(batch.size, str) else batch.size)


def _aggregation(document: FanInDocument, path: Path, report: Report) -> Aggregation:
    if document.aggregation is None:
        return Aggregation.COLLECT
    if document.handler is not None and document.aggregation != "collect":
        report.at_key((*path, "aggregation"), "'aggregation' has no effect with a handler.", "Remove the key.")
    return Aggregation(document.aggregation)


def _task(document: FanInDocument, defaults: WorkflowDefaults, path: Path, report: Report) -> TaskSpec | None:
    if document.handler is not None:
        return task_spec(document, document.handler, defaults, path, report)
    for key in Work.model_fields:
        if getattr(document, key) is not None and (document.batch is None or key in ("params", "compensate")):
            report.at_key((*path, key), f"'{key}' needs a handler: without one nothing runs.")
    return None


def _check_compensate(document: FanInDocument, path: Path, report: Report) -> None:
    """What runs behind the batches is undone before them."""
    if document.handler is not None and document.compensate is None:
        message = "The batches can be undone, but what runs after them cannot: its result would stay without its parts."
        report.at_key((*path, "batch", "compensate"), message, "Give the fan_in a 'compensate', too.")
