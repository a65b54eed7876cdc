"""The store on Postgres, outside an owner's cycle: submissions, leases of processes, claims, reports, sweeps."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
import psycopg

from holdfast import failpoint
from holdfast.core.breaking import Breaker
from holdfast.define.gates import BreakerRules
from holdfast.errors import BacklogFull, NotFound
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.breakers import breaker_of, rules_of
from holdfast.store.columns import by_name, records
from holdfast.store.connection import SYNC, Answer, Connections, Statement
from holdfast.store.cycle import PostgresCycle
from holdfast.store.dangers import Dangers
from holdfast.store.interface import (
    Handover,
    ItemResult,
    JobFacts,
    Lease,
    NewJob,
    OpenedGates,
    Report,
    SignalAnswer,
    SubmitAnswer,
    WorkerIdentity,
)
from holdfast.store.lanes import LaneIds
from holdfast.store.leases import Held, in_lock_order
from holdfast.store.listener import ANYBODY, SIGNAL
from holdfast.store.outage import unreachable
from holdfast.store.payloads import LIMIT_BYTES, Payloads, value_or_name
from holdfast.store.queries import query
from holdfast.store.work import (
    LEASE_SLACK_SECONDS,
    accepted_in,
    claim_statement,
    held_columns,
    leases_of,
    report_statement,
)
from holdfast.version import __version__

OnLocked = Callable[[Report], None]

PAGE_BYTES = 1024 * 1024
"""Where a page of results ends, however few they are."""


class PostgresStore:
    """Keeps the promises of `interface.Store`. One per process; safe within one event loop."""

    def __init__(
        self,
        url: str,
        name: str = "holdfast",
        lease_seconds: float | None = None,
        payloads: Payloads | None = None,
    ) -> None:
        """Without `payloads` every value stays in its row, and those that do not are out of reach."""
        self.payloads = payloads
        self.connections = Connections(url, name, lease_seconds)
        self._lanes = LaneIds(self.connections)

    async def close(self) -> None:
        await self.connections.close()

    @property
    def payload_limit_bytes(self) -> int:
        """How large a value may be at most."""
        return self.payloads.limit_bytes if self.payloads is not None else LIMIT_BYTES

    def _draw_id(self) -> int:
        """An id that no other process has, nor had in what a failover or a restore has lost; exact in every JSON."""
        return 1 + secrets.randbelow(2**48)

    def cycle(self, orchestrator_id: int) -> PostgresCycle:
        return PostgresCycle(self.connections, orchestrator_id, self._lanes, self.payloads)

    # Submissions and signals

    async def submit(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer]:
        """Insert jobs whose identity is free, and forced ones; an equal submission answers with the newest job."""
        runs: dict[str, int] = {}
        known: dict[tuple[str, str], dict[str, Any]] = {}
        left = jobs
        while left:
            runs |= await self._insert_jobs(left)
            left = [job for job in left if job.job_id not in runs]
            found = await self._jobs_by_identity(left)
            known |= found
            left = [job for job in left if _is_open(job, found.get((job.tenant, job.identity)))]
            if left:
                # Else the limit was lifted, the job was pruned, or its number was taken, in between.
                await self._refuse_if_full(left[0].tenant)
        return [await self._submit_answer(job, runs.get(job.job_id), known) for job in jobs]

    async def _insert_jobs(self, jobs: Sequence[NewJob]) -> dict[str, int]:
        """The jobs that could be made, each with its run."""
        definitions = {
            "definition_hash": plain(j.definition_hash for j in jobs),
            "tenant": texts(j.tenant for j in jobs),
            "workflow_id": texts(j.workflow_id for j in jobs),
            "version": texts(j.version for j in jobs),
            "definition": jsons(j.definition for j in jobs),
        }
        rows = {
            "job_id": plain(j.job_id for j in jobs),
            "tenant": definitions["tenant"],
            "workflow_id": definitions["workflow_id"],
            "version": definitions["version"],
            "definition_hash": definitions["definition_hash"],
            "identity": plain(j.identity for j in jobs),
            "body_hash": plain(j.body_hash for j in jobs),
            "inputs": jsons(j.inputs for j in jobs),
            "priority": plain(j.priority for j in jobs),
            "force": plain(j.force for j in jobs),
        }
        if len({j.definition_hash for j in jobs}) == 1:
            definitions = {**definitions, **_first_definition(jobs[0])}
        await failpoint.hit("submit.before")
        *_, submitted, _ = await self._exchange(
            "submit",
            (query("register_definitions"), definitions),
            (query("take_backlog_turn"), {"tenant": rows["tenant"]}),
            (query("submit_jobs"), rows),
            SYNC,
            _signalled([ANYBODY]),
        )
        await failpoint.hit("submit.after_commit")
        return dict(submitted.rows)

    async def _refuse_if_full(self, tenant: str) -> None:
        for row in await self._fetch("backlog_of", tenant=tenant):
            backlog, open_jobs = row["backlog"], row["open_jobs"]
            if open_jobs < backlog:
                continue
            raise BacklogFull(
                f"The backlog of tenant {tenant} is full: {_jobs(open_jobs)} open, and {backlog:,} may be.",
                remedy="Submit again when some of them have ended, or allow more with: "
                f"holdfast limits set tenant --tenant {tenant} --backlog {2 * backlog}",
                instance=tenant,
            )

    async def _jobs_by_identity(self, jobs: Sequence[NewJob]) -> dict[tuple[str, str], dict[str, Any]]:
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
        return SubmitAnswer(row["job_id"], False, is_same, row["status"], row["run"], result, row["version"])

    async def definition(self, definition_hash: str) -> bytes:
        """The canonical JSON of a definition that some job has pinned."""
        rows = await self._fetch("definition", hash=definition_hash)
        if not rows:
            raise NotFound(f"There is no definition {definition_hash[:12]} in the database.")
        return bytes(rows[0]["definition"].encode())

    async def newest_definition(self, tenant: str, workflow_id: str) -> bytes | None:
        """The definition of that id that was registered last, or None."""
        rows = await self._fetch("newest_definition", tenant=tenant, workflow_id=workflow_id)
        return rows[0]["definition"].encode() if rows else None

    async def send(
        self,
        job_id: str,
        kind: str,
        actor: str,
        reason: str,
        data: dict[str, Any] | None = None,
        *,
        tenant: str | None = None,
    ) -> int:
        """Put a person's signal into the inbox of a job, of that tenant if one is named; returns the signal's id."""
        given = orjson.dumps(data).decode() if data is not None else None
        rows = await self._fetch(
            "send_signal", job=job_id, kind=kind, actor=actor, reason=reason, data=given, tenant=tenant
        )
        if not rows:
            raise NotFound(f"There is no job {job_id}.", remedy="List the jobs with: holdfast status")
        await self._exchange("main", _signalled([rows[0]["owner"]]))
        return int(rows[0]["id"])

    async def answer(self, signal_id: int, *, tenant: str | None = None) -> SignalAnswer | None:
        """What the owner answered to a signal, of that tenant if one is named; None while it has not."""
        answers = records(SignalAnswer, await self._answer("answer", signal_id=signal_id, tenant=tenant))
        return answers[0] if answers else None

    # Orchestrators

    async def register_orchestrator(self, name: str, lease_seconds: float, only_job: str | None = None) -> int:
        await self._execute("lower_floors")
        drawn = self._draw_id()
        given = {"id": drawn, "name": name, "version": __version__, "lease": lease_seconds, "only_job": only_job}
        await self._execute("register_orchestrator", **given)
        return drawn

    async def renew_orchestrator(self, orchestrator_id: int, lease_seconds: float) -> bool:
        """False if the row was ended by someone else: everything that was owned is lost."""
        return await self._execute("renew_orchestrator", me=orchestrator_id, lease=lease_seconds) == 1

    async def end_orchestrator(self, orchestrator_id: int) -> None:
        """Hand everything over at once."""
        await self._execute("end_orchestrator", me=orchestrator_id)
        await self.notify_orchestrators()

    async def take_over(self, orchestrator_id: int, limit: int) -> dict[str, str]:
        """End orchestrators whose lease has run out and take up to `limit` of the jobs of ended ones."""
        await self._execute("end_lapsed_orchestrators", me=orchestrator_id)
        rows = await self._fetch("take_jobs", me=orchestrator_id, limit=limit)
        return {row["job_id"]: row["former_owner"] for row in rows}

    async def dangers(self, patience_seconds: float) -> Dangers:
        """Note the jobs in whose cycles orchestrators died, and return all that are known."""
        await self._execute("blame_open_cycles")
        (row,) = await self._fetch("dangers", patience=patience_seconds)
        return Dangers(row["are_near"], orjson.loads(row["deaths"] or b"{}"))

    async def note_open_cycle(self, orchestrator_id: int, job_ids: Sequence[str]) -> None:
        """The jobs of a cycle that is about to be decided, for those who come after if we die of it."""
        await self._execute("note_open_cycle", me=orchestrator_id, jobs=plain(job_ids))

    async def forget_open_cycle(self, orchestrator_id: int) -> None:
        """The cycle came to nothing, and we live."""
        await self._execute("forget_open_cycle", me=orchestrator_id)

    async def is_locked_out(self, orchestrator_id: int) -> bool:
        """Whether another session keeps this orchestrator's own row locked: no cycle can begin."""
        return not await self._fetch("own_row", me=orchestrator_id)

    async def inherit(self, orchestrator_id: int, former: int, limit: int) -> dict[str, str]:
        """Take up to `limit` of the jobs of an orchestrator that this process was: its row cannot be ended just now."""
        rows = await self._fetch("inherit_jobs", me=orchestrator_id, former=former, limit=limit)
        return {row["job_id"]: row["former_owner"] for row in rows}

    async def set_aside(self, job_id: str, orchestrator_id: int, problem: str) -> None:
        """Tell people why nothing happens with a job."""
        await self._execute("set_aside", job=job_id, me=orchestrator_id, problem=problem)

    async def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        """Make breakers known; one that exists keeps its state."""
        await self._execute(
            "declare_breakers",
            name=texts(rules.name for rules in breakers),
            settings=jsons(rules.to_json() for rules in breakers),
            probes=plain(rules.probes for rules in breakers),
        )

    async def breaker(self, name: str) -> Breaker | None:
        """A breaker as it is now, for a handler that is about to call its dependency."""
        rows = await self._fetch("read_breaker", name=name)
        return breaker_of(rows[0]) if rows else None

    async def claim_probe(self, handlers: Sequence[str], seconds: float) -> BreakerRules | None:
        """A breaker whose probe is due and that no other worker probes; it is ours for this many seconds."""
        rows = await self._fetch("claim_probe", handlers=texts(handlers), seconds=seconds)
        return rules_of(rows[0]) if rows else None

    async def probed(self, name: str, problem: str | None) -> None:
        """The result of a probe: if nothing is wrong the first tasks may try, else the cooldown begins again."""
        changed = await self._execute("probed", name=name, problem=problem)
        if changed and problem is None:
            await self.notify_workers()

    async def open_gates(self) -> OpenedGates:
        """Let breakers be tried whose cooldown is over."""
        tried, waits, shut = await self._exchange(
            "main",
            (query("let_breakers_try"), {}),
            SYNC,
            (query("limited_work_waits"), {}),
            (query("shut_breakers"), {}),
        )
        may_find = tried.row_count > 0 or by_name(waits)[0]["waits"]
        if may_find:
            await self.notify_workers()
        return OpenedGates(may_find, dict(shut.rows))

    async def sweep_inbox(self) -> int:
        """Hand signals whose owner is dead or changed to the right one; returns how many."""
        return await self._execute("sweep_inbox")

    async def raise_floors(self) -> int:
        """Let claims begin where the lanes that this process fills have something ready; returns how many moved."""
        lanes = self._lanes.recently_used()
        if not lanes:
            return 0
        newest = (await self._fetch("newest_queue_id"))[0]["last_value"]
        return await self._execute("raise_floors", lanes=plain(lanes), newest=newest)

    async def wake_due(self) -> int:
        """Make queue rows claimable whose time has come."""
        woken = await self._execute("wake_due")
        if woken:
            await self.notify_workers()
        return woken

    async def follow_clock(self, lease_seconds: float) -> int:
        """Bring what a clock that has stepped back would hold for long nearer; returns how many rows that were.

        Each is a transaction of its own, so that none waits for a lock while it has another.
        """
        answers = await self._exchange(
            "main",
            (query("follow_clock_leaders"), {"lease": lease_seconds}),
            SYNC,
            (query("follow_clock_workers"), {}),
            SYNC,
            (query("follow_clock_orchestrators"), {}),
            SYNC,
            (query("follow_clock_queue"), {"slack": LEASE_SLACK_SECONDS}),
            SYNC,
            (query("follow_clock_breakers"), {}),
            SYNC,
            (query("follow_clock_limits"), {}),
        )
        return sum(answer.row_count for answer in answers)

    async def expire(self) -> int:
        """Turn leases that ran out, and rows that waited past their limit, into reports; returns how many."""
        rows = await self._fetch("lapsed_workers")
        if not rows[0]["are_there"]:
            return 0
        expired = await self._execute("expire_leases", run=uuid.uuid4()) + await self._execute("expire_queued")
        await self._execute("end_lapsed_workers")
        if expired:
            await self.notify_orchestrators()
        return expired

    # Workers

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        drawn = self._draw_id()
        await self._execute(
            "register_worker",
            id=drawn,
            name=name,
            version=__version__,
            queues=texts(queues) if queues is not None else None,
            handlers=texts(handlers),
            concurrency=concurrency,
            lease=lease_seconds,
        )
        return WorkerIdentity(drawn, name)

    async def renew_worker(
        self, worker: WorkerIdentity, lease_seconds: float, held: Sequence[Held]
    ) -> list[Held] | None:
        """Those of the held leases that are still ours; None if the worker itself was declared gone."""
        await failpoint.hit("renew.before")
        renewed = await self._execute("renew_worker", me=worker.worker_id, lease=lease_seconds)
        await failpoint.hit("renew.after")
        if renewed == 0:
            return None
        if not held:
            return []
        rows = await self._fetch("still_held", me=worker.worker_id, **held_columns(held))
        return [(row["job_id"], row["node"], row["item"], row["epoch"]) for row in rows]

    async def cancelled_among(self, held: Sequence[Held]) -> list[Held]:
        """Those of the leases whose job was cancelled by a person."""
        if not held:
            return []
        rows = await self._fetch("cancelled_among", **held_columns(held))
        return [(row["job_id"], row["node"], row["item"], row["epoch"]) for row in rows]

    async def begin_late(self, worker: WorkerIdentity, held: Held) -> bool:
        """Whether a task that was claimed some time ago may begin now; then its time runs from now on."""
        job_id, node, item, epoch = held
        key = {"job": job_id, "node": node, "item": item, "epoch": epoch}
        return await self._execute("begin_late", me=worker.worker_id, slack=LEASE_SLACK_SECONDS, **key) == 1

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[Held]) -> int:
        """Give back the leases of this worker that it does not hold. None of its claims may be under way."""
        released = await self._execute("release_strays", me=worker.worker_id, worker=worker.name, **held_columns(held))
        if released:
            await self.notify_orchestrators()
        return released

    async def save_progress(self, worker: WorkerIdentity, progress: Sequence[tuple[Held, bytes]]) -> None:
        """Show how far attempts have come; fenced like every write of a worker."""
        columns = held_columns([held for held, _ in progress])
        await self._execute("save_progress", me=worker.worker_id, progress=jsons(p for _, p in progress), **columns)

    async def end_worker(self, worker: WorkerIdentity) -> None:
        await self._execute("end_worker", me=worker.worker_id)

    async def report(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        """Hand in reports; those whose lease is no longer held change nothing. Returns how many were taken.

        One that was accepted before counts, too: its answer was lost, and it is sent again. `on_locked` gets those
        whose lease another session keeps locked: they can be handed in again.
        """
        if not reports:
            return 0
        reports = in_lock_order(reports)
        (accepted,) = await self._exchange("main", report_statement(worker, reports))
        await self._exchange("main", _signalled({report.owner for report in reports}))
        return await self._taken(worker, reports, accepted, on_locked)

    async def _taken(
        self, worker: WorkerIdentity, reports: Sequence[Report], answer: Answer, on_locked: OnLocked
    ) -> int:
        """How many were accepted; the others leave a trace, each in its job, or can be handed in again."""
        accepted = accepted_in(answer)
        left = [report for number, report in enumerate(reports) if number not in accepted]
        return len(reports) - await self.reject(worker, left, on_locked)

    async def reject(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        """Reports that are not taken leave a trace, unless they were taken before, or can be handed in again.

        Returns how many were not taken.
        """
        if not reports:
            return 0
        (answer,) = await self._exchange("main", report_statement(worker, reports, "reject"))
        (row,) = by_name(answer)
        locked = row["locked"] or ()
        for number in locked:
            on_locked(reports[number])
        if row["rejected"]:
            await self.notify_orchestrators()
        return len(locked) + int(row["rejected"])

    async def claim(
        self,
        worker: WorkerIdentity,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
    ) -> list[Lease]:
        """Lease up to `limit` tasks by priority, rank and age."""
        claim = claim_statement(Handover(worker, (), queues, handlers, limit))
        return leases_of((await self._exchange("main", claim))[0])

    async def report_and_claim(
        self,
        worker: WorkerIdentity,
        reports: Sequence[Report],
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
        slots: int | None = None,
        on_locked: OnLocked = lambda report: None,
    ) -> tuple[int, list[Lease]]:
        """Both in one round trip; each is a transaction of its own."""
        claim = claim_statement(Handover(worker, (), queues, handlers, limit, slots))
        await failpoint.hit("claim.before")
        if not reports:
            (claimed,) = await self._exchange("work", claim)
            return 0, await self._leased(claimed)
        reports = in_lock_order(reports)
        report = report_statement(worker, reports)
        wake = _signalled({report.owner for report in reports})
        await failpoint.hit("report.before")
        accepted, _, claimed = await self._exchange("work", report, SYNC, wake, SYNC, claim)
        await failpoint.hit("report.after_commit")
        number = await self._taken(worker, reports, accepted, on_locked)
        return number, await self._leased(claimed)

    @staticmethod
    async def _leased(claimed: Answer) -> list[Lease]:
        if claimed.rows:
            await failpoint.hit("claim.after_commit")
        return leases_of(claimed)

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        """What handlers may ask of these jobs."""
        answer = await self._answer("job_facts", jobs=plain(job_ids))
        return {row["job_id"]: facts for row, facts in zip(by_name(answer), records(JobFacts, answer), strict=True)}

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        """The next completed items between `after` and `until`; None: there is no such node, or it has not ended."""
        rows = await self._fetch(
            "results_page", job=job_id, node=node, after=after, until=until, limit=limit, bytes=PAGE_BYTES
        )
        if not rows or not rows[0]["has_ended"]:
            return None
        return [
            ItemResult(row["item"], row["output"].encode() if row["output"] is not None else None, row["output_ref"])
            for row in rows
            if row["item"] is not None
        ]

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        """Keep a checkpoint if the lease is still held."""
        await failpoint.hit("checkpoint.before")
        saved = await self._execute(
            "save_checkpoint",
            me=worker.worker_id,
            job=lease.job_id,
            node=lease.node,
            item=lease.item,
            epoch=lease.epoch,
            seq=seq,
            name=name,
            data=data.decode(),
        )
        await failpoint.hit("checkpoint.after")
        return saved == 1

    # Wake-ups go out after the commit of what they speak of; a lost one is covered by polling.

    async def notify_orchestrators(self) -> None:
        """All of them, when it is not known whose signals these are."""
        await self._exchange("main", _signalled([]))

    async def notify_workers(self) -> None:
        await failpoint.hit("notify.before")
        await self._exchange("main", (b"notify holdfast_task", {}))

    async def _fetch(self, statement: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return by_name(await self._answer(statement, **parameters))

    async def _answer(self, statement: str, /, **parameters: Any) -> Answer:
        return (await self._exchange("main", (query(statement), parameters)))[0]

    async def _execute(self, statement: str, /, **parameters: Any) -> int:
        return (await self._exchange("main", (query(statement), parameters)))[0].row_count

    async def _exchange(self, role: str, *statements: Statement | None) -> list[Answer]:
        try:
            return await self.connections.exchange(role, *statements)
        except psycopg.OperationalError as error:
            raise unreachable(self.connections.url, error) from None


def _signalled(owners: Iterable[int]) -> Statement:
    """Wakes those orchestrators; none named: all of them. Each that wakes in vain costs two round trips."""
    return query("notify"), {"channel": SIGNAL, "payload": ",".join(map(str, sorted(owners)))}


def _first_definition(job: NewJob) -> dict[str, str]:
    """Many jobs of one definition send it once."""
    return {
        "definition_hash": plain([job.definition_hash]),
        "tenant": texts([job.tenant]),
        "workflow_id": texts([job.workflow_id]),
        "version": texts([job.version]),
        "definition": jsons([job.definition]),
    }


def _is_open(job: NewJob, found: dict[str, Any] | None) -> bool:
    """Whether a job that was not made has no answer yet: none is there, or it is forced and may have the next run."""
    return found is None or (job.force and found["body_hash"] == job.body_hash)


def _jobs(number: int) -> str:
    return "1 job is" if number == 1 else f"{number:,} jobs are"
