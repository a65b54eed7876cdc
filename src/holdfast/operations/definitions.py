"""Workflows as people see them: versions, texts as submitted, graphs, inputs, and how their jobs go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.define.definition import Definition, read_pinned
from holdfast.define.drawing import draw_mermaid, draw_svg
from holdfast.define.inputs_schema import inputs_schema
from holdfast.errors import InvalidInput, NotFound, cut
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import no_workflow
from holdfast.store.definition_rows import VersionRow
from holdfast.views.workflows import (
    WorkflowDetails,
    WorkflowGraph,
    WorkflowSource,
    WorkflowStatistics,
    WorkflowVersions,
    details_view,
    graph_view,
    source_view,
    statistics_view,
    version_view,
)

PAGE_LENGTH = 50
STATISTICS_JOBS = 1000
LAST_PLACE = 1_000_000
DRAWINGS: dict[str, Callable[[Definition], str]] = {"svg": draw_svg, "mermaid": draw_mermaid}
"""The forms of a drawing."""


async def workflow(
    scope: Scope, store: OperationsStore, workflow_id: str, *, definition_hash: str | None = None
) -> WorkflowDetails:
    """The definition that an id stands for, or another version of it."""
    return details_view(*await _read(scope, store, workflow_id, definition_hash))


async def workflow_versions(
    scope: Scope, store: OperationsStore, workflow_id: str, *, limit: int = PAGE_LENGTH, after: str | None = None
) -> WorkflowVersions:
    """The definitions that an id stood for, the last one first; `after` is the cursor of the page before."""
    place, limit = _place(after), checked_limit(limit)
    current = await _version(scope, store, workflow_id, None)
    found = await store.definitions(scope.tenant).versions(workflow_id, None, place, limit + 1)
    shown = tuple(version_view(workflow_id, row, current.definition_hash) for row in found[:limit])
    return WorkflowVersions(shown, str(place + limit) if len(found) > limit else None)


async def workflow_source(
    scope: Scope, store: OperationsStore, workflow_id: str, *, definition_hash: str | None = None
) -> WorkflowSource:
    """The text from which a definition was read, as it was submitted."""
    row = await _version(scope, store, workflow_id, definition_hash)
    source = await store.definitions(scope.tenant).source(row.definition_hash)
    if source is None:
        raise NotFound(
            f"No text is stored for version {row.version} of workflow {workflow_id}: a program has built it.",
            remedy="Read the definition itself, or register the workflow from a file.",
            instance=workflow_id,
        )
    return source_view(workflow_id, row, source)


async def workflow_graph(
    scope: Scope, store: OperationsStore, workflow_id: str, *, definition_hash: str | None = None
) -> WorkflowGraph:
    """The nodes of a definition, and what waits for what."""
    row, definition = await _read(scope, store, workflow_id, definition_hash)
    return graph_view(row.definition_hash, definition)


async def workflow_drawing(
    scope: Scope, store: OperationsStore, workflow_id: str, form: str, *, definition_hash: str | None = None
) -> str:
    """A definition as a picture: `svg`, or `mermaid`."""
    if form not in DRAWINGS:
        raise InvalidInput(f"'{cut(form)}' is no form of a drawing.", remedy=f"Use one of: {', '.join(DRAWINGS)}.")
    _, definition = await _read(scope, store, workflow_id, definition_hash)
    return DRAWINGS[form](definition)


async def workflow_inputs(
    scope: Scope, store: OperationsStore, workflow_id: str, *, definition_hash: str | None = None
) -> dict[str, Any]:
    """What the inputs of a submission must match, as JSON Schema."""
    _, definition = await _read(scope, store, workflow_id, definition_hash)
    return inputs_schema(definition)


async def workflow_statistics(scope: Scope, store: OperationsStore, workflow_id: str) -> WorkflowStatistics:
    """How the last 1,000 jobs of a workflow went, and their nodes."""
    _, definition = await _read(scope, store, workflow_id, None)
    jobs, nodes = await store.definitions(scope.tenant).statistics(workflow_id, STATISTICS_JOBS)
    return statistics_view(definition, jobs, nodes)


async def _read(
    scope: Scope, store: OperationsStore, workflow_id: str, definition_hash: str | None
) -> tuple[VersionRow, Definition]:
    row = await _version(scope, store, workflow_id, definition_hash)
    return row, read_pinned(await store.definition(row.definition_hash))


async def _version(scope: Scope, store: OperationsStore, workflow_id: str, definition_hash: str | None) -> VersionRow:
    """The current definition of an id, or the one with that hash. Other tenants' do not exist."""
    found = await store.definitions(scope.tenant).versions(workflow_id, definition_hash, 0, 1)
    if found:
        return found[0]
    if definition_hash is not None:
        raise NotFound(
            f"Workflow '{cut(workflow_id)}' has no definition with the hash {cut(definition_hash)}.",
            remedy="List its versions.",
            instance=workflow_id,
        )
    raise no_workflow(workflow_id)


def _place(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 7 or int(cursor) > LAST_PLACE:
        raise InvalidInput(f"'{cut(cursor)}' is not a cursor.", remedy="Use the cursor that the page before gave.")
    return int(cursor)
