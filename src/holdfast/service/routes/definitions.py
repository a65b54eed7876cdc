"""Workflows: registering and checking definitions, their versions, their texts, and how their jobs go."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response

from holdfast.errors import InvalidDefinition
from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.definitions import BODY_TYPES, checked, definition_in, text_in
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import Page, RouteTable
from holdfast.views.overview import Registration
from holdfast.views.workflows import (
    Validation,
    WorkflowDetails,
    WorkflowGraph,
    WorkflowSource,
    WorkflowStatistics,
    WorkflowVersion,
    validation_view,
)

table = RouteTable("workflows")
WorkflowId = Annotated[str, Path(description="The id of a workflow.", max_length=200)]
Hash = Annotated[
    str | None,
    Query(max_length=64, description="The hash of another version; without it the current definition is meant."),
]
File = Annotated[
    str | None, Query(max_length=200, pattern=r"^[^/\\\x00-\x1f]+$", description="The name of the file, for messages.")
]
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""A drawing brings styles, and nothing that runs or loads."""


@table.post(
    "/workflows",
    Permission.SUBMIT,
    answers=Registration,
    status=201,
    also={200: "It was the current one before."},
    errors=(InvalidDefinition,),
    reads_body=False,
    body_types=BODY_TYPES,
)
async def register_workflow(call: Call, file: File = None) -> Response:
    """Make a definition the one that a submission by its id takes. This makes no job.

    The body is the definition itself, as YAML or as JSON; its text is kept as it came.
    """
    text = await text_in(call, file)
    registration = await call.client.register(await call.state.beside.run(lambda: definition_in(text)))
    return call.answer(registration, 201 if registration.answer == "registered" else 200)


@table.post("/workflows/validate", Permission.SUBMIT, answers=Validation, reads_body=False, body_types=BODY_TYPES)
async def validate_workflow(call: Call, file: File = None) -> Response:
    """Check a definition and report all its mistakes, each with its place. This stores nothing.

    The body is the definition itself, as YAML or as JSON. Which handlers there are is not known here.
    """
    text = await text_in(call, file)
    return call.answer(validation_view(*await call.state.beside.run(lambda: checked(text))))


@table.get("/workflows/{workflow_id}", Permission.READ, answers=WorkflowDetails)
async def show_workflow(call: Call, workflow_id: WorkflowId, definition_hash: Hash = None) -> Response:
    """The definition that an id stands for, with every default of the language filled in."""
    return call.answer(await call.client.workflow(workflow_id, definition_hash=definition_hash))


@table.get("/workflows/{workflow_id}/versions", Permission.READ, answers=Page(WorkflowVersion))
async def list_workflow_versions(
    call: Call, workflow_id: WorkflowId, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """The definitions that an id stood for, the last one first."""
    page = await call.client.workflow_versions(workflow_id, limit=limit, after=cursor)
    return call.page(page.versions, page.after)


@table.get("/workflows/{workflow_id}/source", Permission.READ, answers=WorkflowSource)
async def show_workflow_source(call: Call, workflow_id: WorkflowId, definition_hash: Hash = None) -> Response:
    """The text from which a definition was read, as it was submitted."""
    return call.answer(await call.client.workflow_source(workflow_id, definition_hash=definition_hash))


@table.get(
    "/workflows/{workflow_id}/graph",
    Permission.READ,
    answers=WorkflowGraph,
    other_types=("image/svg+xml", "text/plain"),
)
async def show_workflow_graph(
    call: Call,
    workflow_id: WorkflowId,
    form: Annotated[
        Literal["json", "svg", "mermaid"],
        Query(alias="format", description="`json`, or a drawing: `svg` (image/svg+xml) or `mermaid` (text/plain)."),
    ] = "json",
    definition_hash: Hash = None,
) -> Response:
    """The nodes of a definition and what waits for what, or a drawing of them."""
    if form == "json":
        return call.answer(await call.client.workflow_graph(workflow_id, definition_hash=definition_hash))
    drawing = await call.client.workflow_drawing(workflow_id, form, definition_hash=definition_hash)
    kind = "image/svg+xml" if form == "svg" else "text/plain"
    return Response(drawing, headers={"Content-Security-Policy": DRAWING_POLICY}, media_type=kind)


@table.get("/workflows/{workflow_id}/inputs", Permission.READ, answers=dict[str, Any])
async def show_workflow_inputs(call: Call, workflow_id: WorkflowId, definition_hash: Hash = None) -> Response:
    """What the inputs of a submission must match, as JSON Schema."""
    return call.answer(await call.client.workflow_inputs(workflow_id, definition_hash=definition_hash))


@table.get("/workflows/{workflow_id}/stats", Permission.READ, answers=WorkflowStatistics)
async def show_workflow_statistics(call: Call, workflow_id: WorkflowId) -> Response:
    """How the last 1,000 jobs of a workflow went: durations, and the share of failures of each node.

    The jobs are looked for among the newest 100,000 of the database.
    """
    return call.answer(await call.client.workflow_statistics(workflow_id))
