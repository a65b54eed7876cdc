"""The processes that serve the database, what holds tasks back, and what asks for a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.operations.identity import Permission
from holdfast.service.bodies import Moment
from holdfast.service.call import Call
from holdfast.service.routes.jobs import Cursor, Limit
from holdfast.service.table import ListOf, Page, RouteTable
from holdfast.views import gates
from holdfast.views.attention import Concern
from holdfast.views.fleet import Fleet, Orchestrator, Worker
from holdfast.views.overview import QueueState
from holdfast.views.pausing import PauseState
from holdfast.views.stats import StatsStep
from holdfast.views.upkeep import Action, JanitorLog

table = RouteTable("fleet")


@table.get("/fleet", Permission.READ, answers=Fleet)
async def show_fleet(call: Call) -> Response:
    """The processes that serve the database, and the work that none of them serves.

    Processes serve all tenants. What they do for other tenants is neither counted nor named.
    """
    return call.answer(await call.client.fleet())


@table.get("/workers", Permission.READ, answers=ListOf(Worker))
async def list_workers(call: Call) -> Response:
    """The live workers: what they serve, and how many tasks of the tenant they hold."""
    return call.items((await call.client.fleet()).workers)


@table.get("/orchestrators", Permission.READ, answers=ListOf(Orchestrator))
async def list_orchestrators(call: Call) -> Response:
    """The live orchestrators, each with how many jobs of the tenant it owns."""
    return call.items((await call.client.fleet()).orchestrators)


@table.get("/queues", Permission.READ, answers=ListOf(QueueState))
async def list_queues(call: Call) -> Response:
    """The queues, what waits in them, and who serves them."""
    return call.items(await call.client.queues())


@table.get("/breakers", Permission.READ, answers=ListOf(gates.Breaker))
async def list_breakers(call: Call) -> Response:
    """The breakers that workflows have declared."""
    return call.items(await call.client.breakers())


@table.get("/limits", Permission.READ, answers=ListOf(gates.Limit))
async def list_limits(call: Call) -> Response:
    """The limits of the tenant and of the queues, with the tasks of the tenant that they concern.

    An administrator of the installation sees the limits of all tenants, with all tasks.
    """
    return call.items(await call.client.limits())


@table.get("/pauses", Permission.READ, answers=ListOf(PauseState))
async def list_pauses(call: Call) -> Response:
    """What is paused now: queues, and jobs of the tenant by workflow."""
    return call.items(await call.client.pauses())


@table.get("/attention", Permission.READ, answers=ListOf(Concern))
async def list_concerns(call: Call) -> Response:
    """What a person should look at now, the worst first, each with what helps.

    Failed and partial jobs that no person has acknowledged, jobs that are held, open breakers, paused queues, queues
    that no worker serves, and work that is stuck.
    """
    return call.items(await call.client.attention())


@table.get("/stats", Permission.READ, answers=ListOf(StatsStep))
async def list_stats(
    call: Call,
    since: Annotated[Moment | None, Query(description="From when on. Without it the last 60 steps are shown.")] = None,
    step: Annotated[int, Query(ge=60, le=604_800, description="The length of a step: a multiple of 60 seconds.")] = 60,
) -> Response:
    """What happened, step by step: jobs that were submitted and that ended, tasks that ended, attempts that failed.

    The janitor counts every few seconds. An administrator of the installation sees the sums of all tenants, or the
    numbers of the one that `tenant` names.
    """
    return call.items(await call.installation_client.stats(since=since, step_seconds=step))


@table.get("/janitor", Permission.READ, answers=JanitorLog)
async def show_janitor(call: Call, limit: Limit = 50) -> Response:
    """Which process does the janitor's work, what it did last, and the alerts of that."""
    return call.answer(await call.client.janitor_log(limit=limit))


@table.get("/janitor/actions", Permission.READ, answers=Page(Action))
async def list_janitor_actions(call: Call, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """What the janitor did about jobs of the tenant, newest first.

    An administrator of the installation sees all that it did.
    """
    page = await call.client.janitor_actions(limit=limit, after=cursor)
    return call.page(page.actions, page.after)
