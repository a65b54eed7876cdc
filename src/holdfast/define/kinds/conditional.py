"""The node type `conditional`: chooses which of the nodes after it run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from holdfast.define.condition import branch_condition, compile_condition, map_condition, normalise_condition
from holdfast.define.expression import ExpressionSyntaxError
from holdfast.define.fields import DocumentPart, Expression, Names, scalar_to_text
from holdfast.define.kinds.kind import Kind, depends_on_targets
from holdfast.define.node import Branch, Node, NodeType
from holdfast.define.node_document import DependsOn, NodeDocument, any_case
from holdfast.define.node_program import ROOTS, NodeProgram
from holdfast.define.readings import Reading
from holdfast.define.source import Path, Report
from holdfast.define.work_document import WorkflowDefaults
from holdfast.errors import cut


class BranchDocument(DocumentPart):
    """One branch of a conditional."""

    name: str | None = None
    """A name for people."""

    condition: (
        Annotated[
            Expression,
            BeforeValidator(scalar_to_text),
            WithJsonSchema({"type": ["string", "number", "boolean"]}),
        ]
        | None
    ) = None
    """With condition_field a test such as "< 100" or a value; without it a complete condition."""

    default: bool = False
    """Whether this branch is taken when no other condition is true."""

    next: Names
    """The node or nodes that follow when the branch is taken."""


def _branches_form(value: Any) -> str:
    return "<map>" if isinstance(value, dict) else "<list>"


BranchList = Annotated[list[BranchDocument], Field(min_length=1)]
BranchObject = Annotated[dict[str, Names], Field(min_length=1)]


class ConditionalDocument(NodeDocument):
    """Chooses which nodes run next; always critical."""

    type: Annotated[Literal["conditional"], *any_case("conditional")]
    """The type of the node."""

    condition_field: Expression | None = None
    """The value that the branches' conditions test, such as "{{ nodes.check.output.size }}"."""

    condition: Expression | None = None
    """A condition for on_true and on_false, or the value that the keys of `branches` are compared with."""

    on_true: Names | None = None
    """The node or nodes that follow when the condition is true."""

    on_false: Names | None = None
    """The node or nodes that follow when the condition is false."""

    branches: (
        Annotated[
            Annotated[BranchList, Tag("<list>")] | Annotated[BranchObject, Tag("<map>")],
            Discriminator(_branches_form),
        ]
        | None
    ) = None
    """A list, in which the first true condition wins, or an object with the next nodes by the condition's value."""

    depends_on: DependsOn | None = None
    """What the node waits for, beside the nodes that name it in their `next`."""


class Conditional(Kind[ConditionalDocument]):
    node_type = NodeType.CONDITIONAL
    document = ConditionalDocument
    has_output = False
    misplaced: ClassVar[Mapping[str, str]] = {
        "importance": "A conditional is always critical.",
        "next": "A conditional continues with its branches.",
    }
    shape = ("{", "}")
    accent = "#d97706"

    def targets(self, document: ConditionalDocument, path: Path) -> Iterator[tuple[Path, list[str]]]:
        yield (*path, "on_true"), document.on_true or []
        yield (*path, "on_false"), document.on_false or []
        yield from depends_on_targets(document, path)
        if isinstance(document.branches, dict):
            for key, targets in document.branches.items():
                yield (*path, "branches", key), targets
        for index, branch in enumerate(_branch_list(document)):
            yield (*path, "branches", index, "next"), branch.next

    def own_fields(
        self, document: ConditionalDocument, defaults: WorkflowDefaults, path: Path, report: Report
    ) -> dict[str, Any]:
        return {"branches": _branches(document, path, report)}

    def readings(self, node: Node, document: ConditionalDocument, path: Path, report: Report) -> Iterator[Reading]:
        # Conditions with a syntax error are not among the branches: they were reported before.
        conditions = [branch.condition for branch in node.branches if branch.condition is not None]
        paths = {read for condition in conditions for read in compile_condition(condition, ROOTS).paths}
        yield Reading(list(_condition_texts(document, path)), node.name, paths)

    def own_json(self, node: Node) -> dict[str, Any]:
        return {"branches": [{"targets": list(b.targets), "condition": b.condition} for b in node.branches]}

    def own_fields_from_json(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"branches": tuple(Branch(tuple(b["targets"]), b["condition"]) for b in data["branches"])}

    def compile(self, node: Node) -> NodeProgram:
        branches = tuple(
            (compile_condition(b.condition, ROOTS) if b.condition is not None else None, b.targets)
            for b in node.branches
        )
        return NodeProgram(node, branches=branches)


def _branch_list(document: ConditionalDocument) -> list[BranchDocument]:
    return document.branches if isinstance(document.branches, list) else []


def _condition_texts(document: ConditionalDocument, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text that may be part of a condition, with its place; the node itself comes last."""
    for key, text in (("condition_field", document.condition_field), ("condition", document.condition)):
        if text is not None:
            yield (*path, key), text
    for index, branch in enumerate(_branch_list(document)):
        yield (*path, "branches", index, "condition"), branch.condition or ""
    yield path, ""


def _branches(document: ConditionalDocument, path: Path, report: Report) -> tuple[Branch, ...]:
    """The branches in file order, with the default last; none if the spelling is unclear."""
    if document.condition is not None and document.condition_field is not None:
        report.at_key((*path, "condition"), "Give condition or condition_field, not both.")
        return ()
    if document.on_true is not None or document.on_false is not None:
        branches = list(_true_false(document, path, report))
    elif document.branches is None:
        report.at_key(path, "The conditional has no branches.", "Give it 'branches', or 'on_true' and 'on_false'.")
        return ()
    elif isinstance(document.branches, dict):
        branches = list(_mapped(document, document.branches, path, report))
    else:
        branches = list(_listed(document, document.branches, path, report))
    return tuple(sorted(branches, key=lambda branch: branch.condition is None))


def _true_false(document: ConditionalDocument, path: Path, report: Report) -> Iterator[Branch]:
    if document.branches is not None:
        report.at_key((*path, "branches"), "Give branches or on_true and on_false, not both.")
    if document.condition is None:
        report.at_key(path, "'on_true' and 'on_false' need a 'condition'.")
        return
    for key, targets in (("on_true", document.on_true), ("on_false", document.on_false)):
        if not targets:
            report.at_key(path, f"The conditional has no '{key}'.", "Name an end node to stop there.")
    places: dict[str, Path] = {"test": (*path, "condition")}
    condition = _condition(places, report, normalise_condition, document.condition)
    yield Branch(tuple(document.on_true or ()), condition)
    yield Branch(tuple(document.on_false or ()), None)


def _mapped(
    document: ConditionalDocument, branches: dict[str, list[str]], path: Path, report: Report
) -> Iterator[Branch]:
    key = "condition" if document.condition is not None else "condition_field"
    value = document.condition or document.condition_field
    if value is None:
        report.at_key(path, "'branches' as an object needs a 'condition'.")
        return
    for name, targets in branches.items():
        if not targets:
            report.at_value((*path, "branches", name), f"The branch '{cut(name)}' has no next node.")
        if name.lower() == "default":
            yield Branch(tuple(targets), None)
        else:
            places: dict[str, Path] = {"field": (*path, key), "test": (*path, "branches", name)}
            yield Branch(tuple(targets), _condition(places, report, map_condition, value, name))


def _listed(
    document: ConditionalDocument, branches: list[BranchDocument], path: Path, report: Report
) -> Iterator[Branch]:
    if document.condition is not None:
        message = "'branches' as a list uses 'condition_field', not 'condition'."
        report.at_key((*path, "condition"), message, "Rename the key to 'condition_field'.")
    defaults = 0
    for index, branch in enumerate(branches):
        where = (*path, "branches", index)
        if not branch.next:
            report.at_value((*where, "next"), "The branch has no next node.")
        defaults += branch.default
        if branch.default and defaults > 1:
            report.at_key((*where, "default"), "There is a second default branch.")
        yield Branch(tuple(branch.next), _listed_condition(document, branch, where, report))


def _listed_condition(document: ConditionalDocument, branch: BranchDocument, path: Path, report: Report) -> str | None:
    if branch.default:
        if branch.condition is not None:
            report.at_key((*path, "condition"), "A default branch has no condition.")
        return None
    if branch.condition is None:
        report.at_key(path, "The branch has no condition.", "Give it a 'condition', or 'default: true'.")
        return None
    places: dict[str, Path] = {"field": (*path[:-2], "condition_field"), "test": (*path, "condition")}
    if document.condition_field is None:
        return _condition(places, report, normalise_condition, branch.condition)
    return _condition(places, report, branch_condition, document.condition_field, branch.condition)


def _condition(places: Mapping[str, Path], report: Report, make: Callable[..., str | None], *parts: str) -> str | None:
    """The stored text of a condition. A syntax error is reported at its place in the file."""
    try:
        return make(*parts, ROOTS)
    except ExpressionSyntaxError as error:
        path = places[str(error.path[0]) if error.path else "test"]
        message = f"The condition is not valid: {error.message}"
        report.at_value(path, message, error.suggestion, error.position)
        return None
