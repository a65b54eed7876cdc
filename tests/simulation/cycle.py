"""An owner's transaction on the model's database.

Statements of other processes may run between any two steps of a cycle. The writes of a cycle become visible at
its commit. Other statements skip its locked rows or wait for them, as in Postgres.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from holdfast.core.breaking import Breaker
from holdfast.core.effects import ResetTasks, RestartNode, SkipTasks, WithdrawTasks
from holdfast.core.signals import BatchesAsked, MatchedTask, Request, Selected
from holdfast.errors import Fenced, HistoryChanged, LostRace
from holdfast.store.batch import Batch, Handover
from holdfast.store.records import (
    ASKED_KINDS,
    GATHERED,
    Committed,
    Examined,
    Gathered,
    JobRow,
    NodeRow,
    Opened,
    PlanRow,
    SignalRow,
    Wide,
)
from tests.simulation.database import Database, Key, Transaction, step
from tests.simulation.examination import examined
from tests.simulation.leases import lease_ready
from tests.simulation.reports import HandedReport, apply_report, is_accepted, report_row
from tests.simulation.selection import item_keys, matched_tasks, select
from tests.simulation.writes import apply_batch, apply_withdrawal, withdrawn

GATHER_ROWS = 3
"""The rows of one page of results; few, so that gathering takes several pages."""
Entry = Batch | HandedReport | tuple[WithdrawTasks, list[Key]]
"""One of the writes that wait for the commit."""


def apply_entry(db: Database, me: int, entry: Entry) -> None:
    if isinstance(entry, Batch):
        apply_batch(db, me, entry)
    elif isinstance(entry, HandedReport):
        apply_report(db, entry.worker, entry.report, entry.row, entry.signal_id)
    else:
        apply_withdrawal(db, *entry)


def _unqueued_nodes(batch: Batch) -> set[tuple[str, str]]:
    """The nodes whose rows the batch deletes from the queue."""
    rows: list[ResetTasks | RestartNode | SkipTasks] = [*batch.resets, *batch.restarts, *batch.skips]
    return {(row.job_id, row.node) for row in rows}


class ModelCycle(Transaction):
    """Keeps the promises of `interface.Cycle`: locks at once, writes at the commit."""

    def __init__(self, database: Database, orchestrator_id: int) -> None:
        super().__init__(database, orchestrator_id)
        self._log: list[Entry] = []
        self._handed: dict[int, dict[str, Any]] = {}
        self._is_open = False
        self._opened_at = 0.0
        self._asked: set[int] = set()
        self._mark: int | None = None
        self._reconnects = False

    async def _step(self) -> None:
        await step()
        if not self._is_open:
            self._reconnects = True
            raise LostRace("the transaction was ended while its process slept")
        self.active_at = self.db.time

    def abort(self) -> None:
        super().abort()
        self._is_open = False
        self._log, self._handed = [], {}

    async def open(
        self,
        claim_limit: int,
        drain_limit: int,
        aside: Sequence[str] = (),
        handover: Handover | None = None,
        wide: Wide | None = None,
        *,
        is_hurried: bool = False,
    ) -> Opened:
        self.abort()
        await step()
        if self.db.orchestrators.get(self.me, {"ended": True})["ended"]:
            raise Fenced(f"orchestrator {self.me} was taken over")
        self._compare_histories()
        self._is_open, self.active_at = True, self.db.time
        self.db.transactions.append(self)
        now = self._opened_at = self.db.now
        await self._step()
        accepted = await self._accept(handover) if handover is not None else frozenset()
        unowned = await self._claim(claim_limit, aside)
        claimed = [self._job_row(job_id) for job_id in sorted({self.db.inbox[i]["job_id"] for i in unowned})]
        signals = [self._signal(i) for i in unowned]
        await self._step()
        signals += [self._signal(i) for i in self._drained(drain_limit, aside, wide)]
        return Opened(now, claimed, signals, accepted)

    def _compare_histories(self) -> None:
        if self._mark is None or (self.db.marks.get(self.me) == self._mark and not self._reconnects):
            return
        self._mark = None
        raise HistoryChanged("another connection, or another database")

    async def owned(self, after: str | None, limit: int) -> list[str]:
        await self._step()
        mine = [j for j, row in self.db.jobs.items() if row["owner"] == self.me and row["finished_at"] is None]
        return sorted(j for j in mine if j > (after or ""))[:limit]

    async def _accept(self, handover: Handover) -> frozenset[int]:
        """Accept reports inside this transaction; waits for rows that others have locked."""
        keys = [(r.job_id, r.node, r.item) for r in handover.reports]
        while any(self.db.row_locked(key) for key in keys):
            await self._step()
        accepted = set()
        for number, report in enumerate(handover.reports):
            if is_accepted(self.db, handover.worker, report):
                entry = HandedReport(
                    handover.worker, report, report_row(self.db, handover.worker, report), self.db.new_id()
                )
                self.locked_rows.add(keys[number])
                self._handed[entry.signal_id] = entry.row
                self._log.append(entry)
                accepted.add(number)
        await self._step()
        return frozenset(accepted)

    async def _claim(self, limit: int, aside: Sequence[str]) -> list[int]:
        """Lock jobs without an owner, then their signals; returns the signals. Skips jobs that others have locked."""
        only = self.db.orchestrators[self.me]["only_job"]
        unowned = {i: r["job_id"] for i, r in sorted(self.db.inbox.items()) if r["owner"] == 0}
        asked = [i for i, job in unowned.items() if self.db.inbox[i]["kind"] in ASKED_KINDS and only in (None, job)]
        others = [i for i, job in unowned.items() if i not in asked and job not in aside and only in (None, job)]
        await self._step()
        waits = {unowned[i] for i in asked} if len(asked) >= limit else set()
        new = self._lock([i for i in others if unowned[i] not in waits], unowned, limit)
        await self._step()
        claimed = sorted(new | self._lock(asked, unowned, limit))
        # Of a job that was set aside only a cancel counts; it does nothing until its turn comes. A job of which more is
        # asked than one claim reads is read in parts.
        in_parts = {unowned[i] for i in asked[limit:]}
        self._asked = {i for i in asked if unowned[i] in self.locked_jobs - set(aside) - in_parts}
        return claimed

    def _lock(self, signals: Sequence[int], job_of: Mapping[int, str], limit: int) -> set[int]:
        """Lock the jobs of signals, unless another transaction has locked or claimed them, and these signals."""
        locked = {job for t in self.db.transactions if t is not self for job in t.locked_jobs}
        free = [i for i in signals if job_of[i] not in locked and self.db.jobs[job_of[i]]["owner"] is None][:limit]
        self.locked_jobs |= {job_of[i] for i in free}
        found = {i for i in free if i in self.db.inbox}
        self.locked_signals |= found
        return found

    def _drained(self, limit: int, aside: Sequence[str], wide: Wide | None) -> list[int]:
        """Waiting signals of the jobs that this orchestrator owns; those of a wide job come last."""
        visible = self.db.inbox | self._handed
        waiting = {i: r for i, r in sorted(visible.items()) if r["job_id"] not in aside or r["kind"] in ASKED_KINDS}
        mine = [i for i, r in waiting.items() if r["owner"] == self.me]
        of_wide = [i for i in mine if wide is not None and waiting[i]["job_id"] == wide.job_id]
        rest = [i for i in mine if i not in set(of_wide)][:limit]
        return rest + of_wide[: wide.limit if wide is not None else 0]

    def committed_rows(self, job_id: str) -> tuple[JobRow, list[NodeRow]]:
        """The committed rows of a job, without a lock."""
        return self._job_row(job_id), list(self.db.nodes[job_id].values())

    def _job_row(self, job_id: str) -> JobRow:
        job = self.db.jobs[job_id]
        return JobRow(
            job_id, job["tenant"], job["definition_hash"], job["status"], job["priority"], job["run"],
            job["generation"], job["owner"], job["epoch"], job["inputs"], job["error"], job["created_at"],
            job["started_at"], job["deadline_at"], job["stop_cause"], job["stop_until"], job["stop_leases_ended"],
            job["stop_signal"], job["holds"],
            self.db.events[job_id][-1][0], job["recovered_at"], job["undo"], job["notify"],
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
        """Lock and read breakers; waits for those that another transaction has locked."""
        await self._step()
        while any(set(names) & t.locked_breakers for t in self.db.transactions if t is not self):
            await self._step()
        self.locked_breakers |= set(names) & self.db.breakers.keys()
        return [copy.deepcopy(self.db.breakers[name]) for name in names if name in self.db.breakers]

    async def with_full_output(self, report: SignalRow) -> SignalRow:
        raise AssertionError("the model keeps every output in its row")

    async def load(self, job_ids: Sequence[str]) -> tuple[list[JobRow], list[NodeRow]]:
        await self._step()
        jobs = [self._job_row(j) for j in job_ids if j in self.db.jobs and self.db.jobs[j]["owner"] == self.me]
        await self._step()
        nodes = [row for job_id in job_ids for row in self.db.nodes[job_id].values()]
        return jobs, nodes

    async def examine(self, job_ids: Sequence[str]) -> dict[str, Examined]:
        await self._step()
        signals = (self.db.inbox | self._handed).values()
        return {job_id: examined(self.db, job_id, signals) for job_id in job_ids}

    async def select(
        self, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
    ) -> dict[str, Selected]:
        await self._step()
        return select(self._view(), job_id, request, enqueued, batches)

    def _view(self) -> Database:
        """The database as this transaction sees it: the committed rows and its own writes."""
        view = self.db.snapshot()
        view.history.decided_at = self._opened_at
        for entry in self._log:
            apply_entry(view, self.me, entry)
        return view

    async def plan_of_correction(self, job_id: str, plan_id: str) -> PlanRow | None:
        await self._step()
        return self.db.plans.get((job_id, plan_id))

    async def item_keys(self, job_id: str, node: str) -> list[tuple[int, str]]:
        await self._step()
        return item_keys(self.db, job_id, node)

    async def matched_tasks(self, job_id: str, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
        await self._step()
        return matched_tasks(self.db, job_id, node, items)

    async def results(
        self, job_id: str, node: str, after: int, statuses: Sequence[str] = GATHERED
    ) -> tuple[list[Gathered], bool]:
        await self._step()
        tasks = {item: task for (name, item), task in self.db.tasks[job_id].items() if name == node and item > after}
        page = [
            Gathered(item, task["status"], task["output"], len(orjson.dumps(task["output"])))
            for item, task in sorted(tasks.items())
            if task["status"] in statuses and task["gone"] is None
        ]
        return page[:GATHER_ROWS], len(page) > GATHER_ROWS

    async def write(self, batch: Batch) -> None:
        await self._step()
        self._log.append(copy.deepcopy(batch))

    async def withdraw(self, withdrawals: Sequence[WithdrawTasks]) -> dict[str, dict[str, list[int]]]:
        await self._step()
        ended: dict[str, dict[str, list[int]]] = {}
        for withdrawal in withdrawals:
            keys = withdrawn(self._view(), withdrawal)
            while any(key in t.locked_rows for t in self.db.transactions if t is not self for key in keys):
                await self._step()
                keys = withdrawn(self._view(), withdrawal)
            self.locked_rows |= set(keys)
            self._log.append((withdrawal, keys))
            # Two signals of one cycle may each stop the job: the tasks that the first one withdrew count, too.
            ended.setdefault(withdrawal.job_id, defaultdict(list))
            for _, node, item in keys:
                ended[withdrawal.job_id][node].append(item)
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
            self._reconnects = True
            raise LostRace("the commit failed")
        self.db.history.decided_at = self._opened_at
        for entry in log:
            apply_entry(self.db, self.me, entry)
        for notice in copy.deepcopy(list(batch.notices.values())):
            self.db.outbox[notice.job_id].append(notice)
        self.db.history.passed_over += [i for i in self._asked if self._passed_over(i)]
        leases = lease_ready(self.db, handover, gated=False) if handover is not None else []
        mark = self.db.marks[self.me] = self.db.draw()
        if batch.closes_cycle:
            self.db.open_cycles.pop(self.me, None)
        if outcome == "unknown":
            self._reconnects = True
            self.db.history.commits_unknown += 1
            raise LostRace("the connection broke before the commit was acknowledged")
        self._mark, self._reconnects = mark, False
        return Committed(leases, handover.leaves(batch, len(leases)) if handover is not None else batch.makes_work)

    def _passed_over(self, signal_id: int) -> bool:
        """Whether this cycle has claimed a job and left unread what was asked of it before."""
        row = self.db.inbox.get(signal_id)
        return row is not None and self.db.jobs[row["job_id"]]["owner"] == self.me

    def _waits_for(self, log: Sequence[Entry]) -> bool:
        """Whether others have locked rows that these writes delete from the queue."""
        nodes = {key for entry in log if isinstance(entry, Batch) for key in _unqueued_nodes(entry)}
        return any(key[:2] in nodes for t in self.db.transactions if t is not self for key in t.locked_rows)

    async def rollback(self) -> None:
        self.abort()
