"""What a tenant has as a whole: finding one of its jobs, how many there are, and who serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Response

from holdfast.errors import NotFound
from holdfast.operations.identity import Permission
from holdfast.operations.overview import MOST_HOURS, SHOWN_HOURS
from holdfast.service.bodies import Moment
from holdfast.service.call import Call, checked_job_id
from holdfast.service.table import ListOf, RouteTable
from holdfast.views.jobs import Statistics
from holdfast.views.overview import Hour

table = RouteTable("overview")


@dataclass(frozen=True, slots=True)
class FoundJob:
    """The job that a text means."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Served:
    """Whether a live orchestrator would drive jobs."""

    is_served: bool


@table.get("/find", Permission.READ, answers=FoundJob, errors=(NotFound,))
async def find_job(
    call: Call,
    job: Annotated[
        str, Query(max_length=200, description="An id, an ending that no other job's id has, or `last`: the newest.")
    ],
) -> Response:
    """The job that people mean by its id, or by a part of it."""
    return call.answer(FoundJob(await call.client.find_job(job)))


@table.get("/statistics", Permission.READ, answers=Statistics)
async def count_jobs(
    call: Call,
    since: Annotated[Moment | None, Query(description="Only jobs submitted at this time or later.")] = None,
) -> Response:
    """How many jobs there are by status and by workflow, and how many tasks wait and run."""
    return call.answer(await call.client.statistics(since=since))


@table.get("/hours", Permission.READ, answers=ListOf(Hour))
async def count_ended_jobs_by_hour(
    call: Call, number: Annotated[int, Query(ge=1, le=MOST_HOURS, description="How many hours.")] = SHOWN_HOURS
) -> Response:
    """How many jobs ended in each of the last hours, oldest first; the last hour is not over."""
    return call.items(await call.client.hours(number))


@table.get("/served", Permission.READ, answers=Served, errors=(NotFound,))
async def is_served(
    call: Call,
    job: Annotated[
        str | None, Query(max_length=64, description="The id of a job; without it any job is meant.")
    ] = None,
) -> Response:
    """Whether a live orchestrator would drive this job, or any job."""
    if job is not None:
        # Refuses what is no id, and a job of another tenant.
        await call.client.job(checked_job_id(job), whole=False)
    return call.answer(Served(await call.client.is_served(job)))
