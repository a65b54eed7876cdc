"""Brings a store into a state through its own interface, and lets leases expire without waiting for a clock."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import orjson
from psycopg import sql

from holdfast.core.effects import CreateTasks, Emit, EnqueueTasks, FinishTask, Lane, Notice, RetryTask
from holdfast.core.failing import failure
from holdfast.store.batch import Batch, JobUpdate
from holdfast.store.gates import PostgresGates
from holdfast.store.interface import Store
from holdfast.store.postgres import PostgresStore
from holdfast.store.records import (
    JobRow,
    Lease,
    NewJob,
    NodeRow,
    Opened,
    Report,
    SignalRow,
    SubmitAnswer,
    WorkerIdentity,
)
from tests.simulation.database import Database, with_failure
from tests.simulation.gates import pause_queue, unpause_queue
from tests.simulation.store import ModelStore

LEASE_SECONDS = 60.0
LANE = Lane("default", "work")
DEFINITION = b'{"workflow_id": "w"}'
ERROR = failure("CANCELLED", "the job was cancelled", permanent=False, at=1_000_000.0)
"""The error with which the withdrawals of these scenarios end tasks."""


class Backstage(Protocol):
    """What the interface does not offer: more processes, times that have passed, a look at the rows."""

    def another_store(self) -> Store: ...

    async def lapse_orchestrator(self, orchestrator_id: int) -> None: ...

    async def lapse_worker(self, worker: WorkerIdentity) -> None: ...

    async def lose_last_commit(self, orchestrator_id: int) -> None: ...

    async def lose_orchestrator(self, orchestrator_id: int) -> None: ...

    async def end_suddenly(self, orchestrator_id: int) -> None: ...

    async def pass_deadline(self, lease: Lease) -> None: ...

    async def pass_due_time(self, job_id: str) -> None: ...

    async def end_earlier(self, job_id: str, node: str, item: int, seconds: float) -> None: ...

    async def step_back(self, seconds: float) -> None: ...

    async def delete_worker(self, worker: WorkerIdentity) -> None: ...

    async def delete_orchestrator(self, orchestrator_id: int) -> None: ...

    async def pause_queue(self, queue: str) -> None: ...

    async def unpause_queue(self, queue: str) -> None: ...

    async def waits(self, job_id: str) -> float: ...

    async def task(self, job_id: str, node: str, item: int) -> dict[str, Any]: ...

    async def queue(self, job_id: str) -> list[dict[str, Any]]: ...

    async def inbox(self, job_id: str) -> list[dict[str, Any]]: ...

    async def events(self, job_id: str) -> list[tuple[int, str]]: ...

    async def outbox(self, job_id: str) -> list[Notice]: ...

    async def tell_of(self, tenant: str, events: Sequence[str]) -> None: ...

    async def attempts(self, job_id: str) -> list[tuple[str, int, int, int, str, str]]: ...

    async def job_owner(self, job_id: str) -> tuple[int | None, int]: ...

    async def previous(self, job_id: str) -> str | None: ...


class PostgresBackstage:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.others: list[PostgresStore] = []

    def another_store(self) -> PostgresStore:
        self.others.append(PostgresStore(self._store.connections.url))
        return self.others[-1]

    async def close(self) -> None:
        for store in self.others:
            await store.close()

    async def _run(self, statement: bytes, *parameters: Any) -> list[tuple[Any, ...]]:
        async with self._store.connections.use("stage") as connection:
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def lapse_orchestrator(self, orchestrator_id: int) -> None:
        await self._run(
            b"update orchestrators set lease_until = now() - interval '1 s' where orchestrator_id = %s", orchestrator_id
        )

    async def lapse_worker(self, worker: WorkerIdentity) -> None:
        await self._run(
            b"update workers set lease_until = now() - interval '1 s' where worker_id = %s", worker.worker_id
        )

    async def lose_last_commit(self, orchestrator_id: int) -> None:
        await self._run(b"update last_commits set mark = mark / 2 where orchestrator_id = %s", orchestrator_id)

    async def lose_orchestrator(self, orchestrator_id: int) -> None:
        await self._run(b"delete from orchestrators where orchestrator_id = %s", orchestrator_id)

    async def end_suddenly(self, orchestrator_id: int) -> None:
        await self._run(b"update orchestrators set ended_at = now() where orchestrator_id = %s", orchestrator_id)

    async def pass_deadline(self, lease: Lease) -> None:
        await self._run(
            b"update queue set deadline_at = now() - interval '1 s' where job_id = %s and node = %s and item = %s",
            *lease[:3],
        )

    async def pass_due_time(self, job_id: str) -> None:
        await self._run(b"update queue set due_at = now() - interval '1 s' where job_id = %s", job_id)

    async def delete_worker(self, worker: WorkerIdentity) -> None:
        await self._run(b"delete from workers where worker_id = %s", worker.worker_id)

    async def delete_orchestrator(self, orchestrator_id: int) -> None:
        await self._run(b"delete from orchestrators where orchestrator_id = %s", orchestrator_id)

    async def step_back(self, seconds: float) -> None:
        """Moves all times in the rows into the future, as if the database's clock had been set back."""
        columns = await self._run(
            b"select table_name, array_agg(column_name) from information_schema.columns where table_schema = 'holdfast'"
            b" and data_type = 'timestamp with time zone' and table_name <> 'migrations'"
            b" and table_name in (select tablename from pg_tables where schemaname = 'holdfast') group by table_name"
        )
        for table, names in columns:
            moved = sql.SQL(", ").join(
                sql.SQL("{0} = {0} + make_interval(secs => {1})").format(sql.Identifier(name), seconds)
                for name in names.strip("{}").split(",")
            )
            await self._run(sql.SQL("update {} set {}").format(sql.Identifier(table), moved).as_bytes(None))

    async def pause_queue(self, queue: str) -> None:
        assert await PostgresGates(self._store).pause_queue(queue, "someone", "as staged") is not None

    async def unpause_queue(self, queue: str) -> None:
        assert await PostgresGates(self._store).unpause_queue(queue, "someone") is not None

    async def waits(self, job_id: str) -> float:
        rows = await self._run(
            b"select extract(epoch from due_at - now())::float8 from queue where job_id = %s", job_id
        )
        return float(rows[0][0])

    async def end_earlier(self, job_id: str, node: str, item: int, seconds: float) -> None:
        await self._run(
            b"update tasks set finished_at = finished_at - make_interval(secs => %s)"
            b" where job_id = %s and node = %s and item = %s",
            seconds,
            job_id,
            node,
            item,
        )

    async def task(self, job_id: str, node: str, item: int) -> dict[str, Any]:
        rows = await self._run(
            b"select status, epoch, attempt, output, error, retry_count, lost_count, crash_count, undo from tasks"
            b" where job_id = %s and node = %s and item = %s",
            job_id,
            node,
            item,
        )
        names = ("status", "epoch", "attempt", "output", "error", "retries", "lost", "crashes", "undo")
        return with_failure(dict(zip(names, rows[0], strict=True)))

    async def queue(self, job_id: str) -> list[dict[str, Any]]:
        rows = await self._run(
            b"select node, item, epoch, attempt, state, suspect from queue where job_id = %s order by node, item",
            job_id,
        )
        return [dict(zip(("node", "item", "epoch", "attempt", "state", "suspect"), row, strict=True)) for row in rows]

    async def inbox(self, job_id: str) -> list[dict[str, Any]]:
        rows = await self._run(b"select owner, kind, outcome from inbox where job_id = %s order by id", job_id)
        return [dict(zip(("owner", "kind", "outcome"), row, strict=True)) for row in rows]

    async def events(self, job_id: str) -> list[tuple[int, str]]:
        rows = await self._run(b"select seq, event from events where job_id = %s order by seq", job_id)
        return [(row[0], row[1]) for row in rows]

    async def outbox(self, job_id: str) -> list[Notice]:
        rows = await self._run(
            b"select tenant, job_id::text, workflow_id, node, event, generation, seq, count, items, data, rules"
            b" from outbox where job_id = %s order by seq",
            job_id,
        )
        return [Notice(*row) for row in rows]

    async def tell_of(self, tenant: str, events: Sequence[str]) -> None:
        await self._run(
            b"insert into webhooks (tenant, name, url, events, secret, created_by)"
            b" values (%s, 'pager', 'https://x', %s, 's', 'someone')",
            tenant,
            [*events],
        )

    async def attempts(self, job_id: str) -> list[tuple[str, int, int, int, str, str]]:
        return await self._run(
            b"select node, item, attempt, epoch, outcome, worker from attempts where job_id = %s order by 1, 2, 3",
            job_id,
        )

    async def job_owner(self, job_id: str) -> tuple[int | None, int]:
        return (await self._run(b"select owner, epoch from jobs where job_id = %s", job_id))[0]

    async def previous(self, job_id: str) -> str | None:
        rows = await self._run(b"select previous::text from jobs where job_id = %s", job_id)
        return rows[0][0]  # type: ignore[no-any-return]


class ModelBackstage:
    def __init__(self, database: Database) -> None:
        self._db = database

    def another_store(self) -> ModelStore:
        return ModelStore(self._db)

    async def close(self) -> None:
        pass

    async def lapse_orchestrator(self, orchestrator_id: int) -> None:
        self._db.orchestrators[orchestrator_id]["until"] = self._db.now - 1

    async def lapse_worker(self, worker: WorkerIdentity) -> None:
        self._db.workers[worker.worker_id]["until"] = self._db.now - 1

    async def lose_last_commit(self, orchestrator_id: int) -> None:
        self._db.marks[orchestrator_id] -= 1

    async def lose_orchestrator(self, orchestrator_id: int) -> None:
        del self._db.orchestrators[orchestrator_id]

    async def end_suddenly(self, orchestrator_id: int) -> None:
        self._db.orchestrators[orchestrator_id]["ended"] = True

    async def pass_deadline(self, lease: Lease) -> None:
        self._db.queue[(lease.job_id, lease.node, lease.item)]["deadline_at"] = self._db.now - 1

    async def pass_due_time(self, job_id: str) -> None:
        for key, row in self._db.queue.items():
            if key[0] == job_id:
                row["due_at"] = self._db.now - 1

    async def delete_worker(self, worker: WorkerIdentity) -> None:
        del self._db.workers[worker.worker_id]

    async def delete_orchestrator(self, orchestrator_id: int) -> None:
        del self._db.orchestrators[orchestrator_id]

    async def step_back(self, seconds: float) -> None:
        self._db.step_back(seconds)

    async def pause_queue(self, queue: str) -> None:
        pause_queue(self._db, queue)

    async def unpause_queue(self, queue: str) -> None:
        unpause_queue(self._db, queue)

    async def waits(self, job_id: str) -> float:
        (row,) = (row for key, row in self._db.queue.items() if key[0] == job_id)
        return float(row["due_at"] - self._db.now)

    async def end_earlier(self, job_id: str, node: str, item: int, seconds: float) -> None:
        self._db.tasks[job_id][(node, item)]["finished_at"] -= seconds

    async def task(self, job_id: str, node: str, item: int) -> dict[str, Any]:
        return dict(self._db.tasks[job_id][(node, item)])

    async def queue(self, job_id: str) -> list[dict[str, Any]]:
        return [
            {"node": key[1], "item": key[2], **row} for key, row in sorted(self._db.queue.items()) if key[0] == job_id
        ]

    async def inbox(self, job_id: str) -> list[dict[str, Any]]:
        rows = [row for _, row in sorted(self._db.inbox.items()) if row["job_id"] == job_id]
        return [{"owner": row["owner"], "kind": row["kind"], "outcome": row.get("outcome")} for row in rows]

    async def events(self, job_id: str) -> list[tuple[int, str]]:
        return [(event[0], event[1]) for event in self._db.events[job_id]]

    async def outbox(self, job_id: str) -> list[Notice]:
        return sorted(self._db.outbox[job_id], key=lambda row: row.seq)

    async def tell_of(self, tenant: str, events: Sequence[str]) -> None:
        self._db.subscriptions[tenant] = frozenset(events)

    async def attempts(self, job_id: str) -> list[tuple[str, int, int, int, str, str]]:
        return sorted((*key[1:], *row) for key, *row in self._db.withdrawn if key[0] == job_id)  # type: ignore[misc]

    async def job_owner(self, job_id: str) -> tuple[int | None, int]:
        return self._db.jobs[job_id]["owner"], self._db.jobs[job_id]["epoch"]

    async def previous(self, job_id: str) -> str | None:
        return self._db.jobs[job_id]["previous"]  # type: ignore[no-any-return]


class Stage:
    """A store, its backstage, and the steps that many scenarios begin with."""

    def __init__(self, store: Store, backstage: Backstage) -> None:
        self.store = store
        self.behind = backstage

    async def submit(self, identity: str = "", body: str = "body", priority: int = 0, **inputs: Any) -> SubmitAnswer:
        return (await self.store.submit([new_job(identity, body, priority, **inputs)]))[0]

    async def orchestrator(self, name: str = "orchestrator") -> int:
        return await self.store.register_orchestrator(name, LEASE_SECONDS)

    async def worker(self, name: str = "worker", handlers: Sequence[str] = ("work",)) -> WorkerIdentity:
        return await self.store.register_worker(name, None, list(handlers), 4, LEASE_SECONDS)

    async def own(self, me: int, claim_limit: int = 100) -> Opened:
        """Run one cycle that claims unowned jobs and handles all signals that it has read."""
        cycle = self.store.cycle(me)
        opened = await cycle.open(claim_limit, 100)
        open_jobs = [row for row in opened.claimed if row.status in ("pending", "running")]
        await cycle.commit(Batch(handled=[s.id for s in opened.signals], jobs=[owned(row, me) for row in open_jobs]))
        return opened

    async def owned_job(self, me: int, **submission: Any) -> str:
        job_id = (await self.submit(**submission)).job_id
        assert job_id in {row.job_id for row in (await self.own(me)).claimed}
        return job_id

    async def commit(self, me: int, batch: Batch) -> Opened:
        cycle = self.store.cycle(me)
        opened = await cycle.open(100, 100)
        await cycle.commit(batch)
        return opened

    async def enqueue(
        self, me: int, job_id: str, node: str = "n", items: Iterable[int] = (-1,), **options: Any
    ) -> None:
        """Make tasks and queue them, as one range."""
        numbers = sorted(items)
        tasks = [new_task(job_id, node, item, {"item": item}) for item in numbers]
        enqueued = enqueue_write(job_id, node, numbers[0], numbers[-1], **options)
        await self.commit(me, Batch(tasks=tasks, enqueued=[enqueued]))

    async def leased(self, me: int, job_id: str, worker: WorkerIdentity, **options: Any) -> Lease:
        await self.enqueue(me, job_id, **options)
        return (await self.claim(worker))[0]

    async def claim(self, worker: WorkerIdentity, limit: int = 100) -> list[Lease]:
        return await self.store.claim(worker, None, ["work"], limit)

    async def signals(self, me: int) -> list[SignalRow]:
        """The signals that wait for this owner; they stay unhandled."""
        cycle = self.store.cycle(me)
        opened = await cycle.open(100, 100)
        await cycle.rollback()
        return opened.signals


def new_job(
    identity: str = "", body: str = "body", priority: int = 0, tenant: str = "default", **inputs: Any
) -> NewJob:
    return NewJob(
        job_id=str(uuid.uuid4()),
        tenant=tenant,
        workflow_id="w",
        version="1",
        definition_hash="d" * 64,
        definition=DEFINITION,
        identity=identity or uuid.uuid4().hex,
        body_hash=body,
        inputs=inputs,
        priority=priority,
    )


def forced(identity: str = "", body: str = "body") -> NewJob:
    return new_job(identity, body)._replace(force=True)


def owned(row: JobRow, owner: int | None, **changes: Any) -> JobUpdate:
    """A write of the row that changes only its owner and its epoch."""
    unchanged = {name: getattr(row, name) for name in JobUpdate._fields if name in JobRow._fields}
    unknown = {"reason": None, "result": None, "finished_at": None}
    return JobUpdate(**(unchanged | unknown | {"owner": owner, "epoch": row.epoch + 1} | changes))


def new_task(job_id: str, node: str, item: int, params: Any, **options: Any) -> CreateTasks:
    """One task with these params."""
    return CreateTasks(job_id, node, item, [orjson.dumps(params)], **options)


def enqueue_write(job_id: str, node: str, first: int, last: int, **changes: Any) -> EnqueueTasks:
    defaults: dict[str, Any] = {
        "lane": LANE, "priority": 0, "rank": 0, "timeout_seconds": 60.0, "queue_timeout_seconds": None,
    }  # fmt: skip
    return EnqueueTasks(job_id, node, first, last, **(defaults | changes))


def retry_write(lease: Lease, due_at: float | None, **changes: Any) -> RetryTask:
    defaults: dict[str, Any] = {
        "epoch": lease.epoch + 1,
        "attempt": lease.attempt,
        "error": None,
        "retries": 1,
        "lost": 0,
        "crashes": 0,
        "lane": LANE,
        "due_at": due_at,
        "priority": 0,
        "rank": 0,
        "suspect": False,
        "timeout_seconds": 60.0,
        "queue_timeout_seconds": None,
    }
    return RetryTask(lease.job_id, lease.node, lease.item, **(defaults | changes))


def finish_write(signal: SignalRow, status: str = "completed", **changes: Any) -> FinishTask:
    assert signal.node is not None and signal.item is not None and signal.epoch is not None
    defaults: dict[str, Any] = {
        "job_id": signal.job_id,
        "node": signal.node,
        "item": signal.item,
        "epoch": signal.epoch,
        "status": status,
        "attempt": signal.attempt,
        "signal_id": signal.id,
        "error": None,
        "worker": signal.worker,
        "started_at": signal.started_at,
        "retries": 0,
        "lost": 0,
        "crashes": 0,
    }
    return FinishTask(**(defaults | changes))


def node_row(job_id: str, node: str, **changes: Any) -> NodeRow:
    defaults: dict[str, Any] = {
        "status": "running", "reason": None, "importance": "critical", "output": None, "error": None, "attempt": 0,
        "width": 0, "expanded": 0, "enqueued": 0, "completed": 0, "failed": 0, "skipped": 0, "cancelled": 0,
        "taken": [], "retry_at": None, "started_at": None, "finished_at": None,
    }  # fmt: skip
    return NodeRow(job_id, node, **(defaults | changes))


def event_write(job_id: str, seq: int, event: str) -> Emit:
    return Emit(job_id, seq, event, None, None, None, None)


def report_of(lease: Lease, outcome: str = "done", output: bytes | None = b"1", **changes: Any) -> Report:
    report = Report(*lease[:5], outcome=outcome, started_at=1_000_000.0, output=output)
    return report._replace(**changes)


def held(lease: Lease) -> tuple[str, str, int, int]:
    return (lease.job_id, lease.node, lease.item, lease.epoch)


def items_of(leases: Sequence[Lease]) -> list[int]:
    return [lease.item for lease in leases]
