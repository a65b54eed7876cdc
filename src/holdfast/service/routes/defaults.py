"""The defaults of a tenant: what holds for workflows that say nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import Field

from holdfast.operations.identity import Permission
from holdfast.service.bodies import REASON_LENGTH, Because
from holdfast.service.call import Call
from holdfast.service.table import RouteTable
from holdfast.views.defaults import TenantDefaults

table = RouteTable("defaults")


class SetDefaults(Because):
    """Defaults that change: all of them, or none."""

    values: dict[str, Any] = Field(max_length=100)
    """Each default with its value, such as `{"retry.max_retries": 5}`."""


@table.get("/defaults", Permission.READ, answers=TenantDefaults)
async def show_defaults(call: Call) -> Response:
    """What holds for workflows of the tenant that say nothing, and where each value comes from."""
    return call.answer(await call.client.defaults())


@table.put("/defaults", Permission.ADMIN, answers=TenantDefaults)
async def set_defaults(call: Call, body: SetDefaults) -> Response:
    """Set defaults of the tenant. Jobs keep what they have."""
    return call.answer(await call.client.set_defaults(body.values, reason=body.reason))


@table.delete("/defaults", Permission.ADMIN, answers=TenantDefaults)
async def reset_defaults(
    call: Call,
    name: Annotated[list[str] | None, Query(description="Only this default; may be repeated.")] = None,
    reason: Annotated[str, Query(max_length=REASON_LENGTH, description="Why; it is stored.")] = "",
) -> Response:
    """Return to the built-in values of these defaults, or of all. Jobs keep what they have."""
    return call.answer(await call.client.reset_defaults(name, reason=reason))
