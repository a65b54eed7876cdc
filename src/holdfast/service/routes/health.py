"""Whether the service lives and can work, its metrics, and its description."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from fastapi import Response

from holdfast.operations.identity import EVERY_TENANT, Permission
from holdfast.operations.metrics import MEDIA_TYPE
from holdfast.service.answers import JSON
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


@table.get("/metrics", Permission.READ, answers=Media("text/plain", "Metrics, as Prometheus reads them."))
async def show_metrics(call: Call) -> Response:
    """The metrics of this process and of the installation. A key of one tenant gets the figures of its tenant alone."""
    page = call.state.metrics
    is_whole = call.identity.tenant == EVERY_TENANT and "tenant" not in call.request.query_params
    return Response(await (page.whole() if is_whole else page.of_tenant(call.tenant)), media_type=MEDIA_TYPE)


@table.get("/openapi.json", Permission.PUBLIC, answers=Media("application/json", "The OpenAPI document."))
async def openapi_json(call: Call) -> Response:
    """The description of this interface, as an OpenAPI document."""
    app = call.request.app
    if not hasattr(app.state, "description"):
        # Once: everybody may ask for it, without a credential.
        app.state.description = orjson.dumps(app.openapi())
    return Response(app.state.description, media_type=JSON)
