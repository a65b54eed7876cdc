"""Whether the service lives and can work, and its description."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Response

from holdfast.operations.identity import Permission
from holdfast.service.answers import json_response
from holdfast.service.call import Call
from holdfast.service.table import Media, RouteTable
from holdfast.version import __version__
from holdfast.views.health import InstallationHealth

table = RouteTable("health")


@dataclass(frozen=True, slots=True)
class Health:
    """That the process answers."""

    status: str
    version: str


@table.get("/livez", Permission.PUBLIC, answers=Health)
async def livez(call: Call) -> Response:
    """The process is alive."""
    return call.answer(Health("alive", __version__))


@table.get("/readyz", Permission.PUBLIC, answers=Health)
async def readyz(call: Call) -> Response:
    """The process can work: its database answers, and the schema fits."""
    await call.client.is_served()
    return call.answer(Health("ready", __version__))


@table.get("/health", Permission.READ, answers=InstallationHealth)
async def show_health(call: Call) -> Response:
    """Whether the installation does its work, and if not, why."""
    return call.answer(await call.client.health())


@table.get("/openapi.json", Permission.PUBLIC, answers=Media("application/json", "The OpenAPI document."))
async def openapi_json(call: Call) -> Response:
    """The description of this interface, as an OpenAPI document."""
    return json_response(call.request.app.openapi())
