"""`SyncClient`: the methods of `Client` for programs without an event loop of their own.

The calls run on a private event loop in a background thread, so they also work inside of a running event loop, for
example in a notebook. The caller waits for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.errors import Unreachable
from holdfast.operations import overview, reading
from holdfast.operations.requests import Keyed
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import Submission
from holdfast.operations.verbs import ANSWER_SECONDS, Plan, VerbRequest, VerbResult
from holdfast.private_loop import PrivateLoop
from holdfast.store.records import NewJob, SignalAnswer
from holdfast.sync_client_commands import SyncCommands
from holdfast.sync_client_details import SyncDetails
from holdfast.sync_client_gates import Face, SyncGates
from holdfast.sync_client_identities import SyncIdentities
from holdfast.sync_client_notifications import SyncNotifications
from holdfast.sync_client_oversight import SyncOversight
from holdfast.sync_client_requests import SyncRequests
from holdfast.sync_client_schedules import SyncSchedules
from holdfast.sync_client_streams import SyncStreams
from holdfast.sync_client_submissions import SyncSubmissions, SyncWorkflows
from holdfast.views.data import Checkpoint, DataValue, TaskResult
from holdfast.views.definitions import JobDefinition
from holdfast.views.fleet import Fleet
from holdfast.views.history import Artifact, Attempt, Event, FailedGroup, Retries, Task
from holdfast.views.interventions import Acknowledgement
from holdfast.views.jobs import Job, JobPage, Statistics
from holdfast.views.overview import Hour, QueueState, Registration, WorkflowSummary
from holdfast.views.why import Why

Value = TypeVar("Value")


class _Reads(Face):
    """What can be read."""

    def find_job(self, text: str) -> str:
        """The id of a job, from its id, from an ending that no other job has, or from `last`: the newest."""
        return self._loop.run(self._client.find_job(text))

    def job(self, job_id: str, *, whole: bool = True) -> Job:
        """A job with its nodes and its outcome; without `whole` inputs, result and advice are left out."""
        return self._loop.run(self._client.job(job_id, whole=whole))

    def jobs(
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
        return self._loop.run(
            self._client.jobs(
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
        )

    def tasks(
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
        return self._loop.run(self._client.tasks(job_id, **only, limit=limit, after=after))

    def attempts(
        self, job_id: str, *, node: str | None = None, index: int | None = None, limit: int = reading.LONGEST_PAGE
    ) -> list[Attempt]:
        """Attempts that failed or printed something, in the order in which they ended."""
        return self._loop.run(self._client.attempts(job_id, node=node, index=index, limit=limit))

    def running_attempts(self, job_id: str, *, node: str | None = None, index: int | None = None) -> list[Attempt]:
        """Attempts that run now and have printed something, with their output so far."""
        return self._loop.run(self._client.running_attempts(job_id, node=node, index=index))

    def follow_logs(
        self, job_id: str, *, node: str | None = None, index: int | None = None, tail: int | None = None
    ) -> Iterator[Attempt]:
        """What attempts have printed so far, then what they print, until the job has ended: only the new lines."""
        return self._loop.iterate(self._client.follow_logs(job_id, node=node, index=index, tail=tail))

    def failures(self, job_id: str, node: str, *, limit: int = reading.SHOWN_GROUPS) -> list[FailedGroup]:
        """The failed items of a node, those that failed in the same way together: the largest groups."""
        return self._loop.run(self._client.failures(job_id, node, limit=limit))

    def job_definition(self, job_id: str, *, generation: int | None = None) -> JobDefinition:
        """The definition and the inputs that a generation of a job follows; None: the present generation."""
        return self._loop.run(self._client.job_definition(job_id, generation=generation))

    def retries(self, job_id: str) -> Retries:
        """How many attempts failed or were lost and were followed by another."""
        return self._loop.run(self._client.retries(job_id))

    def outputs(self, job_id: str, nodes: Sequence[str] | None = None) -> dict[str, Any]:
        """The outputs of these nodes, or of all that have begun, by name."""
        return self._loop.run(self._client.outputs(job_id, nodes))

    def events(self, job_id: str, *, after: int = 0, node: str | None = None, follow: bool = False) -> Iterator[Event]:
        """The events of a job in order, from the number `after` on; with `follow` until the job has ended."""
        return self._loop.iterate(self._client.events(job_id, after=after, node=node, follow=follow))

    def watch(
        self,
        job_id: str,
        *,
        whole: bool = True,
        every_look: bool = False,
        on_outage: Callable[[Unreachable], None] = lambda reason: None,
    ) -> Iterator[Job]:
        """The job as it is now, then whenever it has changed, until it has ended."""
        looks = self._client.watch(job_id, whole=whole, every_look=every_look, on_outage=on_outage)
        return self._loop.iterate(looks)

    def why(self, job_id: str) -> Why:
        """Why a job is not finished, or why it ended as it did."""
        return self._loop.run(self._client.why(job_id))

    def fleet(self) -> Fleet:
        """The processes that serve the database, for all tenants, and the work that none of them serves."""
        return self._loop.run(self._client.fleet())

    def is_served(self, job_id: str | None = None) -> bool:
        """Whether a live orchestrator would drive this job, or any job."""
        return self._loop.run(self._client.is_served(job_id))

    def statistics(self, *, since: datetime | None = None) -> Statistics:
        """How many jobs there are by status and by workflow, and how many tasks wait and run."""
        return self._loop.run(self._client.statistics(since=since))

    def workflows(self) -> list[WorkflowSummary]:
        """The workflows of the tenant by id: the definition that was registered last, and the jobs by status."""
        return self._loop.run(self._client.workflows())

    def queues(self) -> list[QueueState]:
        """The queues that have tasks of the tenant, or that live workers name, and the workers that serve them."""
        return self._loop.run(self._client.queues())

    def hours(self, number: int = overview.SHOWN_HOURS) -> list[Hour]:
        """How many jobs ended in each of the last hours, oldest first; the last hour is not over."""
        return self._loop.run(self._client.hours(number))


class _Data(Face):
    """The data of a job: params, outputs, files and checkpoints."""

    def output(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        """The output of a node, or of one of its items. A large value is read from the object store."""
        return self._loop.run(self._client.output(job_id, node, index=index))

    def params(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        """The params of a node, or of one of its items, as its attempts get them: after all templates."""
        return self._loop.run(self._client.params(job_id, node, index=index))

    def results(self, job_id: str, node: str, *, status: str | None = None) -> Iterator[TaskResult]:
        """How all tasks of a node stand, by item, each with its output; they are read page by page."""
        return self._loop.iterate(self._client.results(job_id, node, status=status))

    def checkpoints(self, job_id: str, node: str, *, index: int | None = None) -> Iterator[Checkpoint]:
        """The checkpoints that the tasks of a node have saved, by item and number; they are read page by page."""
        return self._loop.iterate(self._client.checkpoints(job_id, node, index=index))

    def artifacts(
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
        return self._loop.run(
            self._client.artifacts(job_id, node=node, index=index, name=name, limit=limit, after=after)
        )

    def fetch_artifact(self, job_id: str, artifact: Artifact, target: Path) -> None:
        """Copy a file that a task has published to `target`. Its content is verified."""
        self._loop.run(self._client.fetch_artifact(job_id, artifact, target))


class SyncClient(
    _Reads,
    _Data,
    SyncCommands,
    SyncDetails,
    SyncGates,
    SyncIdentities,
    SyncNotifications,
    SyncOversight,
    SyncRequests,
    SyncSchedules,
    SyncStreams,
    SyncSubmissions,
    SyncWorkflows,
):
    """A synchronous client of one database, or of one service: `with SyncClient.connect(url) as client: …`."""

    @classmethod
    @contextmanager
    def connect(
        cls, url: str, scope: Scope | None = None, *, storage_url: str | None = None, api_key: str | None = None
    ) -> Iterator[SyncClient]:
        """A client of the database at that URL, whose schema must be there, or of the service at an http URL.

        Threads may share it. `storage_url` is the object store of the installation, for large values and files: a URL,
        or a folder such as `.holdfast/payloads`. A service has its own; it takes an `api_key`, which says the tenant
        and the actor, too.
        """
        loop = PrivateLoop()
        try:
            opened: AbstractAsyncContextManager[Client] = Client.connect(
                url, scope, storage_url=storage_url, api_key=api_key
            )
            client = loop.run(opened.__aenter__())
            try:
                yield cls(client, loop)
            finally:
                loop.run(opened.__aexit__(None, None, None))
        finally:
            loop.close()

    def submit(
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
        return self._loop.run(
            self._client.submit(
                definition,
                inputs,
                key=key,
                priority=priority,
                resume=resume,
                force=force,
                labels=labels,
                correlation_id=correlation_id,
                external_ids=external_ids,
                callback_url=callback_url,
                notify=notify,
                like=like,
                refuse_changed=refuse_changed,
            )
        )

    def submit_many(self, jobs: Sequence[NewJob]) -> list[Submission]:
        """Many submissions in one transaction."""
        return self._loop.run(self._client.submit_many(jobs))

    def settle_submission(self, submission: Submission, *, seconds: float = ANSWER_SECONDS) -> Submission:
        """A submission that resumes its job, once the owner has answered; others, and after that time, as they are."""
        return self._loop.run(self._client.settle_submission(submission, seconds=seconds))

    def definition(self, workflow_id: str) -> Definition:
        """The definition of that id that was registered last. The first submission of a definition registers it."""
        return self._loop.run(self._client.definition(workflow_id))

    def register(self, definition: Definition) -> Registration:
        """Make a definition the one that `definition` returns for its id, without a job.

        The schedule of its file is made, changed or paused with it.
        """
        return self._loop.run(self._client.register(definition))

    def acknowledge(self, job_id: str, *, reason: str = "") -> Acknowledgement:
        """Note that a failed or partial job needs nothing more; a recovery of the job ends that."""
        return self._loop.run(self._client.acknowledge(job_id, reason=reason))

    def plan(self, job_id: str, request: VerbRequest) -> Plan:
        """What a verb would do now. Changes nothing. Refused where the verb would be refused."""
        return self._loop.run(self._client.plan(job_id, request))

    def carry_out(
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
        return self._loop.run(
            self._client.carry_out(plan, reason=reason, exactly=exactly, seconds=seconds, keyed=keyed)
        )

    def settle(self, result: VerbResult, *, seconds: float | None = ANSWER_SECONDS) -> VerbResult:
        """The same result once the owner has answered, or after that time; Refused if the owner refuses."""
        return self._loop.run(self._client.settle(result, seconds=seconds))

    def send(self, job_id: str, request: VerbRequest, *, reason: str = "") -> int:
        """Ask the job's owner to apply a verb; returns the id of the signal that the owner answers."""
        return self._loop.run(self._client.send(job_id, request, reason=reason))

    def cancel(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to stop it; returns the id of the signal that the owner answers.

        With the id of a plan the owner does exactly that, or refuses because the job has changed.
        """
        return self._loop.run(self._client.cancel(job_id, reason=reason, plan_id=plan_id))

    def pause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to start no more of its tasks; returns the signal's id."""
        return self._loop.run(self._client.pause(job_id, reason=reason, plan_id=plan_id))

    def unpause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to let it continue; returns the signal's id."""
        return self._loop.run(self._client.unpause(job_id, reason=reason, plan_id=plan_id))

    def answer(self, signal_id: int, *, seconds: float | None = ANSWER_SECONDS) -> SignalAnswer | None:
        """What the owner answers to a signal; None if it does not answer in that time."""
        return self._loop.run(self._client.answer(signal_id, seconds=seconds))
