"""An owner's transaction on Postgres: fence, claim, drain, load, write, commit; few round trips, set-based."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from holdfast import failpoint
from holdfast.core.breaking import Breaker
from holdfast.core.effects import WithdrawTasks
from holdfast.core.signals import (
    BatchesAsked,
    EndedTask,
    MatchedTask,
    Request,
    Selected,
    TaskCounts,
    TaskView,
    UnqueuedTask,
)
from holdfast.errors import Fenced, HistoryChanged, LostRace, Unreachable
from holdfast.store.arrays import failures, plain, texts
from holdfast.store.batch import Batch, Handover
from holdfast.store.breakers import breaker_of
from holdfast.store.columns import by_name, failure_of, records
from holdfast.store.connection import Answer, Connections, Statement
from holdfast.store.lanes import LaneIds
from holdfast.store.large import LargeValues
from holdfast.store.outage import unreachable
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query
from holdfast.store.records import (
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
from holdfast.store.selecting import batches_from, keys_from, matched_from, selected_from, selecting, selecting_batches
from holdfast.store.work import accepted_in, claim_statement, leases_of, report_statement
from holdfast.store.writing import BatchWriter

ROLE = "cycle"

HURRIED = b"set local lock_timeout = '20ms'"
"""For a job that is tried alone: if what it needs is locked, its neighbours wait no longer than that."""
GATHER_ROWS, GATHER_BYTES = 2000, 4 * 1024 * 1024
"""How much of a fan-out's results an owner reads at a time."""


class PostgresCycle:
    """One transaction at a time on the owner's own connection."""

    def __init__(
        self, connections: Connections, orchestrator_id: int, lanes: LaneIds, payloads: Payloads | None = None
    ) -> None:
        self._connections = connections
        self._me = orchestrator_id
        self._lanes = lanes
        self._is_open = False
        self._mark: int | None = None
        self._connection_number = 0
        self._floor = InboxFloor()
        self._floor_of_new = InboxFloor()
        self._large = LargeValues(payloads)
        self._writer = BatchWriter(orchestrator_id, self._large)

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
        await self.rollback()
        self._is_open = True
        self._large.forget()
        without = plain(aside)
        handed = [report_statement(handover.worker, handover.reports)] if handover is not None else []
        hurry: list[Statement] = [(HURRIED, {})] if is_hurried else []
        _, fence, *rest = await self._exchange(
            (b"begin", {}),
            (query("fence"), {"me": self._me, "mark": self._mark}),
            *hurry,
            *handed,
            (
                query("claim_jobs"),
                {"me": self._me, "floor": self._floor_of_new.current(), "limit": claim_limit, "aside": without},
            ),
            (query("claim_asked"), {"me": self._me, "limit": claim_limit}),
            (
                query("drain"),
                {
                    "me": self._me,
                    "floor": self._floor.current(),
                    "limit": drain_limit,
                    "aside": without,
                    "wide": wide.job_id if wide is not None else None,
                    "wide_limit": wide.limit if wide is not None else 0,
                },
            ),
        )
        *reported, unowned, asked, waiting = rest[len(hurry) :]
        if not fence.rows:
            await self.rollback()
            raise Fenced(f"orchestrator {self._me} was taken over")
        (row,) = by_name(fence)
        await self._compare_histories(knows_our_last_commit=row["knows_last_commit"])
        new, drained = records(SignalRow, unowned), records(SignalRow, waiting)
        claimed = {job.job_id: job for answer in (asked, unowned) for job in records(JobRow, answer, prefix="job_")}
        signals = sorted([*records(SignalRow, asked), *new]) if asked.rows else new
        self._writer.unowned = frozenset(signal.id for signal in signals)
        self._floor_of_new.saw(new)
        # What a wide job still has waiting is older than what was drained of the others.
        self._floor.saw([row for row in drained if wide is None or row.job_id == wide.job_id])
        self._large.saw(signals)
        self._large.saw(drained)
        await failpoint.hit("drain.after_open")
        accepted = accepted_in(reported[0]) if reported else frozenset()
        return Opened(float(row["now"]), list(claimed.values()), signals + drained, accepted)

    async def _compare_histories(self, *, knows_our_last_commit: bool) -> None:
        """Whether this is the database that our memory was learned from, on the connection on which it was learned.

        A reconnection alone may lead to another server: a standby that lacks our last commits, a restored copy. One
        behind a proxy or a pooler breaks no connection; but its rows do not have the random mark of our last commit.
        That one mark is enough, whatever server, timeline or copy this is: only we write the rows that we remember.
        """
        before, self._connection_number = self._connection_number, self._connections.connection_number(ROLE)
        if self._mark is None or (knows_our_last_commit and before == self._connection_number):
            return
        await self.rollback()
        self._mark = None
        self._floor, self._floor_of_new = InboxFloor(), InboxFloor()
        self._lanes.forget_all()
        if knows_our_last_commit:
            raise HistoryChanged("the connection to the database is a new one")
        raise HistoryChanged("this database does not have our last commit: it was restored, or a standby was promoted")

    async def with_full_output(self, report: SignalRow) -> SignalRow:
        assert report.data is not None
        return report._replace(output=await self._large.value(report.job_id, report.data["output_ref"]))

    async def owned(self, after: str | None, limit: int) -> list[str]:
        asked = {"me": self._me, "after": after or str(uuid.UUID(int=0)), "limit": limit}
        return [row["job_id"] for row in by_name(await self._fetch("owned_jobs", **asked))]

    async def load(self, job_ids: Sequence[str]) -> tuple[list[JobRow], list[NodeRow]]:
        ids = plain(job_ids)
        jobs, nodes = await self._exchange(
            (query("load_jobs"), {"jobs": ids, "me": self._me}), (query("load_nodes"), {"jobs": ids})
        )
        return records(JobRow, jobs), await self._nodes(nodes)

    async def breakers(self, keys: Sequence[str]) -> list[Breaker]:
        return [breaker_of(row) for row in by_name(await self._fetch("load_breakers", keys=texts(keys)))]

    async def examine(self, job_ids: Sequence[str]) -> dict[str, Examined]:
        self._lanes.forget()
        jobs = {"jobs": plain(job_ids)}
        statements = ("count_tasks", "unqueued_tasks", "ended_own_tasks")
        counted, unqueued, ended = await self._exchange(*((query(name), jobs) for name in statements))
        examined = {job_id: Examined({}, [], {}) for job_id in job_ids}
        for row, counts in zip(by_name(counted), records(TaskCounts, counted), strict=True):
            examined[row["job_id"]].counts[row["node"]] = counts
        for row, task in zip(by_name(unqueued), records(TaskView, unqueued), strict=True):
            error = failure_of(row["error"]) if row["error"] is not None else None
            lost = UnqueuedTask(row["node"], row["item"], task, error)
            examined[row["job_id"]].unqueued.append(lost)
        for row, own_task in zip(by_name(ended), records(EndedTask, ended), strict=True):
            if row["output_ref"] is not None:
                own_task = own_task._replace(output=await self._large.value(row["job_id"], row["output_ref"]))
            examined[row["job_id"]].ended[row["node"]] = own_task
        return examined

    async def select(
        self, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
    ) -> dict[str, Selected]:
        selected = selected_from(await self._fetch("select_tasks", **selecting(job_id, request, enqueued)))
        for asked in batches:
            answer = await self._fetch("select_batches", **selecting_batches(job_id, asked))
            selected[asked.node] = batches_from(answer)
        return selected

    async def plan_of_correction(self, job_id: str, plan_id: str) -> PlanRow | None:
        found = records(PlanRow, await self._fetch("plan_of_correction", job=job_id, plan=plan_id))
        return found[0] if found else None

    async def item_keys(self, job_id: str, node: str) -> list[tuple[int, str]]:
        return keys_from(await self._fetch("item_keys", job=job_id, node=node))

    async def matched_tasks(self, job_id: str, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
        answer = await self._fetch("matched_tasks", job=job_id, node=node, items=plain(items))
        return await matched_from(answer, lambda digest: self._large.text(job_id, digest))

    async def _nodes(self, answer: Answer) -> list[NodeRow]:
        nodes = records(NodeRow, answer)
        place = answer.columns.index("output_ref")
        for number, row in enumerate(answer.rows):
            if row[place] is not None:
                output = await self._large.value(nodes[number].job_id, row[place])
                nodes[number] = nodes[number]._replace(output=output)
        return nodes

    async def results(
        self, job_id: str, node: str, after: int, statuses: Sequence[str] = GATHERED
    ) -> tuple[list[Gathered], bool]:
        asked = {"job": job_id, "node": node, "after": after, "limit": GATHER_ROWS, "bytes": GATHER_BYTES}
        asked["statuses"] = texts(statuses)
        page = records(Gathered, await self._fetch("item_results", **asked))
        more = len(page) == GATHER_ROWS or sum(row.size_bytes for row in page) >= GATHER_BYTES
        for place, row in enumerate(page):
            if row.output_ref is not None:
                text = await self._large.text(job_id, row.output_ref)
                page[place] = row._replace(output=orjson.loads(text), size_bytes=len(text))
        return page, more

    async def write(self, batch: Batch) -> None:
        assert self._is_open, "a cycle writes only between open and commit: outside it nothing would be fenced"
        await self._exchange(*await self._statements(batch))

    async def commit(self, batch: Batch, handover: Handover | None = None) -> Committed:
        assert self._is_open, "a cycle writes only between open and commit: outside it nothing would be fenced"
        await failpoint.hit("decide.after_core")
        statements = await self._statements(batch)
        announcement: list[Statement] = [(b"notify holdfast_task", {})] if batch.makes_work else []
        statements += self._writer.outbox(batch)
        await failpoint.hit("commit.before")
        mark = secrets.randbits(63)
        statements += self._noting(mark)
        if batch.closes_cycle:
            statements.append((query("forget_open_cycle"), {"me": self._me}))
        commit: Statement = (b"commit", {})
        last = [commit, *announcement] if handover is None else [claim_statement(handover, gated=False), commit]
        answers = await self._exchange(*statements, *last)
        self._is_open = False
        self._mark = mark
        await failpoint.hit("commit.after")
        if handover is None:
            return Committed([], batch.makes_work)
        leases = leases_of(answers[-2])
        work_left = handover.leaves(batch, len(leases))
        if work_left:
            await self._exchange(*announcement)
        return Committed(leases, work_left)

    def _noting(self, mark: int) -> list[Statement]:
        """Leave the mark of this commit in the place of the one before."""
        noted = (query("note_commit"), {"me": self._me, "mark": mark, "former": self._mark})
        return [noted] if self._mark is not None else [(query("forget_commits"), {"me": self._me}), noted]

    async def _statements(self, batch: Batch) -> list[Statement]:
        return await self._writer.statements(batch, await self._lanes.of(batch.lanes))

    async def withdraw(self, withdrawals: Sequence[WithdrawTasks]) -> dict[str, dict[str, list[int]]]:
        withdrawals = sorted(withdrawals, key=lambda w: w.job_id)
        queued = {
            "job_id": plain(w.job_id for w in withdrawals),
            "leases_too": plain(w.leases_too for w in withdrawals),
            "status": plain(w.status for w in withdrawals),
            "error": failures(w.error for w in withdrawals),
            "node": texts(w.node for w in withdrawals),
        }
        answers = [await self._fetch("withdraw_queued", **queued)]
        ranges = [(w, *r) for w in withdrawals for r in w.unqueued]
        if ranges:
            unqueued = {
                "job_id": plain(r[0].job_id for r in ranges),
                "node": texts(r[1] for r in ranges),
                "first": plain(r[2] for r in ranges),
                "last": plain(r[3] for r in ranges),
                "status": plain(r[0].status for r in ranges),
                "error": failures(r[0].error for r in ranges),
            }
            answers.append(await self._fetch("withdraw_unqueued", **unqueued))
        waiting = [(w, node) for w in withdrawals for node in w.waiting]
        if waiting:
            columns = {
                "job_id": plain(w.job_id for w, _ in waiting),
                "node": texts(node for _, node in waiting),
                "status": plain(w.status for w, _ in waiting),
                "error": failures(w.error for w, _ in waiting),
            }
            answers.append(await self._fetch("withdraw_waiting", **columns))
        ended: dict[str, dict[str, list[int]]] = {w.job_id: {} for w in withdrawals}
        for row in (row for answer in answers for row in by_name(answer)):
            ended[row["job_id"]].setdefault(row["node"], []).append(row["item"])
        return ended

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(psycopg.Error, Unreachable):
                await self._connections.exchange(ROLE, (b"rollback", {}))

    async def _fetch(self, name: str, **parameters: Any) -> Answer:
        return (await self._exchange((query(name), parameters)))[0]

    async def _exchange(self, *statements: Statement) -> list[Answer]:
        """One round trip. When the connection breaks, its outcome is unknown: the caller must forget.

        Locked says that it changed nothing, because another session keeps a row locked.
        """
        try:
            return await self._connections.exchange(ROLE, *statements)
        except psycopg.errors.LockNotAvailable as error:
            raise unreachable(self._connections.url, error) from None
        except (psycopg.OperationalError, Unreachable) as error:
            self._is_open = False
            raise LostRace(f"the outcome of a cycle is not known: {error}") from error


class InboxFloor:
    """The id below which the inbox holds nothing any more, so that a read passes over the dead rows.

    Rows commit out of order: the floor lags a minute behind what was seen, and now and then a read ignores it.
    """

    LAG_SECONDS = 60.0
    FULL_READ_SECONDS = 5.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._floor = -1
        self._full_read_at = 0.0

    def current(self) -> int:
        now = time.monotonic()
        if now - self._full_read_at >= self.FULL_READ_SECONDS:
            self._full_read_at = now
            return -1
        while self._seen and now - self._seen[0][0] >= self.LAG_SECONDS:
            self._floor = max(self._floor, self._seen.popleft()[1])
        return self._floor

    def saw(self, signals: Sequence[SignalRow]) -> None:
        now = time.monotonic()
        if signals and (not self._seen or now - self._seen[-1][0] > 1.0):
            self._seen.append((now, signals[-1].id))
