"""Reads lists for people: which jobs there are and how many. Never writes.

A list walks over jobs from the newest to the oldest. A walk is bounded: then the cursor says where it continues.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.remedies import Remedy
from holdfast.store.arrays import plain, texts
from holdfast.store.installation import PostgresInstallationReader
from holdfast.store.job_filter import JobFilter, Wanted
from holdfast.store.read_rows import (
    EndedJobs,
    JobCount,
    JobLine,
    JobLines,
    OpenJobLine,
    QueueCount,
    QueueLine,
    WalkedJob,
    WorkflowLine,
)
from holdfast.store.records import FIRST_JOB

MIN_ENDING = 6
NEWEST = "last"
"""What people type for the newest job; no id ends with it."""
LAST_JOB = str(uuid.UUID(int=2**128 - 1))
CLOCK_SECONDS = 86_400
"""How far the clock of a submitting machine may be off that of the database."""
WALK_LENGTH = 1000
"""How many jobs a list looks at in one statement, after those that fill a page if all of them fit."""
LONGEST_WALK = 10_000
"""How many jobs a page looks at before it ends, full or not: it is answered within a tenth of a second."""
FAILURE_WALK = 5_000
"""The same for codes and fingerprints, which stand in the nodes of a job."""
STATISTICS_WALK = 100_000
"""Among how many jobs those are looked for that are counted."""
LABEL_WALK = 2 * WALK_LENGTH
"""The same for labels: then an index finds the other jobs with the labels, which are few."""


class PostgresJobLists(PostgresInstallationReader):
    """The lists of `operations.ports.ReadStore`."""

    async def find_job(self, text: str) -> str:
        """The id of the job that is meant: its id, an ending of it that no other job has, or `last`."""
        wanted = text.strip().lower()
        if wanted == NEWEST:
            return await self._newest()
        try:
            rows = await self._fetch("job_exists", job=str(uuid.UUID(wanted)))
        except ValueError:
            rows = await self._jobs_ending_with(wanted, text)
        if not rows:
            raise no_such_job(text)
        if len(rows) > 1:
            shown = ", ".join(f"{row['job_id']} ({row['workflow_id']}, {row['status']})" for row in rows[:5])
            raise Refused(
                f"Several jobs end with '{text}': {shown}{', …' if len(rows) > 5 else ''}",
                remedy="Give more characters of the one that you mean.",
            )
        return str(rows[0]["job_id"])

    async def _jobs_ending_with(self, ending: str, text: str) -> list[dict[str, Any]]:
        if len(ending) < MIN_ENDING:
            raise InvalidInput(
                f"'{text}' is too short for a job id.",
                remedy=Remedy(
                    f"Give the whole id, or its last {MIN_ENDING} characters or more; list the jobs with", "status"
                ),
            )
        return await self._fetch("jobs_ending_with", ending=ending) if re.fullmatch("[0-9a-f-]+", ending) else []

    async def _newest(self) -> str:
        before: str | None = None
        while True:
            lines, before = await self.jobs(1, before=before)
            if lines:
                return lines[0].job_id
            if before is None:
                raise no_such_job(NEWEST)

    async def jobs(self, limit: int, *, before: str | None = None, only: JobFilter | None = None) -> JobLines:
        """One page of jobs, newest first: those older than the job `before`, and those that fit the filter."""
        wanted = only or JobFilter()
        start = min(before or LAST_JOB, _last_job_until(wanted.until) if wanted.until is not None else LAST_JOB)
        if wanted.identities is not None:
            parameters = _parameters(wanted) | {"identities": plain(wanted.identities)}
            ids, after = await self._page("jobs_of_identity", start, limit, parameters)
        elif wanted.correlation_id is not None:
            parameters = _parameters(wanted) | {"correlation_id": wanted.correlation_id}
            ids, after = await self._page("jobs_of_correlation", start, limit, parameters)
        else:
            ids, after = await self._walk(start, limit, wanted, longest=_longest_walk(wanted))
        return await self._lines(ids, after)

    async def find_jobs(self, limit: int, wanted: Wanted, *, before: str | None = None) -> JobLines:
        """One page of the jobs that a mark or a published file points to, newest first."""
        parameters = _parameters(JobFilter())
        start = before or LAST_JOB
        if wanted.identities is not None:
            named: dict[str, Any] = {"identities": plain(wanted.identities)}
            return await self._lines(*await self._page("jobs_of_identity", start, limit, parameters | named))
        if wanted.correlation_id is not None:
            named = {"correlation_id": wanted.correlation_id}
            return await self._lines(*await self._page("jobs_of_correlation", start, limit, parameters | named))
        if wanted.external_id is not None:
            named = {"namespace": wanted.external_id[0], "value": wanted.external_id[1]}
            return await self._lines(*await self._page("jobs_of_external_id", start, limit, named))
        return await self._lines(*await self._page("jobs_of_artifact", start, limit, {"digest": wanted.digest}))

    async def _newest_ids(self, most: int, only: JobFilter) -> list[str]:
        """The newest jobs that fit the filter, among many."""
        ids, _ = await self._walk(LAST_JOB, most, only, longest=STATISTICS_WALK)
        return ids

    async def _lines(self, ids: Sequence[str], after: str | None) -> JobLines:
        return JobLines(await self._records(JobLine, "job_lines", jobs=plain(ids)) if ids else [], after)

    async def _walk(self, before: str, limit: int, only: JobFilter, *, longest: int) -> tuple[list[str], str | None]:
        """The ids of one page, and where the next page begins; None: there is none."""
        first = _first_job_since(only.since) if only.since is not None else FIRST_JOB
        parameters = _parameters(only)
        ids: list[str] = []
        looked, length = 0, limit + 1
        while looked < longest:
            rows = await self._walked(before=before, walk=length, **parameters)
            ids += [row.job_id for row in rows if row.fits]
            if len(ids) > limit:
                return ids[:limit], ids[limit - 1]
            if len(rows) < length or rows[-1].job_id < first:
                return ids, None
            looked, before, length = looked + length, rows[-1].job_id, WALK_LENGTH
        if only.labels is None:
            return ids, before
        more, after = await self._page("jobs_with_labels", before, limit - len(ids), parameters)
        return ids + more, after

    async def _walked(self, **parameters: Any) -> list[WalkedJob]:
        """The next jobs, newest first."""
        if self._tenant is None:
            return await self._records(WalkedJob, "newest_jobs", **parameters)
        return await self._by_index(WalkedJob, "newest_jobs_of_tenant", **parameters)

    async def _page(
        self, statement: str, before: str, limit: int, parameters: dict[str, Any]
    ) -> tuple[list[str], str | None]:
        """The ids of one page that an index finds, and where the next page begins; None: there is none."""
        rows = await self._fetch(statement, before=before, limit=limit + 1, **parameters)
        ids = [row["job_id"] for row in rows[:limit]]
        return ids, (ids[-1] if ids else before) if len(rows) > limit else None

    async def open_jobs(
        self, workflow_id: str | None = None, job_ids: Sequence[str] | None = None
    ) -> list[OpenJobLine]:
        """The jobs that have not ended, or those of one workflow, or those among some jobs."""
        jobs = plain(job_ids) if job_ids is not None else None
        return await self._records(OpenJobLine, "open_jobs", workflow=workflow_id, jobs=jobs)

    async def workflow_ids(self) -> list[str]:
        """The ids of all workflows of the tenant."""
        return [row["workflow_id"] for row in await self._fetch("workflow_ids")]

    async def workflows(self) -> list[WorkflowLine]:
        """The definition of each workflow of the tenant that was registered last, by id."""
        return await self._records(WorkflowLine, "workflow_lines")

    async def queues(self) -> list[QueueLine]:
        """The tasks of the tenant, by queue."""
        return await self._by_hash(QueueLine, "queue_lines")

    async def ended_by_hour(self, since: datetime) -> list[EndedJobs]:
        """How many jobs ended since that time, by hour; hours without any are left out."""
        return await self._records(EndedJobs, "ended_by_hour", since=since)

    async def count_jobs(self, since: datetime | None) -> list[JobCount]:
        """How many jobs there are of each workflow with each status."""
        return await self._records(JobCount, "count_jobs", since=since)

    async def count_queue(self) -> QueueCount:
        """How many tasks wait in the queue, and how many run."""
        (count,) = await self._records(QueueCount, "count_queue")
        return count


def _longest_walk(only: JobFilter) -> int:
    if only.labels is not None:
        return LABEL_WALK
    return LONGEST_WALK if only.code is None and only.fingerprint is None else min(FAILURE_WALK, LONGEST_WALK)


def _parameters(only: JobFilter) -> dict[str, Any]:
    return {
        "statuses": texts(only.statuses) if only.statuses is not None else None,
        "workflow": only.workflow_id,
        "since": only.since,
        "until": only.until,
        "code": only.code,
        "fingerprint": only.fingerprint,
        "text": only.text,
        "text_identities": plain(only.text_identities),
        "labels": orjson.dumps(dict(only.labels)).decode() if only.labels else None,
        "unacknowledged": only.unacknowledged,
    }


def no_such_job(text: str) -> NotFound:
    what = "no job yet" if text == NEWEST else f"no job '{text}'"
    return NotFound(f"There is {what}.", remedy=Remedy("List the jobs with", "status"), instance=text)


def _first_job_since(since: datetime) -> str:
    """The lowest id of a job that was made then. Ids have the time of the machine that submitted it."""
    return _id_of_moment(since.timestamp() - CLOCK_SECONDS)


def _last_job_until(until: datetime) -> str:
    return _id_of_moment(until.timestamp() + CLOCK_SECONDS)


def _id_of_moment(seconds: float) -> str:
    return str(uuid.UUID(int=min(max(0, round(seconds * 1000)), 2**48 - 1) << 80))
