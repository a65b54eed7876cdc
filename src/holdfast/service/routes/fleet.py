"""The processes that serve the database, and what holds tasks back."""

from __future__ import annotations

from fastapi import Response

from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.gates import Breaker
from holdfast.views.overview import QueueState

table = RouteTable("fleet")


@table.get("/queues", Permission.READ, answers=ListOf(QueueState))
async def list_queues(call: Call) -> Response:
    """The queues, what waits in them, and who serves them."""
    return call.items(await call.client.queues())


@table.get("/breakers", Permission.READ, answers=ListOf(Breaker))
async def list_breakers(call: Call) -> Response:
    """The breakers that workflows have declared."""
    return call.items(await call.client.breakers())
