"""The part of the client over a URL that reads jobs, what happened to them, and what a tenant has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.errors import Unreachable
from holdfast.operations import overview, reading
from holdfast.remote import following
from holdfast.remote.base import PAGE_LENGTH, path_of
from holdfast.remote.streams import RemoteStreams
from holdfast.views.definitions import JobDefinition
from holdfast.views.fleet import Fleet
from holdfast.views.history import Attempt, Event, FailedGroup, Retries, Task
from holdfast.views.jobs import Job, JobPage, JobSummary, Statistics
from holdfast.views.overview import Hour, QueueState, WorkflowSummary
from holdfast.views.why import Why


class RemoteReads(RemoteStreams):
    """What can be read."""

    async def find_job(self, text: str) -> str:
        found: dict[str, str] = await self._send("GET", "/find", query=[("job", text)], is_repeatable=True)
        return found["job_id"]

    async def job(self, job_id: str, *, whole: bool = True) -> Job:
        return await self._get(Job, path_of("jobs", job_id), whole=whole)

    async def jobs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str | None = None,
        code: str | None = None,
        fingerprint: str | None = None,
        labels: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        text: str | None = None,
        unacknowledged: bool = False,
        limit: int = reading.PAGE_LENGTH,
        after: str | None = None,
    ) -> JobPage:
        left = reading.checked_limit(limit)
        if status is not None and not status:
            return JobPage()
        jobs: list[JobSummary] = []
        while True:
            found, after = await self._page(
                JobSummary,
                "/jobs",
                status=status,
                workflow=workflow_id,
                since=since,
                until=until,
                key=key,
                code=code,
                fingerprint=fingerprint,
                label=[f"{name}={value}" for name, value in (labels or {}).items()],
                correlation=correlation_id,
                text=text,
                unacknowledged=unacknowledged,
                limit=min(left, PAGE_LENGTH),
                cursor=after,
            )
            jobs += found
            left -= len(found)
            if after is None or left <= 0 or len(found) < PAGE_LENGTH:
                return JobPage(tuple(jobs), after)

    async def tasks(
        self,
        job_id: str,
        *,
        node: str | None = None,
        status: str | None = None,
        fingerprint: str | None = None,
        limit: int = reading.LONGEST_PAGE,
        after: tuple[str, int | None] | None = None,
    ) -> list[Task]:
        name, index = after if after is not None else (None, None)
        return await self._list(
            Task,
            path_of("jobs", job_id, "tasks"),
            node=node,
            status=status,
            fingerprint=fingerprint,
            limit=reading.checked_limit(limit),
            after_node=name,
            after_index=index,
        )

    async def attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None, limit: int = reading.LONGEST_PAGE
    ) -> list[Attempt]:
        return await self._list(Attempt, path_of("jobs", job_id, "attempts"), node=node, index=index, limit=limit)

    async def running_attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None
    ) -> list[Attempt]:
        return await self._list(Attempt, path_of("jobs", job_id, "attempts"), node=node, index=index, running=True)

    def follow_logs(
        self, job_id: str, *, node: str | None = None, index: int | None = None, tail: int | None = None
    ) -> AsyncIterator[Attempt]:
        return following.follow_logs(self, job_id, node=node, index=index, tail=tail)

    async def failures(self, job_id: str, node: str, *, limit: int = reading.SHOWN_GROUPS) -> list[FailedGroup]:
        return await self._list(FailedGroup, path_of("jobs", job_id, "nodes", node, "failures"), limit=limit)

    async def job_definition(self, job_id: str, *, generation: int | None = None) -> JobDefinition:
        return await self._get(JobDefinition, path_of("jobs", job_id, "definition"), generation=generation)

    async def retries(self, job_id: str) -> Retries:
        return await self._get(Retries, path_of("jobs", job_id, "retries"))

    async def outputs(self, job_id: str, nodes: Sequence[str] | None = None) -> dict[str, Any]:
        if nodes is not None and not nodes:
            return {}
        query = [("node", one) for one in nodes or ()]
        answer = await self._send("GET", path_of("jobs", job_id, "outputs"), query=query, is_repeatable=True)
        outputs: dict[str, Any] = answer["outputs"]
        return outputs

    def events(
        self, job_id: str, *, after: int = 0, node: str | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        if follow:
            return following.follow_events(self, job_id, after=after, node=node)
        path = path_of("jobs", job_id, "events")
        return self._every(Event, path, node=node, limit=reading.LONGEST_PAGE, cursor=after)

    def watch(
        self,
        job_id: str,
        *,
        whole: bool = True,
        every_look: bool = False,
        wake: asyncio.Event | None = None,
        on_outage: Callable[[Unreachable], None] = lambda reason: None,
    ) -> AsyncIterator[Job]:
        return following.watch(self, job_id, whole=whole, every_look=every_look, wake=wake, on_outage=on_outage)

    async def why(self, job_id: str) -> Why:
        return await self._get(Why, path_of("jobs", job_id, "why"))

    async def fleet(self) -> Fleet:
        return await self._get(Fleet, "/fleet")

    async def is_served(self, job_id: str | None = None) -> bool:
        query = [("job", job_id)] if job_id is not None else []
        answer = await self._send("GET", "/served", query=query, is_repeatable=True)
        return bool(answer["is_served"])

    async def statistics(self, *, since: datetime | None = None) -> Statistics:
        return await self._get(Statistics, "/statistics", since=since)

    async def workflows(self) -> list[WorkflowSummary]:
        return await self._list(WorkflowSummary, "/workflows")

    async def queues(self) -> list[QueueState]:
        return await self._list(QueueState, "/queues")

    async def hours(self, number: int = overview.SHOWN_HOURS) -> list[Hour]:
        return await self._list(Hour, "/hours", number=number)
