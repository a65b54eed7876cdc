"""Holdfast for programs: every operation as a method, for one tenant and one actor.

`Client` is asynchronous. `SyncClient` in `sync_client.py` has the same methods for programs without an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.client_commands import Commands
from holdfast.client_details import Details
from holdfast.client_gates import Bound, Gates
from holdfast.client_identities import Identities
from holdfast.client_notifications import Notifications
from holdfast.client_oversight import Oversight
from holdfast.client_requests import Requests
from holdfast.client_schedules import Schedules
from holdfast.client_streams import Streams
from holdfast.client_submissions import Submissions, Workflows
from holdfast.define.definition import Definition
from holdfast.errors import Unreachable
from holdfast.operations import (
    acknowledging,
    data,
    logs,
    overview,
    reading,
    registering,
    submitting,
    verbs,
    watching,
)
from holdfast.operations.marks import check_marks
from holdfast.operations.requests import Keyed
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import Submission
from holdfast.operations.verbs import ANSWER_SECONDS, Plan, Verb, VerbRequest, VerbResult
from holdfast.service_address import is_service_url
from holdfast.store.payloads import Payloads, open_objects
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import NewJob, SignalAnswer
from holdfast.views.data import Checkpoint, DataValue, TaskResult
from holdfast.views.definitions import JobDefinition
from holdfast.views.fleet import Fleet
from holdfast.views.history import Artifact, Attempt, Event, FailedGroup, Retries, Task
from holdfast.views.interventions import Acknowledgement
from holdfast.views.jobs import Job, JobPage, Statistics
from holdfast.views.overview import Hour, QueueState, Registration, WorkflowSummary
from holdfast.views.why import Why


class _Reads(Bound):
    """What can be read."""

    async def find_job(self, text: str) -> str:
        """The id of a job, from its id, from an ending that no other job has, or from `last`: the newest."""
        return await reading.find_job(self._scope, self._store, text)

    async def job(self, job_id: str, *, whole: bool = True) -> Job:
        """A job with its nodes and its outcome; without `whole` inputs, result and advice are left out."""
        return await reading.job(self._scope, self._store, job_id, whole=whole)

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
        """One page of jobs, newest first; `after` is the cursor of the page before.

        `code` and `fingerprint` find jobs in which something failed with it; `unacknowledged` finds failed and partial
        jobs that no person has acknowledged. `text` is the beginning or the end of an id, a key, or the beginning of a
        correlation id or a workflow id.
        """
        return await reading.jobs(
            self._scope,
            self._store,
            status=status,
            workflow_id=workflow_id,
            since=since,
            until=until,
            key=key,
            code=code,
            fingerprint=fingerprint,
            labels=labels,
            correlation_id=correlation_id,
            text=text,
            unacknowledged=unacknowledged,
            limit=limit,
            after=after,
        )

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
        """One page of a job's tasks; `after` is node and index of the last task of the page before."""
        only: dict[str, Any] = {"node": node, "status": status, "fingerprint": fingerprint}
        return await reading.tasks(self._scope, self._store, job_id, **only, limit=limit, after=after)

    async def attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None, limit: int = reading.LONGEST_PAGE
    ) -> list[Attempt]:
        """Attempts that failed or printed something, in the order in which they ended."""
        return await reading.attempts(self._scope, self._store, job_id, node=node, index=index, limit=limit)

    async def running_attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None
    ) -> list[Attempt]:
        """Attempts that run now and have printed something, with their output so far."""
        return await logs.running_attempts(self._scope, self._store, job_id, node=node, index=index)

    def follow_logs(
        self, job_id: str, *, node: str | None = None, index: int | None = None, tail: int | None = None
    ) -> AsyncIterator[Attempt]:
        """What attempts have printed so far, then what they print, until the job has ended: only the new lines."""
        return logs.follow_logs(self._scope, self._store, job_id, node=node, index=index, tail=tail)

    async def failures(self, job_id: str, node: str, *, limit: int = reading.SHOWN_GROUPS) -> list[FailedGroup]:
        """The failed items of a node, those that failed in the same way together: the largest groups."""
        return await reading.failures(self._scope, self._store, job_id, node, limit=limit)

    async def job_definition(self, job_id: str, *, generation: int | None = None) -> JobDefinition:
        """The definition and the inputs that a generation of a job follows; None: the present generation."""
        return await reading.job_definition(self._scope, self._store, job_id, generation=generation)

    async def retries(self, job_id: str) -> Retries:
        """How many attempts failed or were lost and were followed by another."""
        return await reading.retries(self._scope, self._store, job_id)

    async def outputs(self, job_id: str, nodes: Sequence[str] | None = None) -> dict[str, Any]:
        """The outputs of these nodes, or of all that have begun, by name."""
        return await reading.outputs(self._scope, self._store, job_id, nodes)

    def events(
        self, job_id: str, *, after: int = 0, node: str | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """The events of a job in order, from the number `after` on; with `follow` until the job has ended."""
        read = watching.follow_events if follow else reading.events
        return read(self._scope, self._store, job_id, after=after, node=node)

    def watch(
        self,
        job_id: str,
        *,
        whole: bool = True,
        every_look: bool = False,
        wake: asyncio.Event | None = None,
        on_outage: Callable[[Unreachable], None] = lambda reason: None,
    ) -> AsyncIterator[Job]:
        """The job as it is now, then whenever it has changed, until it has ended."""
        return watching.watch(
            self._scope, self._store, job_id, whole=whole, every_look=every_look, wake=wake, on_outage=on_outage
        )

    async def why(self, job_id: str) -> Why:
        """Why a job is not finished, or why it ended as it did."""
        return await reading.why(self._scope, self._store, job_id)

    async def fleet(self) -> Fleet:
        """The processes that serve the database, and the work that none of them serves."""
        return await reading.fleet(self._scope, self._store)

    async def is_served(self, job_id: str | None = None) -> bool:
        """Whether a live orchestrator would drive this job, or any job."""
        return await reading.is_served(self._store, job_id)

    async def statistics(self, *, since: datetime | None = None) -> Statistics:
        """How many jobs there are by status and by workflow, and how many tasks wait and run."""
        return await reading.statistics(self._scope, self._store, since=since)

    async def workflows(self) -> list[WorkflowSummary]:
        """The workflows of the tenant by id: the definition that was registered last, and the jobs by status."""
        return await overview.workflows(self._scope, self._store)

    async def queues(self) -> list[QueueState]:
        """The queues that have tasks of the tenant, or that live workers name, and the workers that serve them."""
        return await overview.queues(self._scope, self._store)

    async def hours(self, number: int = overview.SHOWN_HOURS) -> list[Hour]:
        """How many jobs ended in each of the last hours, oldest first; the last hour is not over."""
        return await overview.hours(self._scope, self._store, number)


class _Data(Bound):
    """The data of a job: params, outputs, files and checkpoints."""

    async def output(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        """The output of a node, or of one of its items. A large value is read from the object store."""
        return await data.output(self._scope, self._store, job_id, node, index=index)

    async def params(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        """The params of a node, or of one of its items, as its attempts get them: after all templates."""
        return await data.params(self._scope, self._store, job_id, node, index=index)

    def results(self, job_id: str, node: str, *, status: str | None = None) -> AsyncIterator[TaskResult]:
        """How all tasks of a node stand, by item, each with its output; they are read page by page."""
        return data.results(self._scope, self._store, job_id, node, status=status)

    def checkpoints(self, job_id: str, node: str, *, index: int | None = None) -> AsyncIterator[Checkpoint]:
        """The checkpoints that the tasks of a node have saved, by item and number; they are read page by page."""
        return data.checkpoints(self._scope, self._store, job_id, node, index=index)

    async def artifacts(
        self,
        job_id: str,
        *,
        node: str | None = None,
        index: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: Artifact | None = None,
    ) -> list[Artifact]:
        """The files that a job's tasks have published; with a `limit` one page, behind the file `after`."""
        return await data.artifacts(
            self._scope, self._store, job_id, node=node, index=index, name=name, limit=limit, after=after
        )

    async def fetch_artifact(self, job_id: str, artifact: Artifact, target: Path) -> None:
        """Copy a file that a task has published to `target`. Its content is verified."""
        await data.fetch_artifact(self._scope, self._store, job_id, artifact, target)


class Client(
    _Reads,
    _Data,
    Commands,
    Details,
    Gates,
    Identities,
    Notifications,
    Oversight,
    Requests,
    Schedules,
    Streams,
    Submissions,
    Workflows,
):
    """An asynchronous client of one database, or of one service: `async with Client.connect(url) as client: …`."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, scope: Scope | None = None, *, storage_url: str | None = None, api_key: str | None = None
    ) -> AsyncIterator[Client]:
        """A client of the database at that URL, whose schema must be there, or of the service at an http URL.

        `storage_url` is the object store of the installation, for large values and files: a URL, or a folder such as
        `.holdfast/payloads`. A service has its own; it takes an `api_key`, which says the tenant and the actor, too.
        """
        if is_service_url(url):
            # Imported late: it stands on this module, and most programs are at the database.
            from holdfast.remote.client import open_remote

            async with open_remote(url, scope, api_key=api_key) as remote:
                yield remote
            return
        payloads = Payloads(open_objects(storage_url)) if storage_url is not None else None
        async with PostgresStore.open(url, "holdfast client", payloads=payloads) as store:
            yield cls(store, scope)

    async def submit(
        self,
        definition: Definition,
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        resume: bool = False,
        force: bool = False,
        labels: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        external_ids: Mapping[str, str] | None = None,
        callback_url: str | None = None,
        notify: Sequence[Mapping[str, Any]] | None = None,
        like: str | None = None,
        refuse_changed: bool = False,
    ) -> Submission:
        """Make a job, or answer with the newest that the same submission made before.

        With `resume` a job that failed, is partial or was cancelled continues where it stopped. With `force` a new job
        is made, and the one before stays as it is. `like` is a job whose inputs are used where `inputs` has none. With
        `refuse_changed` a job that has ended and was made by another definition is refused. Labels, `correlation_id`,
        `external_ids`, `callback_url` and `notify` are no part of what makes two submissions the same: those of the
        first hold. `notify` names receivers: `[{"on": ["failed"], "email": "ops@example.org"}]`.
        """
        return await submitting.submit(
            self._scope,
            self._store,
            definition,
            inputs or {},
            key=key,
            priority=priority,
            resume=resume,
            force=force,
            labels=labels,
            marks=check_marks(correlation_id, external_ids, callback_url, notify),
            like=like,
            refuse_changed=refuse_changed,
        )

    async def submit_many(self, jobs: Sequence[NewJob]) -> list[Submission]:
        """Many submissions in one transaction."""
        return await submitting.submit_many(self._store, jobs)

    async def settle_submission(self, submission: Submission, *, seconds: float = ANSWER_SECONDS) -> Submission:
        """A submission that resumes its job, once the owner has answered; others, and after that time, as they are."""
        return await submitting.settle(self._scope, self._store, submission, seconds=seconds)

    async def definition(self, workflow_id: str) -> Definition:
        """The definition of that id that was registered last. The first submission of a definition registers it."""
        return await submitting.newest_definition(self._scope, self._store, workflow_id)

    async def register(self, definition: Definition) -> Registration:
        """Make a definition the one that `definition` returns for its id, without a job.

        The schedule of its file is made, changed or paused with it.
        """
        return await registering.register(self._scope, self._store, definition)

    async def acknowledge(self, job_id: str, *, reason: str = "") -> Acknowledgement:
        """Note that a failed or partial job needs nothing more; a recovery of the job ends that."""
        return await acknowledging.acknowledge(self._scope, self._store, job_id, reason=reason)

    async def plan(self, job_id: str, request: VerbRequest) -> Plan:
        """What a verb would do now. Changes nothing. Refused where the verb would be refused."""
        return await verbs.plan(self._scope, self._store, job_id, request)

    async def carry_out(
        self,
        plan: Plan,
        *,
        reason: str = "",
        exactly: bool = False,
        seconds: float = ANSWER_SECONDS,
        keyed: Keyed | None = None,
    ) -> VerbResult:
        """Send the verb of a plan and wait that long for the owner's answer; Refused if the owner refuses.

        With `exactly` the owner refuses unless it would do exactly what is planned. With a key it is sent once.
        """
        return await verbs.carry_out(
            self._scope, self._store, plan, reason=reason, exactly=exactly, seconds=seconds, keyed=keyed
        )

    async def settle(self, result: VerbResult, *, seconds: float | None = ANSWER_SECONDS) -> VerbResult:
        """The same result once the owner has answered, or after that time; Refused if the owner refuses."""
        return await verbs.settle(self._scope, self._store, result, seconds=seconds)

    async def send(self, job_id: str, request: VerbRequest, *, reason: str = "") -> int:
        """Ask the job's owner to apply a verb; returns the id of the signal that the owner answers."""
        return await verbs.send(self._scope, self._store, job_id, request, reason=reason)

    async def cancel(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to stop it; returns the id of the signal that the owner answers.

        With the id of a plan the owner does exactly that, or refuses because the job has changed.
        """
        return await self.send(job_id, VerbRequest(Verb.CANCEL, plan_id=plan_id), reason=reason)

    async def pause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to start no more of its tasks; returns the signal's id."""
        return await self.send(job_id, VerbRequest(Verb.PAUSE, plan_id=plan_id), reason=reason)

    async def unpause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to let it continue; returns the signal's id."""
        return await self.send(job_id, VerbRequest(Verb.UNPAUSE, plan_id=plan_id), reason=reason)

    async def answer(self, signal_id: int, *, seconds: float | None = ANSWER_SECONDS) -> SignalAnswer | None:
        """What the owner answers to a signal; None if it does not answer in that time."""
        return await verbs.answer(self._scope, self._store, signal_id, seconds=seconds)
