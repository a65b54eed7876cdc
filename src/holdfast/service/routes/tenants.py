"""The tenants of the installation, and the queues that they are bound to."""

from __future__ import annotations

from fastapi import Response
from pydantic import Field

from holdfast.errors import Forbidden
from holdfast.operations.identity import EVERY_TENANT, Permission
from holdfast.service.bodies import Body
from holdfast.service.call import Call, CallContext
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.identities import Tenant

table = RouteTable("identity")


class MakeTenant(Body):
    """A tenant."""

    name: str = Field(min_length=1, max_length=100)
    queues: list[str] | None = Field(None, min_length=1, max_length=100)
    """The queues that its workflows may name; null: every queue."""


@table.get("/tenants", Permission.ADMIN, answers=ListOf(Tenant))
async def list_tenants(call: Call) -> Response:
    """The tenants that an administrator has made, by name. Others exist by their jobs alone."""
    _refuse_others(call)
    return call.items(await call.client.tenants())


@table.post(
    "/tenants",
    Permission.ADMIN,
    answers=Tenant,
    status=201,
    also={200: "The tenant was there; it has these queues now."},
)
async def keep_tenant(call: Call, body: MakeTenant) -> Response:
    """Make a tenant, or bind it to other queues. A submission that names another queue is refused."""
    _refuse_others(call)
    kept = await call.client.keep_tenant(body.name, queues=body.queues)
    return call.answer(kept if call.is_ours else kept.tenant, 201 if kept.is_new else 200)


def _refuse_others(call: CallContext) -> None:
    if not call.identity.is_installation_admin:
        raise Forbidden(
            f"The tenants are those of the installation, which {call.identity.name} does not administer.",
            remedy=f"Use a key for the tenant {EVERY_TENANT}.",
        )
