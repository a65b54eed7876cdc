"""The node type `fan_out`: runs one task for each item of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from holdfast.define.bounds import MAX_ITEMS
from holdfast.define.expression_text import short_expression
from holdfast.define.fields import DocumentPart, Expression, Name, Names, stripped
from holdfast.define.kinds.kind import Kind
from holdfast.define.node import CountsAs, Node, NodeType, OnItemFailure, Tolerate
from holdfast.define.node_document import (
    DeliverableDocument,
    DependsOn,
    ImportanceName,
    NodeDocument,
    RerunDocument,
    any_case,
)
from holdfast.define.node_program import ITEM_ROOTS, KEY_ROOTS, ROOTS, NodeProgram, compile_task
from holdfast.define.readings import Reading, template_readings, work_readings
from holdfast.define.source import Path, Report
from holdfast.define.template import compile_template
from holdfast.define.work_document import Work, WorkflowDefaults, task_spec

SHARE = r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$"


def _number_or_share(value: Any) -> Any:
    """Checks how many items may fail."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ITEMS
    if not is_number and not (isinstance(value, str) and re.fullmatch(SHARE, value)):
        raise PydanticCustomError("failures", 'should be a number of items such as 3, or a share such as "1%"')
    return value


Failures = Annotated[
    Any,
    BeforeValidator(_number_or_share),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_ITEMS}, {"type": "string", "pattern": SHARE}]}
    ),
]


class ItemTaskDocument(Work):
    """What runs for each item; its params can also use `item` and `index`."""

    handler: Name
    """The function that runs for each item."""


class TolerateDocument(DocumentPart):
    """How many items may fail without failing the fan-out."""

    failures: Failures
    """A number, such as 3, or a share of the items, such as "1%", rounded down."""

    counts_as: Literal["partial", "completed"] | None = None
    """What the job is called if nothing else is missing. Default partial."""


class FanOutDocument(NodeDocument):
    """Runs one task per item of a list."""

    type: Annotated[Literal["fan_out"], *any_case("fan_out")]
    """The type of the node."""

    source: Expression
    """The list, such as "{{ nodes.inventory.output.groups }}"."""

    item_key: Expression | None = None
    """What an item is known by after a correction, such as "{{ item.id }}". Default: its whole value."""

    task: ItemTaskDocument
    """What runs for each item."""

    tolerate: TolerateDocument | None = None
    """How many items may fail without failing the fan-out. Default none."""

    on_item_failure: Literal["finish", "stop"] | None = None
    """After too many failures, let the other items finish, or cancel those that wait. Default finish."""

    importance: ImportanceName | None = None
    """What its failure means for the job: critical fails the job, important makes it partial. Default critical."""

    deliverable: DeliverableDocument | None = None
    """What it delivers, counted by its completed items; shown with the job's outcome."""

    rerun: RerunDocument | None = None
    """Whether its completed tasks may run again when a person asks for it. Default: after a confirmation."""

    next: Names | None = None
    """The node or nodes that follow."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class FanOut(Kind[FanOutDocument]):
    node_type = NodeType.FAN_OUT
    document = FanOutDocument
    has_task_per_item = True
    parts: ClassVar[Mapping[str, type[DocumentPart]]] = {"task": ItemTaskDocument, "tolerate": TolerateDocument}
    messages: ClassVar[Mapping[str, str]] = {
        "failures": f'must be a number of items such as 3, at most {MAX_ITEMS:,}, or a share such as "1%".',
    }
    shape = ("[[", "]]")
    accent = "#7c3aed"

    def why_misplaced(self, key: str) -> str | None:
        return "It belongs under 'task'." if key in ItemTaskDocument.model_fields else None

    def own_fields(
        self, document: FanOutDocument, defaults: WorkflowDefaults, path: Path, report: Report
    ) -> dict[str, Any]:
        return {
            "task": task_spec(document.task, document.task.handler, defaults, (*path, "task"), report),
            "source": document.source.strip(),
            "item_key": stripped(document.item_key),
            "tolerate": _tolerate(document),
            "on_item_failure": OnItemFailure(document.on_item_failure or OnItemFailure.FINISH),
        }

    def readings(self, node: Node, document: FanOutDocument, path: Path, report: Report) -> Iterator[Reading]:
        yield from template_readings(document.source, (*path, "source"), node.name, ROOTS, report)
        if document.item_key is not None:
            yield from template_readings(document.item_key, (*path, "item_key"), node.name, KEY_ROOTS, report)
        yield from work_readings(document.task, (*path, "task"), node.name, report, ITEM_ROOTS)

    def own_json(self, node: Node) -> dict[str, Any]:
        own: dict[str, Any] = {"source": node.source}
        if node.tolerate != Tolerate():
            own["tolerate"] = node.tolerate.to_json()
        if node.on_item_failure is not OnItemFailure.FINISH:
            own["on_item_failure"] = str(node.on_item_failure)
        if node.item_key is not None:
            own["item_key"] = node.item_key
        return own

    def own_fields_from_json(self, data: dict[str, Any]) -> dict[str, Any]:
        return {
            "source": data["source"],
            "item_key": data.get("item_key"),
            "tolerate": Tolerate.from_json(data.get("tolerate", {})),
            "on_item_failure": OnItemFailure(data.get("on_item_failure", "finish")),
        }

    def compile(self, node: Node) -> NodeProgram:
        return NodeProgram(
            node,
            task=compile_task(node.task, ITEM_ROOTS) if node.task is not None else None,
            source=compile_template(node.source, ROOTS, "source") if node.source is not None else None,
            item_key=compile_template(node.item_key, KEY_ROOTS, "item_key") if node.item_key is not None else None,
            has_items=True,
        )

    def details(self, node: Node) -> str:
        return f"{super().details(node)} for each of {short_expression(node.source or '')}"


def _tolerate(document: FanOutDocument) -> Tolerate:
    if document.tolerate is None:
        return Tolerate()
    failures = document.tolerate.failures
    counts_as = CountsAs(document.tolerate.counts_as or CountsAs.PARTIAL)
    if isinstance(failures, str):
        return Tolerate(percent=float(failures.removesuffix("%")), counts_as=counts_as)
    return Tolerate(failures, counts_as=counts_as)
