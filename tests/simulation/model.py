"""A model of the store: the same statements on dictionaries, one step each, with three outcomes of a commit.

Statements of other processes may run between any two steps of a cycle. What a cycle writes becomes visible at
its commit; rows that it has locked are skipped or waited for, as Postgres does.
"""

from __future__ import annotations

import copy
import types
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.core.breaking import Breaker, BreakerState, let_try
from holdfast.core.signals import (
    BatchesAsked,
    EndedTask,
    Request,
    Selected,
    Selection,
    TaskCounts,
    TaskView,
    UnqueuedTask,
)
from holdfast.define.gates import BreakerRules
from holdfast.errors import Fenced, LostRace, Unreachable
from holdfast.store.interface import (
    RANK_LIMIT,
    Batch,
    Committed,
    Examined,
    Gathered,
    Handover,
    ItemResult,
    JobFacts,
    JobRow,
    Lane,
    Lease,
    NewJob,
    NodeRow,
    Opened,
    OpenedGates,
    Report,
    ResetWrite,
    RestartWrite,
    SignalRow,
    SubmitAnswer,
    Wide,
    Withdrawal,
    WorkerIdentity,
)

Key = tuple[str, str, int]
IDLE_IN_TRANSACTION_SECONDS = 20.0
GATHER_ROWS = 3
"""A page of results; small, so that gathering takes several."""
TERMINAL = ("completed", "failed", "skipped", "cancelled")


@types.coroutine
def step() -> Generator[None, None, None]:
    """A point at which another process may go first."""
    yield


@dataclass
class History:
    """What happened, for the checkers: facts that no row keeps."""

    claims: list[tuple[float, Key, int, int, float | None]] = field(default_factory=list)
    accepted: list[tuple[float, Key, int, int]] = field(default_factory=list)
    deaths: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    rejected: int = 0
    ended: dict[tuple[Key, int], str] = field(default_factory=dict)
    taken_over: int = 0
    commits_unknown: int = 0
    commits_failed: int = 0
    set_aside: int = 0
    handed: int = 0
    asked: set[int] = field(default_factory=set)
    reset: dict[Key, int] = field(default_factory=dict)
    """Tasks that a verb has sent back, and the epoch that was their last before it."""
    resets: list[Key] = field(default_factory=list)


class Database:
    """All tables, the clock, and the faults that the world asks for."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.definitions: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.by_identity: dict[str, str] = {}
        self.nodes: dict[str, dict[str, NodeRow]] = defaultdict(dict)
        self.tasks: dict[str, dict[tuple[str, int], dict[str, Any]]] = defaultdict(dict)
        self.queue: dict[Key, dict[str, Any]] = {}
        self.inbox: dict[int, dict[str, Any]] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.answers: dict[int, tuple[bool, str]] = {}
        self.orchestrators: dict[int, dict[str, Any]] = {}
        self.workers: dict[int, dict[str, Any]] = {}
        self.breakers: dict[str, Breaker] = {}
        self.limits: dict[tuple[str, str], dict[str, Any]] = {}
        self.checkpoints: dict[Key, list[tuple[int, str, bytes, int]]] = defaultdict(list)
        self.transactions: list[ModelCycle] = []
        self.next_id = 1
        self.history = History()
        self.dirty: set[str] = set()
        self.commit_outcome: Any = lambda: "done"

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def abort_idle(self) -> None:
        """Postgres ends transactions whose process sleeps: no lock outlives its patience."""
        for transaction in list(self.transactions):
            if self.now - transaction.active_at > IDLE_IN_TRANSACTION_SECONDS:
                transaction.abort()

    def row_locked(self, key: Key) -> bool:
        return any(key in t.locked_rows for t in self.transactions)

    def send(self, job_id: str, kind: str, owner: int, **columns: Any) -> int:
        signal_id = self.new_id()
        self.inbox[signal_id] = {"job_id": job_id, "kind": kind, "owner": owner, **columns}
        if kind in ("cancel", "recover", "pause", "unpause"):
            self.history.asked.add(signal_id)
        self.dirty.add(job_id)
        return signal_id


class ModelStore:
    """Keeps the promises of `interface.Store` on a Database that all processes share."""

    def __init__(self, database: Database) -> None:
        self.db = database

    async def _statement(self) -> None:
        """One step; the commit of a single statement has three outcomes, too."""
        await step()
        self.outcome = self.db.commit_outcome()
        if self.outcome == "failed":
            self.db.history.commits_failed += 1
            raise Unreachable("the connection broke before the statement")

    def _after(self) -> None:
        if self.outcome == "unknown":
            self.db.history.commits_unknown += 1
            raise Unreachable("the connection broke before the answer")

    def cycle(self, orchestrator_id: int) -> ModelCycle:
        return ModelCycle(self.db, orchestrator_id)

    async def submit(self, jobs: Sequence[NewJob]) -> list[SubmitAnswer]:
        await self._statement()
        answers = []
        for job in jobs:
            self.db.definitions[job.definition_hash] = job.definition
            known = self.db.by_identity.get(job.identity)
            run = 1
            if known is not None:
                row = self.db.jobs[known]
                same = row["body_hash"] == job.body_hash
                if not (job.force and same):
                    answer = SubmitAnswer(known, False, same, row["status"], row["run"], row["result"], row["version"])
                    answers.append(answer)
                    continue
                run = row["run"] + 1
            self.db.by_identity[job.identity] = job.job_id
            self.db.jobs[job.job_id] = {
                "definition_hash": job.definition_hash, "body_hash": job.body_hash, "version": job.version,
                "inputs": orjson.loads(orjson.dumps(job.inputs)), "status": "pending", "owner": None, "epoch": 0,
                "priority": job.priority, "generation": 1, "reason": None, "result": None, "error": None,
                "created_at": self.db.now, "started_at": None, "finished_at": None, "deadline_at": None,
                "stop_cause": None, "stop_until": None, "stop_leases_ended": False, "holds": [], "tenant": job.tenant,
                "run": run, "previous": known,
            }  # fmt: skip
            created = {"previous": known} if known is not None else None
            self.db.events[job.job_id].append((1, "job_created", None, None, None, created))
            self.db.send(job.job_id, "submitted", 0)
            answers.append(SubmitAnswer(job.job_id, True, True, "pending", run, None, job.version))
        self._after()
        return answers

    async def definition(self, definition_hash: str) -> bytes:
        await step()
        return self.db.definitions[definition_hash]

    async def register_orchestrator(self, name: str, lease_seconds: float) -> int:
        await self._statement()
        orchestrator_id = self.db.new_id()
        self.db.orchestrators[orchestrator_id] = {
            "name": name,
            "until": self.db.now + lease_seconds,
            "ended": False,
        }
        self._after()
        return orchestrator_id

    async def renew_orchestrator(self, orchestrator_id: int, lease_seconds: float) -> bool:
        await self._statement()
        row = self.db.orchestrators[orchestrator_id]
        if row["ended"]:
            return False
        row["until"] = self.db.now + lease_seconds
        self._after()
        return True

    async def end_orchestrator(self, orchestrator_id: int) -> None:
        await self._statement()
        self.db.orchestrators[orchestrator_id]["ended"] = True
        self._after()

    async def set_aside(self, job_id: str, orchestrator_id: int, problem: str) -> None:
        await self._statement()
        job = self.db.jobs[job_id]
        if job["finished_at"] is None and job["owner"] in (None, orchestrator_id):
            job["reason"] = f"orchestrator_error: {problem}"
        self.db.history.set_aside += 1
        self._after()

    async def take_over(self, orchestrator_id: int, limit: int) -> dict[str, str]:
        await self._statement()
        shared = {t.me for t in self.db.transactions}
        for other, row in self.db.orchestrators.items():
            if other != orchestrator_id and not row["ended"] and row["until"] < self.db.now and other not in shared:
                row["ended"] = True
        self._after()
        await self._statement()
        locked = {job for t in self.db.transactions for job in t.locked_jobs}
        taken: dict[str, str] = {}
        for job_id, job in self.db.jobs.items():
            owner = job["owner"]
            if owner is not None and self.db.orchestrators[owner]["ended"] and job_id not in locked:
                job["owner"], job["epoch"] = orchestrator_id, job["epoch"] + 1
                taken[job_id] = self.db.orchestrators[owner]["name"]
                self.db.dirty.add(job_id)
                self.db.history.taken_over += 1
                if len(taken) >= limit:
                    break
        self._after()
        return taken

    async def sweep_inbox(self) -> int:
        await self._statement()
        locked = {row for t in self.db.transactions for row in t.locked_signals}
        moved = 0
        for signal_id, row in self.db.inbox.items():
            rightful = self.db.jobs[row["job_id"]]["owner"] or 0
            if row["owner"] != rightful and signal_id not in locked:
                row["owner"] = rightful
                moved += 1
        self._after()
        return moved

    async def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        await self._statement()
        for rules in breakers:
            known = self.db.breakers.setdefault(rules.name, Breaker(rules))
            known.rules = rules
        self._after()

    async def open_gates(self) -> OpenedGates:
        await self._statement()
        locked = {name for t in self.db.transactions for name in t.locked_breakers}
        tried = [let_try(found, self.db.now) for name, found in self.db.breakers.items() if name not in locked]
        gates = Gates(self.db)
        waits = any(
            row["state"] == "ready" and gates.of(row["lane"]) & self.db.limits.keys() for row in self.db.queue.values()
        )
        found = self.db.breakers.items()
        shut = {name: breaker.until for name, breaker in found if breaker.state != "closed"}
        self._after()
        return OpenedGates(any(tried) or waits, shut)

    async def raise_floors(self) -> int:
        await step()
        return 0

    async def wake_due(self) -> int:
        await self._statement()
        woken = 0
        for key, row in self.db.queue.items():
            if row["state"] == "waiting" and row["due_at"] <= self.db.now and not self.db.row_locked(key):
                row["state"] = "ready"
                woken += 1
        self._after()
        return woken

    async def expire(self) -> int:
        await self._statement()
        expired = 0
        for key, row in list(self.db.queue.items()):
            if row["state"] == "leased" and not self.db.row_locked(key):
                gone = self.db.workers[row["holder"]]["until"] < self.db.now
                timed_out = row["deadline_at"] < self.db.now
                if gone or timed_out:
                    del self.db.queue[key]
                    self.db.history.ended[(key, row["epoch"])] = "expired"
                    data = {"code": "TIMEOUT", "message": "outlived its timeout"} if timed_out else None
                    self.db.send(
                        key[0], "report", row["owner"], node=key[1], item=key[2], epoch=row["epoch"],
                        attempt=row["attempt"], outcome="failed" if timed_out else "lost",
                        worker=f"w{row['holder']}", started_at=row["claimed_at"], output=None, data=data,
                    )  # fmt: skip
                    expired += 1
        for worker in self.db.workers.values():
            worker["ended"] = worker["ended"] or worker["until"] < self.db.now
        self._after()
        return expired

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        await self._statement()
        worker_id = self.db.new_id()
        self.db.workers[worker_id] = {
            "name": name,
            "until": self.db.now + lease_seconds,
            "ended": False,
        }
        self._after()
        return WorkerIdentity(worker_id, name)

    async def renew_worker(
        self, worker: WorkerIdentity, lease_seconds: float, held: Sequence[tuple[str, str, int, int]]
    ) -> list[tuple[str, str, int, int]] | None:
        await self._statement()
        if not worker_lives(self.db, worker):
            return None
        self.db.workers[worker.worker_id]["until"] = self.db.now + lease_seconds
        self._after()
        return [h for h in held if holds(self.db, worker, h[:3], h[3])]

    async def release_strays(
        self, worker: WorkerIdentity, held: Sequence[tuple[str, str, int, int]], age_seconds: float
    ) -> int:
        await self._statement()
        released = 0
        for key, row in list(self.db.queue.items()):
            if (
                holds(self.db, worker, key, row["epoch"])
                and (*key, row["epoch"]) not in held
                and row["claimed_at"] < self.db.now - age_seconds
                and not self.db.row_locked(key)
            ):
                del self.db.queue[key]
                self.db.history.ended[(key, row["epoch"])] = "released"
                self.db.send(
                    key[0], "report", row["owner"], node=key[1], item=key[2], epoch=row["epoch"],
                    attempt=row["attempt"], outcome="given_back", worker=worker.name,
                    started_at=row["claimed_at"], output=None, data=None,
                )  # fmt: skip
                released += 1
        self._after()
        return released

    async def end_worker(self, worker: WorkerIdentity) -> None:
        await self._statement()
        row = self.db.workers[worker.worker_id]
        row["ended"], row["until"] = True, self.db.now
        self._after()

    async def report(self, worker: WorkerIdentity, reports: Sequence[Report]) -> int:
        await self._statement()
        while any(self.db.row_locked((r.job_id, r.node, r.item)) for r in reports):
            await step()
        taken = 0
        for report in reports:
            if is_taken(self.db, worker, report):
                apply_report(self.db, worker, report, report_row(self.db, worker, report), self.db.new_id())
                taken += 1
            else:
                self.db.history.rejected += 1
                owner = self.db.jobs[report.job_id]["owner"] or 0
                self.db.send(
                    report.job_id, "rejected", owner, node=report.node, item=report.item, epoch=report.epoch,
                    attempt=report.attempt, outcome=report.outcome, worker=worker.name,
                )  # fmt: skip
        self._after()
        return taken

    async def claim(
        self, worker: WorkerIdentity, queues: Sequence[str] | None, handlers: Sequence[str], limit: int
    ) -> list[Lease]:
        await self._statement()
        leases = lease_ready(self.db, Handover(worker, (), queues, handlers, limit))
        self._after()
        return leases

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        await step()
        return {j: JobFacts(*(self.db.jobs[j][key] for key in JobFacts._fields)) for j in job_ids}

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        await step()
        known = self.db.nodes[job_id].get(node)
        has_batches = known is not None and known.batch_size is not None
        if known is None or known.status not in (*TERMINAL, *(("ready", "dispatched") if has_batches else ())):
            return None
        outputs = {
            item: task["output"]
            for (name, item), task in self.db.tasks[job_id].items()
            if name == node and after < item < until and task["status"] == "completed"
            and (item >= 0 or not has_batches)
        }  # fmt: skip
        return [ItemResult(item, orjson.dumps(output), None) for item, output in sorted(outputs.items())][:limit]

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        await self._statement()
        key = (lease.job_id, lease.node, lease.item)
        if not (worker_lives(self.db, worker) and holds(self.db, worker, key, lease.epoch)):
            return False
        others = [saved for saved in self.db.checkpoints[key] if saved[0] != seq]
        self.db.checkpoints[key] = sorted([*others, (seq, name, data, lease.epoch)])
        self._after()
        return True

    async def send(self, job_id: str, kind: str, actor: str, reason: str, data: dict[str, Any] | None = None) -> int:
        await self._statement()
        owner = self.db.jobs[job_id]["owner"] or 0
        signal_id = self.db.send(job_id, kind, owner, actor=actor, reason=reason, data=data)
        self._after()
        return signal_id

    async def answer(self, signal_id: int) -> tuple[bool, str] | None:
        await step()
        return self.db.answers.get(signal_id)


def _parsed(data: bytes | None) -> Any:
    return orjson.loads(data) if data is not None else None


def worker_lives(db: Database, worker: WorkerIdentity) -> bool:
    row = db.workers[worker.worker_id]
    return not row["ended"] and row["until"] > db.now


def holds(db: Database, worker: WorkerIdentity, key: Key, epoch: int) -> bool:
    row = db.queue.get(key)
    return row is not None and row["state"] == "leased" and row["holder"] == worker.worker_id and row["epoch"] == epoch


def is_taken(db: Database, worker: WorkerIdentity, report: Report) -> bool:
    """The fence of a report."""
    key = (report.job_id, report.node, report.item)
    return worker_lives(db, worker) and holds(db, worker, key, report.epoch) and db.queue[key]["deadline_at"] > db.now


def report_row(db: Database, worker: WorkerIdentity, report: Report) -> dict[str, Any]:
    owner = db.queue[(report.job_id, report.node, report.item)]["owner"]
    return {
        "job_id": report.job_id, "kind": "report", "owner": owner,
        "node": report.node, "item": report.item, "epoch": report.epoch, "attempt": report.attempt,
        "outcome": report.outcome, "worker": worker.name, "alone": report.alone, "started_at": report.started_at,
        "output": _parsed(report.output), "data": _parsed(report.data),
    }  # fmt: skip


def apply_report(db: Database, worker: WorkerIdentity, report: Report, row: dict[str, Any], signal_id: int) -> None:
    """The lease goes and the owner hears of it."""
    key = (report.job_id, report.node, report.item)
    del db.queue[key]
    db.history.ended[(key, report.epoch)] = "reported"
    db.history.accepted.append((db.now, key, report.epoch, worker.worker_id))
    if report.alone:
        db.history.deaths[key].add(report.epoch)
    db.inbox[signal_id] = row
    db.dirty.add(report.job_id)


@dataclass
class Handed:
    """A report that an owner took inside its transaction: everybody else sees it after the commit."""

    worker: WorkerIdentity
    report: Report
    row: dict[str, Any]
    signal_id: int


class Gates:
    """What breakers and limits let through, as one claim finds them."""

    def __init__(self, db: Database) -> None:
        self.db = db
        leased = [row for row in db.queue.values() if row["state"] == "leased"]
        locked = {name for t in db.transactions for name in t.locked_breakers}
        self.room: dict[Any, float] = {}
        for name, breaker in db.breakers.items():
            if breaker.permits is not None:
                running = sum(row["lane"].breaker == name for row in leased)
                self.room[name] = 0 if name in locked else breaker.permits - running
        for key, limit in db.limits.items():
            running = sum(key in self._limits_of(row["lane"]) for row in leased)
            room = float("inf") if limit["concurrency"] is None else limit["concurrency"] - running
            self.room[key] = min(room, int(tokens(db, limit)))

    @staticmethod
    def _limits_of(lane: Lane) -> set[tuple[str, str]]:
        shared = {(lane.tenant, limit.name) for limit in lane.limits}
        return shared | {("", f"queue:{lane.queue}"), (lane.tenant, "tenant")}

    def of(self, lane: Lane) -> set[Any]:
        return {gate for gate in (lane.breaker, *self._limits_of(lane)) if gate in self.room}

    def lets_through(self, lane: Lane) -> bool:
        if any(self.room[gate] <= 0 for gate in self.of(lane)):
            return False
        for gate in self.of(lane):
            self.room[gate] -= 1
            if gate in self.db.limits and self.db.limits[gate]["rate"] is not None:
                limit = self.db.limits[gate]
                limit |= {"tokens": tokens(self.db, limit) - 1, "refilled_at": self.db.now}
        return True


def tokens(db: Database, limit: dict[str, Any]) -> float:
    if limit["rate"] is None:
        return 1e9
    if limit["refilled_at"] is None:
        return float(limit["burst"])
    return float(min(limit["burst"], limit["tokens"] + limit["rate"] * (db.now - limit["refilled_at"])))


def declare_limits(db: Database, lane: Lane) -> None:
    for limit in lane.limits:
        known = db.limits.setdefault(
            (lane.tenant, limit.name),
            {"concurrency": None, "rate": None, "burst": None, "tokens": 0.0, "refilled_at": None},
        )
        known |= {field: value for field, value in limit._asdict().items() if field in known and value is not None}


def lease_ready(db: Database, wish: Handover, *, gated: bool = True) -> list[Lease]:
    """What a claim does."""
    if not worker_lives(db, wish.worker):
        return []
    ready = [
        (-row["priority"], row["rank"], row["id"], key)
        for key, row in db.queue.items()
        if row["state"] == "ready"
        and row["lane"].handler in wish.handlers
        and (wish.queues is None or row["lane"].queue in wish.queues)
        and not db.row_locked(key)
    ]
    if not ready:
        return []
    gates = Gates(db)
    leases: list[Lease] = []
    for *_, key in sorted(ready):
        row = db.queue[key]
        if len(leases) >= wish.limit:
            break
        if gates.of(row["lane"]) and (not gated or not gates.lets_through(row["lane"])):
            continue
        row |= {
            "state": "leased",
            "holder": wish.worker.worker_id,
            "claimed_at": db.now,
            "deadline_at": db.now + row["timeout_seconds"] + 2.0,
        }
        db.history.claims.append((db.now, key, row["epoch"], wish.worker.worker_id, row["due_at"]))
        db.dirty.add(key[0])
        task = db.tasks[key[0]][key[1:]]
        saved = db.checkpoints[key]
        resume_point = (saved[-1][1], orjson.loads(saved[-1][2])) if saved else None
        leases.append(
            Lease(
                *key,
                row["epoch"],
                row["attempt"],
                row["lane"].handler,
                row["timeout_seconds"],
                row["suspect"],
                orjson.loads(orjson.dumps(task["params"])),
                resume_point,
                saved[-1][0] if saved else 0,
                row["owner"],
                has_contract=task["has_contract"],
            )
        )
    return leases


class ModelCycle:
    """An owner's transaction: locks at once, writes at the commit."""

    def __init__(self, database: Database, orchestrator_id: int) -> None:
        self.db = database
        self.me = orchestrator_id
        self.locked_jobs: set[str] = set()
        self.locked_signals: set[int] = set()
        self.locked_rows: set[Key] = set()
        self.locked_breakers: set[str] = set()
        self.active_at = 0.0
        self._log: list[Any] = []
        self._handed: dict[int, dict[str, Any]] = {}
        self._is_open = False

    async def _step(self) -> None:
        await step()
        if not self._is_open:
            raise LostRace("the transaction was ended while its process slept")
        self.active_at = self.db.now

    def abort(self) -> None:
        self._is_open = False
        self.locked_jobs, self.locked_signals, self.locked_rows, self.locked_breakers = set(), set(), set(), set()
        self._log, self._handed = [], {}
        if self in self.db.transactions:
            self.db.transactions.remove(self)

    async def open(
        self,
        claim_limit: int,
        drain_limit: int,
        aside: Sequence[str] = (),
        handover: Handover | None = None,
        wide: Wide | None = None,
    ) -> Opened:
        self.abort()
        await step()
        if self.db.orchestrators[self.me]["ended"]:
            raise Fenced(f"orchestrator {self.me} was taken over")
        self._is_open, self.active_at = True, self.db.now
        self.db.transactions.append(self)
        now = self.db.now
        await self._step()
        taken = await self._take(handover) if handover is not None else frozenset()
        locked = {row for t in self.db.transactions for row in t.locked_signals}
        waiting = {i: r for i, r in sorted(self.db.inbox.items()) if r["job_id"] not in aside}
        unowned = [i for i, r in waiting.items() if r["owner"] == 0 and i not in locked][:claim_limit]
        self.locked_signals = set(unowned)
        await self._step()
        others = {job for t in self.db.transactions if t is not self for job in t.locked_jobs}
        for signal_id in unowned:
            job_id = self.db.inbox[signal_id]["job_id"]
            if self.db.jobs[job_id]["owner"] is None and job_id not in others:
                self.locked_jobs.add(job_id)
        claimed = [self._job_row(job_id) for job_id in sorted(self.locked_jobs)]
        signals = [self._signal(i) for i in unowned if self.db.inbox[i]["job_id"] in self.locked_jobs]
        await self._step()
        visible = self.db.inbox | self._handed
        waiting = {i: r for i, r in sorted(visible.items()) if r["job_id"] not in aside}
        mine = [i for i, r in waiting.items() if r["owner"] == self.me]
        of_wide = [i for i in mine if wide is not None and waiting[i]["job_id"] == wide.job_id]
        rest = [i for i in mine if i not in set(of_wide)][:drain_limit]
        drained = rest + of_wide[: wide.limit if wide is not None else 0]
        return Opened(now, claimed, signals + [self._signal(i) for i in drained], taken)

    async def _take(self, handover: Handover) -> frozenset[int]:
        """The statement of a report inside this transaction: it waits for rows that others have locked."""
        keys = [(r.job_id, r.node, r.item) for r in handover.reports]
        while any(self.db.row_locked(key) for key in keys):
            await self._step()
        taken = set()
        for number, report in enumerate(handover.reports):
            if is_taken(self.db, handover.worker, report):
                entry = Handed(handover.worker, report, report_row(self.db, handover.worker, report), self.db.new_id())
                self.locked_rows.add(keys[number])
                self._handed[entry.signal_id] = entry.row
                self._log.append(entry)
                taken.add(number)
        await self._step()
        return frozenset(taken)

    def looked_at(self, job_id: str) -> tuple[JobRow, list[NodeRow]]:
        """The committed rows, for one who only looks."""
        return self._job_row(job_id), list(self.db.nodes[job_id].values())

    def _job_row(self, job_id: str) -> JobRow:
        job = self.db.jobs[job_id]
        return JobRow(
            job_id, job["tenant"], job["definition_hash"], job["status"], job["priority"], job["run"],
            job["generation"], job["owner"], job["epoch"], job["inputs"], job["error"], job["created_at"],
            job["started_at"], job["deadline_at"], job["stop_cause"], job["stop_until"], job["stop_leases_ended"],
            job["holds"],
            self.db.events[job_id][-1][0],
        )  # fmt: skip

    def _signal(self, signal_id: int) -> SignalRow:
        row = self._handed.get(signal_id) or self.db.inbox[signal_id]
        task = self.db.tasks[row["job_id"]].get((row.get("node"), row.get("item")))  # type: ignore[arg-type]
        view = (
            {
                "task_status": task["status"],
                "task_epoch": task["epoch"],
                "task_attempt": task["attempt"],
                "task_retries": task["retries"],
                "task_lost": task["lost"],
                "task_crashes": task["crashes"],
            }
            if task
            else {}
        )
        columns = {k: v for k, v in row.items() if k != "owner"}
        if row.get("item", -1) >= 0:
            columns["output"] = None
        return SignalRow(id=signal_id, **columns, **view)

    async def breakers(self, names: Sequence[str]) -> list[Breaker]:
        """Waits for those that another transaction has locked."""
        await self._step()
        while any(set(names) & t.locked_breakers for t in self.db.transactions if t is not self):
            await self._step()
        self.locked_breakers |= set(names) & self.db.breakers.keys()
        return [copy.deepcopy(self.db.breakers[name]) for name in names if name in self.db.breakers]

    async def whole(self, report: SignalRow) -> SignalRow:
        raise AssertionError("every output lies in its row here")

    async def load(self, job_ids: Sequence[str]) -> tuple[list[JobRow], list[NodeRow]]:
        await self._step()
        jobs = [self._job_row(j) for j in job_ids if j in self.db.jobs and self.db.jobs[j]["owner"] == self.me]
        await self._step()
        nodes = [row for job_id in job_ids for row in self.db.nodes[job_id].values()]
        return jobs, nodes

    async def examine(self, job_ids: Sequence[str]) -> dict[str, Examined]:
        await self._step()
        return {job_id: self._examined(job_id) for job_id in job_ids}

    def _examined(self, job_id: str) -> Examined:
        tasks, nodes = self.db.tasks[job_id], self.db.nodes[job_id]
        unread = {
            (row["node"], row["item"], row["epoch"])
            for row in (self.db.inbox | self._handed).values()
            if row["job_id"] == job_id and row["kind"] == "report"
        }
        queued = {key[1:] for key in self.db.queue if key[0] == job_id}
        reached = queued | {key[:2] for key in unread}
        counts = {}
        for name in {node for node, _ in tasks}:
            found = [task["status"] for (node, _), task in tasks.items() if node == name]
            counts[name] = TaskCounts(
                len(found), max(item for node, item in tasks if node == name),
                *(found.count(status) for status in TERMINAL),
                max((item for node, item in reached if node == name), default=-1),
                sum(task["waits"] for (node, _), task in tasks.items() if node == name),
            )  # fmt: skip
        is_open = {n.node for n in nodes.values() if n.status not in TERMINAL}
        unqueued = [
            UnqueuedTask(
                node, item, TaskView(*(task[k] for k in ("status", "epoch", "attempt", "retries", "lost", "crashes"))),
                task["error"],
            )
            for (node, item), task in sorted(tasks.items())
            if node in is_open and task["status"] == "ready" and item < nodes[node].enqueued and not task["waits"]
            and (node, item) not in queued and (node, item, task["epoch"]) not in unread
        ]  # fmt: skip
        ended = {
            node: EndedTask(task["status"], task["attempt"], task["output"], task["error"])
            for (node, item), task in tasks.items()
            if node in is_open and item < 0 and task["status"] in TERMINAL
        }
        return Examined(counts, unqueued, ended)

    async def select(
        self, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
    ) -> dict[str, Selected]:
        await self._step()
        return select(self._seen(), job_id, request, enqueued, batches)

    def _seen(self) -> Database:
        """The tasks and the queue as this transaction sees them: the committed rows and its own writes."""
        db, seen = self.db, Database()
        for job in db.jobs:
            seen.jobs[job], seen.nodes[job] = dict(db.jobs[job]), dict(db.nodes[job])
            seen.tasks[job] = {key: dict(task) for key, task in db.tasks[job].items()}
            seen.events[job] = db.events[job][-1:]
        seen.queue = {key: dict(row) for key, row in db.queue.items()}
        seen.inbox, seen.limits = dict(db.inbox), {key: dict(limit) for key, limit in db.limits.items()}
        seen.breakers = {name: copy.copy(breaker) for name, breaker in db.breakers.items()}
        for entry in self._log:
            apply_entry(seen, self.me, entry)
        return seen

    async def results(self, job_id: str, node: str, after: int) -> tuple[list[Gathered], bool]:
        await self._step()
        tasks = {item: task for (name, item), task in self.db.tasks[job_id].items() if name == node and item > after}
        page = [
            Gathered(item, task["status"], task["output"], len(orjson.dumps(task["output"])))
            for item, task in sorted(tasks.items())
            if task["status"] in ("completed", "failed")
        ]
        return page[:GATHER_ROWS], len(page) > GATHER_ROWS

    async def write(self, batch: Batch) -> None:
        await self._step()
        self._log.append(_copy(batch))

    async def withdraw(self, withdrawals: Sequence[Withdrawal]) -> dict[str, dict[str, list[int]]]:
        await self._step()
        ended: dict[str, dict[str, list[int]]] = {}
        for wanted in withdrawals:
            keys = withdrawn(self._seen(), wanted)
            while any(key in t.locked_rows for t in self.db.transactions if t is not self for key in keys):
                await self._step()
                keys = withdrawn(self._seen(), wanted)
            self.locked_rows |= set(keys)
            self._log.append((wanted, keys))
            # Two signals of one cycle may each stop the job: what the first withdrew counts too.
            ended.setdefault(wanted.job_id, defaultdict(list))
            for _, node, item in keys:
                ended[wanted.job_id][node].append(item)
        return ended

    async def commit(self, batch: Batch, handover: Handover | None = None) -> Committed:
        await self._step()
        while self._waits_for([*self._log, batch]):
            await self._step()
        outcome = self.db.commit_outcome()
        log = [*self._log, batch]
        self.abort()
        if outcome == "failed":
            self.db.history.commits_failed += 1
            raise LostRace("the commit failed")
        for entry in log:
            apply_entry(self.db, self.me, entry)
        leases = lease_ready(self.db, handover, gated=False) if handover is not None else []
        if outcome == "unknown":
            self.db.history.commits_unknown += 1
            raise LostRace("the connection broke before the commit was acknowledged")
        return Committed(leases, handover.leaves(batch, len(leases)) if handover is not None else batch.makes_work)

    def _waits_for(self, log: Sequence[Any]) -> bool:
        """Whether rows that the batch takes out of the queue are locked by others."""
        taken = {
            (row.job_id, row.node) for entry in log if isinstance(entry, Batch)
            for row in (*entry.resets, *entry.restarts, *entry.skips)
        }  # fmt: skip
        return any(key[:2] in taken for t in self.db.transactions if t is not self for key in t.locked_rows)

    async def rollback(self) -> None:
        self.abort()


def apply_entry(db: Database, me: int, entry: Any) -> None:
    if isinstance(entry, Batch):
        apply_batch(db, me, entry)
    elif isinstance(entry, Handed):
        apply_report(db, entry.worker, entry.report, entry.row, entry.signal_id)
    else:
        apply_withdrawal(db, *entry)


def names(wanted: Any, item: int, task: dict[str, Any]) -> bool:
    """Whether a verb's items, code and fingerprint, where they are given, are those of the task."""
    error = task["error"] or {}
    return (
        (not wanted.items or item in wanted.items)
        and (wanted.code is None or error.get("code") == wanted.code)
        and (wanted.fingerprint is None or error.get("fingerprint") == wanted.fingerprint)
    )


def can_be_reset(task: dict[str, Any], item: int, enqueued: int) -> bool:
    return task["params"] is not None and not task["waits"] and (task["status"] != "ready" or item < enqueued)


def is_selected(selection: Selection, item: int, task: dict[str, Any]) -> bool:
    if item < 0 and selection.items_only:
        return False
    return item in selection.also or (task["status"] in selection.statuses and names(selection, item, task))


def select(
    db: Database, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
) -> dict[str, Selected]:
    """What a verb names of a job's tasks, by node and status."""
    found: dict[str, Selected] = {}
    for (node, item), task in db.tasks[job_id].items():
        known = found.setdefault(node, Selected({}))
        chosen, refused = known.chosen, known.refused
        chosen.setdefault(task["status"], 0)
        if request.node in (None, node) and names(request, item, task):
            if can_be_reset(task, item, enqueued):
                chosen[task["status"]] += 1
            elif task["status"] != "ready":
                refused += 1
        leased = db.queue.get((job_id, node, item), {}).get("state") == "leased"
        found[node] = Selected(
            chosen, refused, max(known.last_epoch, task["epoch"]), max(known.last_attempt, task["attempt"] + leased)
        )
    for asked in batches:
        found[asked.node] = select_batches(db, job_id, asked, found[asked.node])
    return found


def select_batches(db: Database, job_id: str, asked: BatchesAsked, known: Selected) -> Selected:
    tasks = db.tasks[job_id]
    touched = {
        item // asked.page_size
        for (node, item), task in tasks.items()
        if asked.of_fan_out is not None and node == asked.fan_out and is_selected(asked.of_fan_out, item, task)
        and can_be_reset(task, item, asked.fan_out_enqueued)
    }  # fmt: skip
    touched &= {item for node, item in tasks if node == asked.node}
    selection = asked.selection._replace(also=tuple(sorted(touched)))
    chosen: Counter[str] = Counter()
    refused = 0
    for (node, item), task in tasks.items():
        if node == asked.node and is_selected(selection, item, task):
            if can_be_reset(task, item, asked.enqueued):
                chosen[task["status"]] += 1
            else:
                refused += task["status"] != "ready"
    return known._replace(chosen=dict(chosen), refused=refused, touched=selection.also)


def apply_reset(db: Database, wanted: ResetWrite) -> None:
    for (node, item), task in db.tasks[wanted.job_id].items():
        key = (wanted.job_id, node, item)
        if node != wanted.node or not is_selected(wanted.selection, item, task):
            continue
        if can_be_reset(task, item, wanted.enqueued):
            row = db.queue.pop(key, None)
            if row is not None:
                db.history.ended[(key, row["epoch"])] = "reset"
            if task["status"] == "completed":
                db.checkpoints.pop(key, None)
            db.history.reset[key] = task["epoch"]
            db.history.resets.append(key)
            task |= _task("ready", task["params"]) | {
                "epoch": task["epoch"] + 1, "waits": True,
                "attempt": task["attempt"] + (row is not None and row["state"] == "leased"),
            }  # fmt: skip
    db.dirty.add(wanted.job_id)


def apply_restart(db: Database, wanted: RestartWrite) -> None:
    for node, item in list(db.tasks[wanted.job_id]):
        if node == wanted.node and (item < 0 or not wanted.own_only):
            key = (wanted.job_id, node, item)
            row = db.queue.pop(key, None)
            if row is not None:
                db.history.ended[(key, row["epoch"])] = "reset"
            db.checkpoints.pop(key, None)
            db.history.reset[key] = db.tasks[wanted.job_id].pop((node, item))["epoch"]
            db.history.resets.append(key)
    db.dirty.add(wanted.job_id)


def _copy(batch: Batch) -> Batch:
    return copy.deepcopy(batch)


def apply_batch(db: Database, me: int, batch: Batch) -> None:
    """What the statements of a commit do, guards included, in their order."""
    for job in batch.jobs:
        known = db.jobs[job.job_id]
        if known["owner"] in (None, me):
            known |= job._asdict()
            db.dirty.add(job.job_id)
    for node in batch.new_nodes:
        assert node.node not in db.nodes[node.job_id], f"the node {node[:2]} was made twice"
    for node in batch.nodes:
        assert node.node in db.nodes[node.job_id], f"the node {node[:2]} was written before it was made"
    for node in (*batch.new_nodes, *batch.nodes):
        db.nodes[node.job_id][node.node] = node._replace(output=_json(node.output), taken=list(node.taken))
        db.dirty.add(node.job_id)
    for done in batch.finished:
        task = db.tasks[done.job_id].get((done.node, done.item))
        report = db.inbox.get(done.signal_id, {}) if done.status == "completed" else {}
        if task is not None and task["epoch"] == done.epoch and task["status"] == "ready":
            task |= {
                "status": str(done.status), "attempt": done.attempt, "output": _json(report.get("output")),
                "error": done.error, "retries": done.retries, "lost": done.lost, "crashes": done.crashes,
            }  # fmt: skip
    for signal_id in batch.handled:
        row = db.inbox.get(signal_id)
        if row is not None and row["owner"] in (0, me):
            del db.inbox[signal_id]
            db.dirty.add(row["job_id"])
    for reset in batch.resets:
        apply_reset(db, reset)
    for restart in batch.restarts:
        apply_restart(db, restart)
    for skip in batch.skips:
        for (node, item), task in db.tasks[skip.job_id].items():
            if node == skip.node and task["status"] != "completed":
                key = (skip.job_id, node, item)
                row = db.queue.pop(key, None)
                if row is not None:
                    db.history.ended[(key, row["epoch"])] = "skipped"
                db.history.resets.append(key)
                task |= {"status": "skipped", "waits": False}
        db.dirty.add(skip.job_id)
    for new in batch.tasks:
        assert (new.node, new.item) not in db.tasks[new.job_id], f"task {new[:3]} was made twice"
        kept = {"epoch": new.epoch, "attempt": new.attempt, "has_contract": new.has_contract}
        made = _task(status="ready", params=_json(new.params)) | kept
        db.tasks[new.job_id][(new.node, new.item)] = made
    for refused in batch.failed_tasks:
        assert (refused.node, refused.item) not in db.tasks[refused.job_id], "a task was made twice"
        made = _task(status="failed", error=refused.error) | {"epoch": refused.epoch, "attempt": refused.attempt}
        db.tasks[refused.job_id][(refused.node, refused.item)] = made
    for lane in batch.lanes:
        declare_limits(db, lane)
    for wanted in batch.enqueued:
        for item in range(wanted.first, wanted.last + 1):
            task = db.tasks[wanted.job_id][(wanted.node, item)]
            if task["status"] == "ready":
                key = (wanted.job_id, wanted.node, item)
                assert key not in db.queue, f"task {key} was queued twice"
                db.queue[key] = _queue_row(db, me, wanted, task["epoch"], task["attempt"] + 1) | {
                    "rank": min(wanted.rank + item - wanted.first, RANK_LIMIT)
                }
    for row in batch.waiting:
        found = [key for key, task in db.tasks[row.job_id].items() if key[0] == row.node and task["waits"]]
        for place, (node, item) in enumerate(sorted(found)[: row.number]):
            task = db.tasks[row.job_id][(node, item)]
            task["waits"] = False
            key = (row.job_id, node, item)
            assert key not in db.queue, f"task {key} was queued twice"
            db.queue[key] = _queue_row(db, me, row, task["epoch"], task["attempt"] + 1) | {
                "rank": min(row.rank + place, RANK_LIMIT)
            }
    for again in batch.retried:
        task = db.tasks[again.job_id][(again.node, again.item)]
        if task["epoch"] < again.epoch and task["status"] == "ready":
            task |= {
                "epoch": again.epoch, "attempt": again.attempt, "error": again.error, "retries": again.retries,
                "lost": again.lost, "crashes": again.crashes,
            }  # fmt: skip
            key = (again.job_id, again.node, again.item)
            assert key not in db.queue, f"task {key} was queued twice"
            db.queue[key] = _queue_row(db, me, again, again.epoch, again.attempt + 1) | {
                "state": "ready" if again.due_at is None else "waiting",
                "due_at": again.due_at,
                "suspect": again.suspect,
            }
    for release in batch.releases:
        for key, row in db.queue.items():
            if key[0] == release.job_id and row["state"] == "paused":
                is_due = row["due_at"] is None or row["due_at"] <= db.now
                row |= {"state": "ready" if is_due else "waiting", "id": db.new_id()}
    for key, row in db.queue.items():
        if key[0] in batch.paused and row["state"] in ("ready", "waiting"):
            row["state"] = "paused"
    for event in batch.events:
        known_events = db.events[event.job_id]
        assert event.seq == known_events[-1][0] + 1, (
            f"event {event.seq} of {event.job_id} follows {known_events[-1][0]}"
        )
        known_events.append(tuple(event[1:]))
    for answer in batch.answers:
        db.answers.setdefault(answer.signal_id, (answer.applied, answer.reason))
    for told in batch.breakers:
        breaker = db.breakers[told.name]
        breaker.state, breaker.successes, breaker.changed_at = BreakerState(told.state), told.successes, told.changed_at
        breaker.window = [(at, failed) for at, failed in told.calls]
        breaker.until, breaker.held, breaker.reason = told.until, told.held, told.reason


def withdrawn(db: Database, wanted: Withdrawal) -> list[Key]:
    """What a withdrawal ends: what is queued, what never was, and what waits after a reset."""
    tasks = db.tasks[wanted.job_id]
    keys = [k[1:] for k in db.queue if k[0] == wanted.job_id and wanted.node in (None, k[1])]
    keys = [k for k in keys if wanted.leases_too or db.queue[(wanted.job_id, *k)]["state"] != "leased"]
    for node, first, last in wanted.unqueued:
        keys += [(node, i) for i in range(first, last + 1) if (node, i) in tasks]
    keys += [key for key, task in tasks.items() if key[0] in wanted.waiting and task["waits"]]
    return [(wanted.job_id, *key) for key in dict.fromkeys(keys) if tasks[key]["status"] == "ready"]


def apply_withdrawal(db: Database, wanted: Withdrawal, keys: Sequence[Key]) -> None:
    for key in keys:
        row = db.queue.pop(key, None)
        if row is not None:
            db.history.ended[(key, row["epoch"])] = "withdrawn"
        task = db.tasks[key[0]][key[1:]]
        assert task["status"] == "ready", f"{key} was withdrawn although it is {task['status']}"
        task |= {"status": str(wanted.status), "error": wanted.error, "waits": False}
    db.dirty.add(wanted.job_id)


def _task(status: str, params: Any = None, error: Any = None) -> dict[str, Any]:
    return {
        "status": status, "epoch": 1, "attempt": 0, "retries": 0, "lost": 0, "crashes": 0, "params": params,
        "output": None, "error": error, "waits": False,
    }  # fmt: skip


def _queue_row(db: Database, me: int, wanted: Any, epoch: int, attempt: int) -> dict[str, Any]:
    return {
        "id": db.new_id(), "epoch": epoch, "attempt": attempt, "lane": wanted.lane, "state": "ready",
        "priority": wanted.priority, "rank": min(wanted.rank, RANK_LIMIT), "suspect": False, "owner": me,
        "timeout_seconds": wanted.timeout_seconds, "due_at": None, "holder": None, "claimed_at": None,
        "deadline_at": None,
    }  # fmt: skip


def _json(value: Any) -> Any:
    if value is None:
        return None
    return orjson.loads(value if isinstance(value, bytes) else orjson.dumps(value))
