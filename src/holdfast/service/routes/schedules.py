"""Schedules: what starts by the clock."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response
from pydantic import ConfigDict, Field

from holdfast.errors import NotFound, Refused
from holdfast.operations.identity import Permission
from holdfast.service.bodies import REASON_LENGTH, Because
from holdfast.service.call import Call
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.schedules import Schedule, Triggered

table = RouteTable("schedules")
ScheduleName = Annotated[str, Path(description="The name of a schedule.", max_length=100)]


class SetSchedule(Because):
    """What a schedule runs, and when: `cron` or `every_seconds`."""

    model_config = ConfigDict(json_schema_extra={"example": {"workflow": "flood", "cron": "0 2 * * *"}})
    workflow: str = Field(min_length=1, max_length=200)
    """The id of a registered workflow. Each tick runs the version that is current then."""
    cron: str | None = Field(None, max_length=200)
    """Minute, hour, day of the month, month and day of the week: `0 2 * * *` is every night at two."""
    every_seconds: int | None = Field(None, ge=1)
    """An interval. It counts from the moment at which it is set."""
    time_zone: str = Field("UTC", max_length=100)
    """The time zone of `cron`, such as `Africa/Kigali`."""
    inputs: dict[str, Any] = Field(default_factory=dict)
    overlap: Literal["skip", "queue", "replace"] = "skip"
    """What a tick does while the job before it has not ended: nothing, wait for its end, or cancel it and start."""
    catch_up: Literal["none", "last", "all"] = "last"
    """Which ticks count of those that were missed while no process was there."""


class MakeSchedule(SetSchedule):
    """A schedule."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "night", "workflow": "flood", "cron": "0 2 * * *"}}
    )
    name: str = Field(min_length=1, max_length=100)


@table.get("/schedules", Permission.READ, answers=ListOf(Schedule))
async def list_schedules(call: Call) -> Response:
    """The schedules of the tenant, by name, each with its next five runs."""
    return call.items(await call.client.schedules())


@table.post("/schedules", Permission.SUBMIT, answers=Schedule, status=201, errors=(Refused, NotFound))
async def make_schedule(call: Call, body: MakeSchedule) -> Response:
    """Make a schedule. Its workflow must be registered, and take the inputs."""
    return call.answer(await call.client.add_schedule(body.name, body.workflow, **_wanted(body)), 201)


@table.get("/schedules/{name}", Permission.READ, answers=Schedule)
async def show_schedule(call: Call, name: ScheduleName) -> Response:
    """One schedule, with its next five runs and the outcome of its last tick."""
    return call.answer(await call.client.schedule(name))


@table.put("/schedules/{name}", Permission.SUBMIT, answers=Schedule, errors=(Refused, NotFound))
async def set_schedule(call: Call, name: ScheduleName, body: SetSchedule) -> Response:
    """Make a schedule, or change all that it says. A paused one stays paused; times that stay keep their next tick."""
    return call.answer(await call.client.add_schedule(name, body.workflow, **_wanted(body), replace=True))


@table.delete("/schedules/{name}", Permission.SUBMIT, answers=Schedule)
async def remove_schedule(
    call: Call,
    name: ScheduleName,
    reason: Annotated[str, Query(max_length=REASON_LENGTH, description="Why; the audit has it.")] = "",
) -> Response:
    """Remove a schedule. Its jobs stay. The answer shows it as it was."""
    return call.answer(await call.client.remove_schedule(name, reason=reason))


@table.post("/schedules/{name}/pause", Permission.SUBMIT, answers=Schedule, errors=(Refused,))
async def pause_schedule(call: Call, name: ScheduleName, body: Because) -> Response:
    """Let a schedule tick no more until it is unpaused. Ticks of that time are not caught up."""
    return call.answer(await call.client.pause_schedule(name, reason=body.reason))


@table.post("/schedules/{name}/unpause", Permission.SUBMIT, answers=Schedule, errors=(Refused,))
async def unpause_schedule(call: Call, name: ScheduleName, body: Because) -> Response:
    """Let a paused schedule tick again, from its next time on."""
    return call.answer(await call.client.unpause_schedule(name, reason=body.reason))


@table.post("/schedules/{name}/trigger", Permission.SUBMIT, answers=Triggered, errors=(Refused,))
async def trigger_schedule(call: Call, name: ScheduleName, body: Because) -> Response:
    """Let a schedule tick now, paused or not. While the job before it has not ended, its overlap decides."""
    return call.answer(await call.client.trigger_schedule(name, reason=body.reason))


def _wanted(body: SetSchedule) -> dict[str, Any]:
    """The arguments of `Client.add_schedule`."""
    return body.model_dump(exclude={"workflow", "name"})
