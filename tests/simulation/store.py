"""The calls of the model of the store: each statement is one step on dictionaries, with three possible outcomes.

An owner's transaction is in cycle.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.core.breaking import Breaker, let_try
from holdfast.define.gates import BreakerRules, breaker_key
from holdfast.define.notify import EVERY_TENANT, JOB_ENDS
from holdfast.errors import NotFound, Unreachable
from holdfast.store.batch import Handover
from holdfast.store.dangers import Dangers
from holdfast.store.records import (
    ItemResult,
    JobFacts,
    Lease,
    NewJob,
    OpenedGates,
    PlanRow,
    Report,
    SignalAnswer,
    SubmitAnswer,
    WorkerIdentity,
)
from tests.simulation.clock import follow_clock
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import TERMINAL, Database, step
from tests.simulation.gates import Gates, queue_is_paused
from tests.simulation.leases import holds, lease_ready, worker_lives
from tests.simulation.reports import apply_report, end_lease, is_accepted, reject_report, report_row


class ModelStore:
    """Keeps the promises of `interface.Store` on a Database that all processes share."""

    def __init__(self, database: Database) -> None:
        self.db = database

    async def _statement(self) -> None:
        """One step. A single statement can succeed, fail, or have an unknown outcome, as a commit can."""
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
            self.db.definitions[job.pinned_hash] = job.pinned
            existing = self.db.by_identity.get(job.identity)
            run = 1
            if existing is not None:
                row = self.db.jobs[existing]
                same = row["body_hash"] == job.body_hash
                if not (job.force and same):
                    answer = SubmitAnswer(
                        existing, False, same, row["status"], row["run"], row["result"], row["version"],
                        row["definition_hash"],
                    )  # fmt: skip
                    answers.append(answer)
                    continue
                run = row["run"] + 1
            self.db.by_identity[job.identity] = job.job_id
            self.db.jobs[job.job_id] = {
                "definition_hash": job.pinned_hash, "body_hash": job.body_hash, "version": job.version,
                "inputs": orjson.loads(orjson.dumps(job.inputs)), "status": "pending", "owner": None, "epoch": 0,
                "priority": job.priority, "generation": 1, "reason": None, "result": None, "error": None,
                "created_at": self.db.now, "started_at": None, "finished_at": None, "deadline_at": None,
                "stop_cause": None, "stop_until": None, "stop_leases_ended": False, "stop_signal": None, "holds": [],
                "tenant": job.tenant, "run": run, "previous": existing, "deaths": 0, "died_at": None,
                "recovered_at": None,
                "undo": None, "notify": orjson.loads(orjson.dumps(job.notify)),
            }  # fmt: skip
            created = {"previous": existing} if existing is not None else None
            self.db.events[job.job_id].append((1, "job_created", None, None, None, created))
            self.db.send(job.job_id, "submitted", 0)
            answers.append(SubmitAnswer(job.job_id, True, True, "pending", run, None, job.version))
        self._after()
        return answers

    async def keep_plan(self, plan: PlanRow, definition: bytes) -> None:
        await step()
        self.db.definitions.setdefault(plan.definition_hash, definition)
        self.db.plans[plan.job_id, plan.plan_id] = plan

    async def definition(self, definition_hash: str) -> bytes:
        await step()
        return self.db.definitions[definition_hash]

    async def subscriptions(self) -> dict[str, frozenset[str]]:
        await self._statement()
        return dict(self.db.subscriptions)

    async def announce_hooks(self, hooks: Sequence[str]) -> None:
        await self._statement()
        self.db.subscriptions[EVERY_TENANT] = frozenset(map(str, JOB_ENDS))

    async def register_orchestrator(self, name: str, lease_seconds: float, only_job: str | None = None) -> int:
        await self._statement()
        orchestrator_id = self.db.draw()
        self.db.orchestrators[orchestrator_id] = {
            "name": name,
            "until": self.db.now + lease_seconds,
            "renewed": self.db.now,
            "ended": False,
            "left": False,
            "only_job": only_job,
        }
        self._after()
        return orchestrator_id

    async def renew_orchestrator(self, orchestrator_id: int, lease_seconds: float) -> bool:
        await self._statement()
        row = self.db.orchestrators.get(orchestrator_id)
        if row is None or row["ended"]:
            return False
        row["until"], row["renewed"] = self.db.now + lease_seconds, self.db.now
        self._after()
        return True

    async def end_orchestrator(self, orchestrator_id: int) -> None:
        await self._statement()
        if orchestrator_id in self.db.orchestrators:
            self.db.orchestrators[orchestrator_id] |= {"ended": True, "left": True}
        self._after()

    async def dangers(self, patience_seconds: float) -> Dangers:
        await self._statement()
        for me in [me for me in self.db.open_cycles if self.db.orchestrators.get(me, {"ended": True})["ended"]]:
            jobs = self.db.open_cycles.pop(me)
            for job in (self.db.jobs[job_id] for job_id in jobs if job_id in self.db.jobs):
                if job["finished_at"] is None:
                    job["deaths"] = max(job["deaths"], 1) + (len(jobs) == 1)
                    job["died_at"] = self.db.now
        died = any(row["ended"] and not row["left"] for row in self.db.orchestrators.values())
        blamed = {j: row for j, row in self.db.jobs.items() if row["deaths"] and row["finished_at"] is None}
        since, until = self.db.now - patience_seconds, self.db.now + 60
        deaths = {j: row["deaths"] if since <= row["died_at"] <= until else 1 for j, row in blamed.items()}
        self._after()
        return Dangers(died, deaths)

    async def note_open_cycle(self, orchestrator_id: int, job_ids: Sequence[str]) -> None:
        await self._statement()
        self.db.open_cycles[orchestrator_id] = list(job_ids)
        self._after()

    async def forget_open_cycle(self, orchestrator_id: int) -> None:
        await self._statement()
        self.db.open_cycles.pop(orchestrator_id, None)
        self._after()

    async def is_locked_out(self, orchestrator_id: int) -> bool:
        raise AssertionError("the model has no foreign sessions that lock rows")

    async def inherit(self, orchestrator_id: int, former: int, limit: int) -> dict[str, str]:
        raise AssertionError("the model has no foreign sessions that lock rows")

    async def set_aside(self, job_id: str, orchestrator_id: int, problem: str) -> None:
        await self._statement()
        job = self.db.jobs.get(job_id)
        if job is not None and job["finished_at"] is None and job["owner"] in (None, orchestrator_id):
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
        former_owners: dict[str, str] = {}
        if self.db.orchestrators.get(orchestrator_id, {"ended": True})["ended"]:
            limit = 0
        for job_id, job in self.db.jobs.items():
            if len(former_owners) >= limit:
                break
            owner = job["owner"]
            former = self.db.orchestrators.get(owner, {"name": f"orchestrator {owner}", "ended": True})
            is_wanted = self.db.orchestrators[orchestrator_id]["only_job"] in (None, job_id)
            if owner is not None and former["ended"] and is_wanted and job_id not in locked:
                job["owner"], job["epoch"] = orchestrator_id, job["epoch"] + 1
                former_owners[job_id] = former["name"]
                self.db.dirty.add(job_id)
                self.db.history.taken_over += 1
        self._after()
        return former_owners

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

    async def declare_breakers(self, tenant: str, breakers: Sequence[BreakerRules]) -> None:
        await self._statement()
        for rules in breakers:
            breaker = self.db.breakers.setdefault(breaker_key(tenant, rules.name), Breaker(rules, tenant=tenant))
            breaker.rules = rules
        self._after()

    async def open_gates(self) -> OpenedGates:
        await self._statement()
        locked = {name for t in self.db.transactions for name in t.locked_breakers}
        tried = [let_try(breaker, self.db.now) for name, breaker in self.db.breakers.items() if name not in locked]
        gates = Gates(self.db)
        waits = any(
            row["state"] == "ready"
            and gates.of(row["lane"]) & self.db.limits.keys()
            and not queue_is_paused(self.db, row["lane"].queue)
            for row in self.db.queue.values()
        )
        breakers = self.db.breakers.items()
        shut = {name: breaker.until for name, breaker in breakers if breaker.state != "closed"}
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

    async def follow_clock(self, lease_seconds: float) -> int:
        await self._statement()
        followed = follow_clock(self.db)
        self._after()
        return followed

    async def expire(self) -> int:
        await self._statement()
        expired = 0
        for key, row in list(self.db.queue.items()):
            if row["state"] == "leased" and not self.db.row_locked(key):
                worker_row = self.db.workers.get(row["holder"])
                is_gone = worker_row is None or worker_row["until"] < self.db.now
                timed_out = row["deadline_at"] < self.db.now
                if is_gone or timed_out:
                    data = {"code": "TIMEOUT", "message": "outlived its timeout"} if timed_out else None
                    outcome = "failed" if timed_out else "lost"
                    name = f"{'worker ' if worker_row is None else 'w'}{row['holder']}"
                    end_lease(self.db, key, "expired", worker=name, outcome=outcome, data=data)
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
        worker_id = self.db.draw()
        self.db.workers[worker_id] = {
            "name": name,
            "until": self.db.now + lease_seconds,
            "renewed": self.db.now,
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
        self.db.workers[worker.worker_id] |= {"until": self.db.now + lease_seconds, "renewed": self.db.now}
        self._after()
        return [h for h in held if holds(self.db, worker, h[:3], h[3])]

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[tuple[str, str, int, int]]) -> int:
        await self._statement()
        released = 0
        for key, row in list(self.db.queue.items()):
            if (
                holds(self.db, worker, key, row["epoch"])
                and (*key, row["epoch"]) not in held
                and not self.db.row_locked(key)
            ):
                end_lease(self.db, key, "released", worker=worker.name, outcome="given_back")
                released += 1
        self._after()
        return released

    async def end_worker(self, worker: WorkerIdentity) -> None:
        await self._statement()
        if (row := self.db.workers.get(worker.worker_id)) is not None:
            row["ended"], row["until"] = True, self.db.now
        self._after()

    async def report(self, worker: WorkerIdentity, reports: Sequence[Report]) -> int:
        await self._statement()
        while any(self.db.row_locked((r.job_id, r.node, r.item)) for r in reports):
            await step()
        accepted = 0
        for report in reports:
            if is_accepted(self.db, worker, report):
                apply_report(self.db, worker, report, report_row(self.db, worker, report), self.db.new_id())
                accepted += 1
            else:
                accepted += not reject_report(self.db, worker, report)
        self._after()
        return accepted

    async def claim(
        self, worker: WorkerIdentity, queues: Sequence[str] | None, handlers: Sequence[str], limit: int
    ) -> list[Lease]:
        await self._statement()
        leases = lease_ready(self.db, Handover(worker, (), queues, handlers, limit))
        self._after()
        return leases

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        await step()
        known = ("generation", "inputs", "definition_hash", "tenant")
        return {j: JobFacts(*(self.db.jobs[j][key] for key in known)) for j in job_ids}

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        await step()
        node_row = self.db.nodes[job_id].get(node)
        has_batches = node_row is not None and node_row.batch_size is not None
        if node_row is None or node_row.status not in (*TERMINAL, *(("ready", "dispatched") if has_batches else ())):
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
        other_checkpoints = [saved for saved in self.db.checkpoints[key] if saved[0] != seq]
        self.db.checkpoints[key] = sorted([*other_checkpoints, (seq, name, data, lease.epoch)])
        self._after()
        return True

    async def send(self, job_id: str, kind: str, actor: str, reason: str, data: dict[str, Any] | None = None) -> int:
        await self._statement()
        if job_id not in self.db.jobs:
            raise NotFound(f"There is no job {job_id}.")
        owner = self.db.jobs[job_id]["owner"] or 0
        signal_id = self.db.send(job_id, kind, owner, actor=actor, reason=reason, data=data)
        self._after()
        return signal_id

    async def answer(self, signal_id: int) -> SignalAnswer | None:
        await step()
        return self.db.answers.get(signal_id)
