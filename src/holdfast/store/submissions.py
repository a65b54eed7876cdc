"""Submissions of jobs, and signals of people to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from holdfast import failpoint
from holdfast.define.definition import Definition
from holdfast.errors import BacklogFull, DefaultsChanged, NotFound
from holdfast.remedies import Remedy
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.audit import audit_of_verb, signal_data
from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import by_name, records, remedy_of
from holdfast.store.connection import SYNC, Statement, answer_of
from holdfast.store.gathering import SharedCommits
from holdfast.store.payloads import value_or_name
from holdfast.store.queries import query
from holdfast.store.read_rows import AcknowledgementRow
from holdfast.store.records import ANYBODY, KnownDefaults, NewJob, PlanRow, SignalAnswer, SubmitAnswer
from holdfast.store.schedule_changes import ROLE, change_schedule
from holdfast.store.schedule_rows import Decide, Registered
from holdfast.store.session import PostgresSession, signalled


class PostgresSubmissions(PostgresSession):
    """Keeps the promises of `interface.SubmissionStore`."""

    _shared_commits: SharedCommits | None = None

    async def submit(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer]:
        """Insert jobs whose identity is free, and forced ones; an equal submission answers with the newest job."""
        answers: list[SubmitAnswer] = []
        for answer in await self.submit_each(jobs):
            if isinstance(answer, BacklogFull):
                raise answer
            answers.append(answer)
        return answers

    async def submit_each(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer | BacklogFull]:
        """The same. One that a full backlog refuses has the refusal as its answer, and stops no other."""
        if self._shared_commits is not None:
            return await self._shared_commits.submit(jobs)
        return await self._submit_each(jobs)

    def share_commits(self) -> None:
        """From now on submissions that arrive at the same time share a transaction."""
        self._shared_commits = SharedCommits(self._submit_each)

    async def close(self) -> None:
        if self._shared_commits is not None:
            await self._shared_commits.close()
        await super().close()

    async def _submit_each(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer | BacklogFull]:
        runs: dict[str, int] = {}
        known: dict[tuple[str, str], dict[str, Any]] = {}
        refused: dict[str, BacklogFull] = {}
        left = jobs
        while left:
            runs |= await self._insert_jobs(left)
            # They were compared the first time; what was made then stays.
            left = [job._replace(defaults_mark=None) for job in left if job.job_id not in runs]
            found = await self.jobs_by_identity(left)
            known |= found
            left = [job for job in left if _is_open(job, found.get((job.tenant, job.identity)))]
            # Where none is full the limit was lifted, the job was pruned, or its number was taken, in between.
            full = [refusal for tenant in {job.tenant for job in left} for refusal in await self.full_backlog(tenant)]
            by_tenant = {refusal.instance: refusal for refusal in full}
            refused |= {job.job_id: by_tenant[job.tenant] for job in left if job.tenant in by_tenant}
            left = [job for job in left if job.tenant not in by_tenant]
        return [refused.get(job.job_id) or await self._submit_answer(job, runs.get(job.job_id), known) for job in jobs]

    async def _insert_jobs(self, jobs: Sequence[NewJob]) -> dict[str, int]:
        """The jobs that could be made, each with its run."""
        statements, place = insertion(jobs)
        await failpoint.hit("submit.before")
        answers = await self._exchange(
            "submit",
            *statements,
            SYNC,
            signalled([ANYBODY]),
        )
        submitted = answers[place]
        await failpoint.hit("submit.after_commit")
        runs = {row["job_id"]: row["run"] for row in by_name(submitted)}
        if None in runs:
            await self.learn_defaults(jobs)
            raise DefaultsChanged("the defaults have changed since the definitions were resolved")
        return runs

    async def full_backlog(self, tenant: str) -> list[BacklogFull]:
        """The refusal of a tenant whose backlog is full; nothing for others."""
        rows = await self._fetch("backlog_of", tenant=tenant)
        return [_backlog_full(tenant, **row) for row in rows if row["open_jobs"] >= row["backlog"]]

    async def jobs_by_identity(self, jobs: Sequence[NewJob]) -> dict[tuple[str, str], dict[str, Any]]:
        """The newest jobs with the identities of these."""
        if not jobs:
            return {}
        parameters = {"tenant": texts(j.tenant for j in jobs), "identity": plain(j.identity for j in jobs)}
        rows = await self._fetch("jobs_by_identity", **parameters)
        return {(row["tenant"], row["identity"]): row for row in rows}

    async def _submit_answer(
        self, job: NewJob, made: int | None, known: dict[tuple[str, str], dict[str, Any]]
    ) -> SubmitAnswer:
        if made is not None:
            return SubmitAnswer(job.job_id, True, True, "pending", made, None, job.version)
        row = known[(job.tenant, job.identity)]
        result = orjson.loads(row["result"]) if row["result"] is not None else None
        if row["result_ref"] is not None:
            result = await value_or_name(self.payloads, row["job_id"], row["result_ref"])
        is_same = row["body_hash"] == job.body_hash
        return SubmitAnswer(
            row["job_id"], False, is_same, row["status"], row["run"], result, row["version"], row["definition_hash"]
        )

    def known_defaults(self, tenant: str) -> KnownDefaults:
        """The defaults of a tenant, as far as this process knows. `submit` refuses others."""
        return self._defaults.get(tenant, KnownDefaults())

    async def learn_defaults(self, jobs: Sequence[NewJob]) -> None:
        tenants = {job.tenant for job in jobs}
        (answer,) = await self._exchange("submit", (query("known_defaults"), {"tenant": texts(tenants)}))
        self._defaults |= dict.fromkeys(tenants, KnownDefaults())
        self._defaults |= {
            row["tenant"]: KnownDefaults(row["mark"], orjson.loads(row["values"])) for row in by_name(answer)
        }

    async def newest_definition(self, tenant: str, workflow_id: str) -> bytes | None:
        """The definition of that id that the tenant registered last, or None."""
        rows = await self._fetch("newest_definition", tenant=tenant, workflow_id=workflow_id)
        return rows[0]["definition"].encode() if rows else None

    async def register(
        self,
        tenant: str,
        definition: Definition,
        actor: str,
        origin: Origin = NOWHERE,
        apply: Decide | None = None,
    ) -> Registered:
        """Make a definition the current one of its id; `apply` changes the schedule of that name with it."""
        definition_hash = definition.hash()
        parameters = {
            "tenant": tenant,
            "definition_hash": definition_hash,
            "workflow_id": definition.workflow_id,
            "version": definition.version,
            "definition": definition.canonical_bytes().decode(),
            **origin.signed(actor),
        }
        text: list[Statement] = []
        if definition.text is not None:
            one = definition.text
            source = {"kind": one.kind, "name": one.name, "content": one.content}
            text = [(query("register_source"), {"tenant": tenant, "definition_hash": definition_hash, **source})]
        statements = [(query("register_definition"), parameters), *text]
        if apply is None:
            registered, *_ = await self._exchange("main", *statements)
            return Registered(**by_name(registered)[0])
        async with self.connections.use(ROLE) as connection, connection.transaction():
            # First the schedule, as in a tick: both lock its row before any other.
            name, action = definition.workflow_id, "schedule.register"
            schedule = await change_schedule(connection, tenant, name, action, apply, actor, origin)
            await failpoint.hit("register.scheduled")
            answers = [await connection.execute(statement, given) for statement, given in statements]
            return Registered(**by_name(await answer_of(answers[0]))[0], schedule=schedule)

    async def keep_plan(self, plan: PlanRow, definition: bytes) -> None:
        """Keep the plan of a correction, and the definition that it brings, until its owner carries it out."""
        await self._execute(
            "keep_plan",
            job=plan.job_id,
            plan=plan.plan_id,
            generation=plan.generation,
            last_seq=plan.last_seq,
            definition_hash=plan.definition_hash,
            version=orjson.loads(definition)["version"],
            definition=definition.decode(),
            inputs=orjson.dumps(plan.inputs).decode(),
            content=orjson.dumps(plan.content).decode(),
        )

    async def acknowledge(
        self, tenant: str, job_id: str, actor: str, reason: str, origin: Origin = NOWHERE
    ) -> AcknowledgementRow | None:
        """Note that a person has seen a failed or partial job; None if the tenant has no such job."""
        answer = await self._answer("acknowledge", tenant=tenant, job=job_id, reason=reason, **origin.signed(actor))
        return next(iter(records(AcknowledgementRow, answer)), None)

    async def send(
        self,
        job_id: str,
        kind: str,
        actor: str,
        reason: str,
        data: dict[str, Any] | None = None,
        *,
        tenant: str | None = None,
        origin: Origin = NOWHERE,
    ) -> int:
        """Put a person's signal into the inbox of a job, of that tenant if one is named; returns the signal's id."""
        given = signal_data(data, origin)
        what = {"job": job_id, "kind": kind, "reason": reason, "data": given, "tenant": tenant}
        rows = await self._fetch("send_signal", **what, **audit_of_verb(kind, data), **origin.signed(actor))
        if not rows:
            raise NotFound(
                f"There is no job '{job_id}'.", remedy=Remedy("List the jobs with", "status"), instance=job_id
            )
        await self._exchange("main", signalled([rows[0]["owner"]]))
        return int(rows[0]["id"])

    async def send_many(
        self, job_ids: Sequence[str], kind: str, actor: str, reason: str, *, tenant: str, origin: Origin = NOWHERE
    ) -> dict[int, str]:
        """Put the same signal into the inboxes of jobs that have not ended; returns the job of each signal."""
        data = signal_data(None, origin)
        what = {"jobs": plain(job_ids), "kind": kind, "reason": reason, "data": data, "tenant": tenant}
        rows = await self._fetch("send_signals", **what, **audit_of_verb(kind, None), **origin.signed(actor))
        await self._exchange("main", signalled(sorted({row["owner"] for row in rows})))
        return {int(row["id"]): row["job_id"] for row in rows}

    async def answers(self, signal_ids: Sequence[int]) -> dict[int, SignalAnswer]:
        """What the owners have answered so far to these signals."""
        rows = await self._fetch("answers", signals=plain(signal_ids))
        return {row["signal_id"]: SignalAnswer(row["applied"], row["reason"]) for row in rows}

    async def answer(self, signal_id: int, *, tenant: str | None = None) -> SignalAnswer | None:
        """What the owner answered to a signal, of that tenant if one is named; None while it has not."""
        answers = records(SignalAnswer, await self._answer("answer", signal_id=signal_id, tenant=tenant))
        return answers[0]._replace(remedy=remedy_of(answers[0].remedy)) if answers else None


def insertion(jobs: Sequence[NewJob]) -> tuple[list[Statement], int]:
    """The statements of one transaction that insert jobs, and which of them answers with their runs."""
    # Many jobs of one tenant and definition send it once.
    different = list({(j.tenant, j.definition_hash): j for j in jobs}.values())
    definitions = {
        "definition_hash": plain(j.definition_hash for j in different),
        "tenant": texts(j.tenant for j in different),
        "workflow_id": texts(j.workflow_id for j in different),
        "version": texts(j.version for j in different),
        "definition": jsons(j.definition for j in different),
    }
    rows = {
        "job_id": plain(j.job_id for j in jobs),
        "tenant": texts(j.tenant for j in jobs),
        "workflow_id": texts(j.workflow_id for j in jobs),
        "version": texts(j.version for j in jobs),
        "definition_hash": plain(j.pinned_hash for j in jobs),
        "identity": plain(j.identity for j in jobs),
        "body_hash": plain(j.body_hash for j in jobs),
        "inputs": jsons(j.inputs for j in jobs),
        "priority": plain(j.priority for j in jobs),
        "force": plain(j.force for j in jobs),
        # Null stands for jobs without labels, however many there are.
        "labels": jsons(j.labels for j in jobs) if any(j.labels for j in jobs) else None,
        # The same for marks.
        "correlation_id": _texts_or_null([j.correlation_id for j in jobs]),
        "callback_url": _texts_or_null([j.callback_url for j in jobs]),
        "submitter": _texts_or_null([j.submitter for j in jobs]),
        "notify": jsons(j.notify for j in jobs) if any(j.notify for j in jobs) else None,
        "request_id": _texts_or_null([j.request_id for j in jobs]),
        "traceparent": _texts_or_null([j.traceparent for j in jobs]),
        # Null stands for jobs that take any defaults.
        "defaults_mark": texts(j.defaults_mark for j in jobs),
    }
    first: list[Statement] = [
        (query("register_definitions"), definitions),
        *_resolved(jobs),
        (query("take_backlog_turn"), {"tenant": rows["tenant"]}),
    ]
    return [*first, (query("submit_jobs"), rows), *_external_ids(jobs), *_sources(jobs)], len(first)


def _backlog_full(tenant: str, *, backlog: int, open_jobs: int) -> BacklogFull:
    return BacklogFull(
        f"The backlog of tenant {tenant} is full: {_jobs(open_jobs)} open, and {backlog:,} may be.",
        remedy=Remedy(
            "Submit again when some of them have ended, or allow more with",
            "limits",
            flags=("set", "tenant", "--tenant", tenant, "--backlog", str(2 * backlog)),
        ),
        instance=tenant,
    )


def _resolved(jobs: Sequence[NewJob]) -> list[Statement]:
    """Stores the definitions that jobs pin and that are not the ones as written."""
    resolved = {job.resolved[0]: job for job in jobs if job.resolved is not None}
    if not resolved:
        return []
    rows = {
        "definition_hash": plain(resolved),
        "workflow_id": texts(job.workflow_id for job in resolved.values()),
        "version": texts(job.version for job in resolved.values()),
        "definition": jsons(job.pinned for job in resolved.values()),
    }
    return [(query("store_resolved"), rows)]


def _texts_or_null(values: Sequence[str | None]) -> str | None:
    return texts(values) if any(values) else None


def _external_ids(jobs: Sequence[NewJob]) -> list[Statement]:
    """Most jobs have none."""
    given = [job for job in jobs if job.external_ids]
    if not given:
        return []
    rows = {"job_id": plain(job.job_id for job in given), "external_ids": jsons(job.external_ids for job in given)}
    return [(query("write_external_ids"), rows)]


def _sources(jobs: Sequence[NewJob]) -> list[Statement]:
    """Jobs of one tenant and definition send its text once."""
    given = {(job.tenant, job.definition_hash): job.text for job in jobs if job.text is not None}
    if not given:
        return []
    rows = {
        "tenant": texts(tenant for tenant, _ in given),
        "definition_hash": plain(definition_hash for _, definition_hash in given),
        "kind": plain(one.kind for one in given.values()),
        "name": texts(one.name for one in given.values()),
        "content": texts(one.content for one in given.values()),
    }
    return [(query("write_sources"), rows)]


def _is_open(job: NewJob, found: dict[str, Any] | None) -> bool:
    """Whether a job that was not made has no answer yet: none is there, or it is forced and may have the next run."""
    return found is None or (job.force and found["body_hash"] == job.body_hash)


def _jobs(number: int) -> str:
    return "1 job is" if number == 1 else f"{number:,} jobs are"
