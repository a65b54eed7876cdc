"""Workflows: which there are, and registering one."""

from __future__ import annotations

from fastapi import Response

from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.overview import WorkflowSummary

table = RouteTable("workflows")


@table.get("/workflows", Permission.READ, answers=ListOf(WorkflowSummary))
async def list_workflows(call: Call) -> Response:
    """The workflows by id, each with its jobs by status."""
    return call.items(await call.client.workflows())
