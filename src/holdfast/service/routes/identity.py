"""The API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from holdfast.client import Client
from holdfast.errors import Forbidden, Refused
from holdfast.operations.identity import EVERY_TENANT, Permission
from holdfast.service.bodies import Body, Moment
from holdfast.service.call import Call, CallContext
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.identities import Key, NewKey

table = RouteTable("identity")
Prefix = Annotated[str, Path(max_length=60, description="How the key begins: `hf_` and eight characters.")]


class MakeKey(Body):
    """A new API key."""

    name: str = Field(min_length=1, max_length=200)
    """Whom or what the key is for; histories show it."""
    roles: list[str] = Field(min_length=1, max_length=10)
    """`viewer`, `submitter`, `operator`, `worker` or `admin`."""
    tenant: str | None = Field(None, max_length=100)
    """Whose key it is. Only an administrator of the installation names another tenant."""
    expires_at: Moment | None = None
    """When the key expires; without it, never."""


def _administrator(call: CallContext) -> Client:
    """A client for the tenant that the identity administers: all of them for that of the installation."""
    wanted = call.request.query_params.get("tenant")
    tenant = EVERY_TENANT if call.identity.is_installation_admin and wanted is None else call.tenant
    return call.client_for(tenant)


@table.get("/keys", Permission.ADMIN, answers=ListOf(Key))
async def list_keys(call: Call) -> Response:
    """The API keys, newest first. A key itself can be read nowhere."""
    return call.items(await _administrator(call).keys())


@table.post("/keys", Permission.ADMIN, answers=NewKey, status=201)
async def add_key(call: Call, body: MakeKey) -> Response:
    """Make an API key. This answer is the only place where the key can be read."""
    if body.tenant not in (None, call.identity.tenant) and not call.identity.is_installation_admin:
        raise Forbidden(f"{call.identity.name} makes keys of its own tenant only.", remedy="Leave `tenant` out.")
    tenant = body.tenant or call.tenant
    made = await call.client.add_key(body.name, roles=body.roles, tenant=tenant, expires_at=body.expires_at)
    return call.answer(made, 201)


@table.delete("/keys/{prefix}", Permission.ADMIN, answers=Key, errors=(Refused,))
async def revoke_key(call: Call, prefix: Prefix) -> Response:
    """End an API key, within five seconds at every process of the service."""
    return call.answer(await _administrator(call).revoke_key(prefix))
