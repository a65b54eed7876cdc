"""An owner's transaction on Postgres: fence, claim, drain, load, write, commit; few round trips, set-based."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import psycopg

from holdfast import failpoint
from holdfast.core.breaking import Breaker, BreakerState
from holdfast.core.effects import CreateTasks, Lane, ResetTasks, RestartNode, WithdrawTasks
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
from holdfast.core.states import Status
from holdfast.define.gates import BreakerRules
from holdfast.errors import Fenced, HistoryChanged, LostRace, Unreachable
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.connection import SYNC, Connections, Rows, Statement
from holdfast.store.interface import (
    GATHERED,
    RANK_LIMIT,
    Batch,
    Committed,
    Examined,
    Gathered,
    Handover,
    JobRow,
    NodeRow,
    Opened,
    SignalRow,
    Wide,
)
from holdfast.store.large import LargeValues
from holdfast.store.listener import ANYBODY
from holdfast.store.outage import unreachable
from holdfast.store.payloads import Payloads
from holdfast.store.queries import query
from holdfast.store.work import claim_statement, lease_of, report_statement

ROLE = "cycle"

HURRIED = b"set local lock_timeout = '20ms'"
"""For a job that is tried alone: if what it needs is locked, its neighbours wait no longer than that."""
GATHER_ROWS, GATHER_BYTES = 2000, 4 * 1024 * 1024
"""How much of a fan-out's results an owner reads at a time."""

_DENSE = 4
"""Signals lie close together if at most this many ids fall to each of them."""

_JSON = frozenset({"data", "error", "extra", "holds", "spent"})
_MAY_BE_LARGE = frozenset({"output", "result"})
# A node may be named null: unquoted, Postgres would take its name for none.
_TEXT = frozenset({"actor", "log", "name", "node", "reason", "remedy", "worker"})


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
        self._line = 0
        self._floor = InboxFloor()
        self._floor_of_new = InboxFloor()
        self._large = LargeValues(payloads)
        self._unowned: frozenset[int] = frozenset()

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
        *told, unowned, waiting = rest[len(hurry) :]
        if not fence:
            await self.rollback()
            raise Fenced(f"orchestrator {self._me} was taken over")
        await self._compare_histories(knows_our_last_commit=fence[0][1])
        width = len(SignalRow._fields)
        claimed = {row[1]: row[width:] for row in unowned}
        signals = [_signal_row(row[:width]) for row in unowned]
        drained = [_signal_row(row) for row in waiting]
        self._unowned = frozenset(row.id for row in signals)
        self._floor_of_new.saw(signals)
        # What a wide job still has waiting is older than what was drained of the others.
        self._floor.saw([row for row in drained if wide is None or row.job_id == wide.job_id])
        self._large.heard(signals)
        self._large.heard(drained)
        await failpoint.hit("drain.after_open")
        taken = frozenset(told[0][0][0] or ()) if told else frozenset()
        return Opened(float(fence[0][0]), [job_row(row) for row in claimed.values()], signals + drained, taken)

    async def _compare_histories(self, *, knows_our_last_commit: bool) -> None:
        """Whether this is the database that our memory was learned from, on the connection on which it was learned.

        A reconnection alone may lead to another server: a standby that lacks our last commits, a restored copy. One
        behind a proxy or a pooler breaks no connection; but its rows do not have the random mark of our last commit.
        That one mark is enough, whatever server, timeline or copy this is: only we write the rows that we remember.
        """
        line, self._line = self._line, self._connections.line_number(ROLE)
        if self._mark is None or (knows_our_last_commit and line == self._line):
            return
        await self.rollback()
        self._mark = None
        self._floor, self._floor_of_new = InboxFloor(), InboxFloor()
        self._lanes.forget_all()
        if knows_our_last_commit:
            raise HistoryChanged("the connection to the database is a new one")
        raise HistoryChanged("this database does not have our last commit: it was restored, or a standby was promoted")

    async def whole(self, report: SignalRow) -> SignalRow:
        assert report.data is not None
        return report._replace(output=await self._large.value(report.job_id, report.data["output_ref"]))

    async def owned(self, after: str | None, limit: int) -> list[str]:
        asked = {"me": self._me, "after": after or str(uuid.UUID(int=0)), "limit": limit}
        return [row[0] for row in await self._fetch("owned_jobs", **asked)]

    async def load(self, job_ids: Sequence[str]) -> tuple[list[JobRow], list[NodeRow]]:
        ids = plain(job_ids)
        jobs, nodes = await self._exchange(
            (query("load_jobs"), {"jobs": ids, "me": self._me}), (query("load_nodes"), {"jobs": ids})
        )
        return [job_row(row) for row in jobs], [await self._node_row(row) for row in nodes]

    async def breakers(self, names: Sequence[str]) -> list[Breaker]:
        return [breaker_of(row) for row in await self._fetch("load_breakers", names=texts(names))]

    async def examine(self, job_ids: Sequence[str]) -> dict[str, Examined]:
        self._lanes.forget()
        jobs = {"jobs": plain(job_ids)}
        statements = ("count_tasks", "unqueued_tasks", "ended_own_tasks")
        counted, unqueued, ended = await self._exchange(*((query(name), jobs) for name in statements))
        examined = {job_id: Examined({}, [], {}) for job_id in job_ids}
        for row in counted:
            examined[row[0]].counts[row[1]] = TaskCounts._make(row[2:])
        for row in unqueued:
            task = UnqueuedTask(row[1], row[2], TaskView._make(row[3:9]), _parsed(row[9]))
            examined[row[0]].unqueued.append(task)
        for row in ended:
            output = _parsed(row[4]) if row[6] is None else await self._large.value(row[0], row[6])
            examined[row[0]].ended[row[1]] = EndedTask(row[2], row[3], output, _parsed(row[5]))
        return examined

    async def select(
        self, job_id: str, request: Request, enqueued: int, batches: Sequence[BatchesAsked] = ()
    ) -> dict[str, Selected]:
        found = selected_from(await self._fetch("select_tasks", **selecting(job_id, request, enqueued)))
        for asked in batches:
            found[asked.node] = batches_from(await self._fetch("select_batches", **selecting_batches(job_id, asked)))
        return found

    async def _node_row(self, row: tuple[Any, ...]) -> NodeRow:
        *columns, reference = row
        output = _parsed(row[5]) if reference is None else await self._large.value(row[0], reference)
        return NodeRow._make(
            (*columns[:5], output, _parsed(row[6]), *columns[7:19], _parsed(columns[19]), *columns[20:])
        )

    async def results(
        self, job_id: str, node: str, after: int, statuses: Sequence[str] = GATHERED
    ) -> tuple[list[Gathered], bool]:
        asked = {"job": job_id, "node": node, "after": after, "limit": GATHER_ROWS, "bytes": GATHER_BYTES}
        asked["statuses"] = texts(statuses)
        rows = await self._fetch("item_results", **asked)
        page = []
        for item, status, output, reference, size in rows:
            text = output if reference is None else await self._large.text(job_id, reference)
            page.append(Gathered(item, status, _parsed(text), size if reference is None else len(text)))
        return page, len(rows) == GATHER_ROWS or sum(row[4] for row in rows) >= GATHER_BYTES

    async def write(self, batch: Batch) -> None:
        assert self._is_open, "a cycle writes only between open and commit: outside it nothing would be fenced"
        await self._exchange(*await self._statements(batch))

    async def commit(self, batch: Batch, handover: Handover | None = None) -> Committed:
        assert self._is_open, "a cycle writes only between open and commit: outside it nothing would be fenced"
        await failpoint.hit("decide.after_core")
        statements = await self._statements(batch)
        announcement: list[Statement] = [(b"notify holdfast_task", {})] if batch.makes_work else []
        await failpoint.hit("commit.before")
        mark = secrets.randbits(63)
        statements += self._noting(mark)
        if batch.closes_cycle:
            statements.append((query("forget_open_cycle"), {"me": self._me}))
        commit: Statement = (b"commit", {})
        last = [commit, *announcement] if handover is None else [claim_statement(handover, gated=False), commit]
        rows = await self._exchange(*statements, *last)
        self._is_open = False
        self._mark = mark
        await failpoint.hit("commit.after")
        if handover is None:
            return Committed([], batch.makes_work)
        leases = [lease_of(row) for row in rows[-2]]
        work_left = handover.leaves(batch, len(leases))
        if work_left:
            await self._exchange(*announcement)
        return Committed(leases, work_left)

    def _noting(self, mark: int) -> list[Statement]:
        """Leave the mark of this commit in the place of the one before."""
        noted = (query("note_commit"), {"me": self._me, "mark": mark, "former": self._mark})
        return [noted] if self._mark is not None else [(query("forget_commits"), {"me": self._me}), noted]

    async def _statements(self, batch: Batch) -> list[Statement]:
        lane_ids = await self._lanes.of(batch.lanes)
        statements = [
            *self._rows("write_jobs", batch.jobs),
            *self._rows("create_nodes", batch.new_nodes),
            *self._rows("write_nodes", batch.nodes),
            *self._rows("finish_tasks", batch.finished),
            *self._deleted(batch.handled),
            *((query("reset_tasks"), _reset(reset)) for reset in batch.resets),
            *((query("restart_node"), _restart(restart)) for restart in batch.restarts),
            *((query("skip_tasks"), {"job": one.job_id, "node": one.node}) for one in batch.skips),
            *self._created(batch.tasks),
            *self._rows("create_failed_tasks", batch.failed_tasks),
            *self._rows("enqueue_tasks", batch.enqueued, lane_ids),
            # One by one: two of one node must not queue the same tasks.
            *(one for row in batch.waiting for one in self._rows("enqueue_waiting", [row], lane_ids)),
            *self._rows("retry_tasks", batch.retried, lane_ids),
            *self._rows("release_tasks", batch.releases),
            *([(query("pause_tasks"), {"jobs": plain(batch.paused)})] if batch.paused else []),
            *self._rows("mark_jobs", batch.marks),
            *self._rows("write_attempts", batch.attempts),
            *self._rows("write_events", batch.events),
            *self._rows("write_answers", batch.answers),
            *([(query("write_breakers"), breaker_columns(batch.breakers))] if batch.breakers else []),
            *([(query("survived"), {"jobs": plain(batch.survived)})] if batch.survived else []),
        ]
        # The objects are there before any row refers to them; those of a cycle that fails go with their job.
        statements += await self._large.store(batch.finished)
        return statements

    def _deleted(self, handled: Sequence[int]) -> list[Statement]:
        """Signals that were handled: each had no owner when this cycle opened, or was ours."""
        unowned = [signal_id for signal_id in handled if signal_id in self._unowned]
        ours = [signal_id for signal_id in handled if signal_id not in self._unowned]
        return [*self._deleted_of(ANYBODY, unowned), *self._deleted_of(self._me, ours)]

    def _deleted_of(self, owner: int, handled: Sequence[int]) -> list[Statement]:
        if not handled:
            return []
        first, last, ids = min(handled), max(handled), plain(handled)
        if last - first <= _DENSE * len(handled):
            return [(query("delete_dense_signals"), {"owner": owner, "id": ids, "first": first, "last": last})]
        return [(query("delete_signals"), {"owner": plain([owner] * len(handled)), "id": ids})]

    def _rows(self, name: str, rows: Sequence[Any], lane_ids: dict[Lane, int] | None = None) -> list[Statement]:
        """Named tuples as one array per field; the statement's parameters have the fields' names."""
        if not rows:
            return []
        parameters: dict[str, Any] = {"me": self._me, "rank_limit": RANK_LIMIT}
        for field, values in zip(rows[0]._fields, zip(*rows, strict=True), strict=True):
            if values[0] is None and values.count(None) == len(values):
                # `unnest` fills up an array that is too short with nulls.
                parameters[field] = "{}"
                if field in _MAY_BE_LARGE:
                    parameters[f"{field}_ref"] = "{}"
            elif field in _MAY_BE_LARGE:
                parameters |= self._values(field, [row.job_id for row in rows], values)
            elif field in _JSON:
                parameters[field] = jsons(values)
            elif field in _TEXT:
                parameters[field] = texts(values)
            elif field == "lane":
                assert lane_ids is not None
                parameters["lane_id"] = plain([lane_ids[lane] for lane in values])
            elif field == "taken":
                parameters[field] = texts([texts(names) if names else "{}" for names in values])
            else:
                parameters[field] = plain(values)
        return [(query(name), parameters)]

    def _created(self, created: Sequence[CreateTasks]) -> list[Statement]:
        """One row for each of the params."""
        if not created:
            return []
        job_ids = [tasks.job_id for tasks in created for _ in tasks.params]
        contracts = [tasks.has_contract for tasks in created for _ in tasks.params]
        parameters = {
            "job_id": plain(job_ids),
            "node": texts([tasks.node for tasks in created for _ in tasks.params]),
            "item": plain([tasks.first + n for tasks in created for n in range(len(tasks.params))]),
            "epoch": plain([tasks.epoch for tasks in created for _ in tasks.params]),
            "attempt": plain([tasks.attempt for tasks in created for _ in tasks.params]),
            # `unnest` fills up an array that is too short with nulls: where no task has a contract, that is enough.
            "has_contract": plain(contracts) if any(contracts) else "{}",
            **self._values("params", job_ids, [params for tasks in created for params in tasks.params]),
        }
        return [(query("create_tasks"), parameters)]

    def _values(self, column: str, job_ids: Sequence[str], values: Iterable[Any]) -> dict[str, str]:
        """A column of JSON values, and the digests of those that are too large for a row."""
        kept, references = self._large.taken_out(job_ids, values)
        return {column: jsons(kept), f"{column}_ref": references}

    async def withdraw(self, withdrawals: Sequence[WithdrawTasks]) -> dict[str, dict[str, list[int]]]:
        withdrawals = sorted(withdrawals, key=lambda w: w.job_id)
        queued = {
            "job_id": plain(w.job_id for w in withdrawals),
            "leases_too": plain(w.leases_too for w in withdrawals),
            "status": plain(w.status for w in withdrawals),
            "error": jsons(w.error for w in withdrawals),
            "node": texts(w.node for w in withdrawals),
        }
        rows = await self._fetch("withdraw_queued", **queued)
        ranges = [(w, *r) for w in withdrawals for r in w.unqueued]
        if ranges:
            unqueued = {
                "job_id": plain(r[0].job_id for r in ranges),
                "node": texts(r[1] for r in ranges),
                "first": plain(r[2] for r in ranges),
                "last": plain(r[3] for r in ranges),
                "status": plain(r[0].status for r in ranges),
                "error": jsons(r[0].error for r in ranges),
            }
            rows += await self._fetch("withdraw_unqueued", **unqueued)
        waiting = [(w, node) for w in withdrawals for node in w.waiting]
        if waiting:
            columns = {
                "job_id": plain(w.job_id for w, _ in waiting),
                "node": texts(node for _, node in waiting),
                "status": plain(w.status for w, _ in waiting),
                "error": jsons(w.error for w, _ in waiting),
            }
            rows += await self._fetch("withdraw_waiting", **columns)
        ended: dict[str, dict[str, list[int]]] = {w.job_id: {} for w in withdrawals}
        for job_id, node, item in rows:
            ended[job_id].setdefault(node, []).append(item)
        return ended

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(psycopg.Error, Unreachable):
                await self._connections.exchange(ROLE, (b"rollback", {}))

    async def _fetch(self, name: str, **parameters: Any) -> Rows:
        return (await self._exchange((query(name), parameters)))[0]

    async def _exchange(self, *statements: Statement) -> list[Rows]:
        """One round trip. When the connection breaks, its outcome is unknown: the caller must forget.

        Locked says that it changed nothing, because another session keeps a row locked.
        """
        try:
            return [answer.rows for answer in await self._connections.exchange(ROLE, *statements)]
        except psycopg.errors.LockNotAvailable as error:
            raise unreachable(self._connections.url, error) from None
        except (psycopg.OperationalError, Unreachable) as error:
            self._is_open = False
            raise LostRace(f"the outcome of a cycle is not known: {error}") from error


def selecting(job_id: str, request: Request, enqueued: int) -> dict[str, Any]:
    """The parameters of `select_tasks`."""
    return {
        "job": job_id,
        "node": request.named,
        "items": plain(request.items) if request.items else None,
        "code": request.code,
        "fingerprint": request.fingerprint,
        "enqueued": enqueued,
    }


def selected_from(rows: Rows) -> dict[str, Selected]:
    """What `select_tasks` found, by node."""
    found: dict[str, Selected] = {}
    for node, status, chosen, refused, epoch, attempt, *since in rows:
        known = found.setdefault(node, Selected({}))
        known.chosen[status] = chosen
        found[node] = _since(known, status, since)._replace(
            refused=known.refused + refused,
            last_epoch=max(known.last_epoch, epoch),
            last_attempt=max(known.last_attempt, attempt),
        )
    return found


def selecting_batches(job_id: str, asked: BatchesAsked) -> dict[str, Any]:
    """The parameters of `select_batches`."""
    of_fan_out = asked.of_fan_out or Selection(())
    return {
        "job": job_id,
        "node": asked.node,
        "enqueued": asked.enqueued,
        **_selection(asked.selection),
        "fan_out": asked.fan_out,
        "fan_out_enqueued": asked.fan_out_enqueued,
        "page_size": asked.page_size,
        **{f"of_{name}": value for name, value in _selection(of_fan_out).items()},
    }


def batches_from(rows: Rows) -> Selected:
    """What `select_batches` found."""
    found = Selected({})
    for status, chosen, refused, epoch, attempt, touched, *since in rows:
        found.chosen[status] = chosen
        found = _since(found, status, since)._replace(
            refused=found.refused + refused,
            last_epoch=max(found.last_epoch, epoch),
            last_attempt=max(found.last_attempt, attempt),
            touched=tuple(sorted((*found.touched, *(touched or ())))),
        )
    return found


def _since(found: Selected, status: str, since: Sequence[float | None]) -> Selected:
    """Since when there are results, of the tasks that are meant and of all."""
    if status != Status.COMPLETED:
        return found
    return found._replace(completed_since=since[0], node_completed_since=since[1])


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


class LaneIds:
    """The numbers of lanes, learnt once; new lanes are made outside the cycle, so that a rollback loses none."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: dict[Lane, int] = {}
        self._used: set[Lane] = set()
        self._used_before: set[Lane] = set()

    async def of(self, lanes: set[Lane]) -> dict[Lane, int]:
        # Again if another owner of this process forgets them meanwhile.
        while missing := [lane for lane in lanes if lane not in self._known]:
            ensured = (
                query("ensure_lanes"),
                {
                    "queue": texts(lane.queue for lane in missing),
                    "handler": texts(lane.handler for lane in missing),
                    "tenant": texts(lane.tenant for lane in missing),
                    "breaker": texts(lane.breaker for lane in missing),
                    "limit_key": texts(lane.limit_key for lane in missing),
                },
            )
            try:
                *_, known = await self._connections.exchange(
                    "main", ensured, SYNC, *_limits_of(missing), (query("all_lanes"), {})
                )
            except psycopg.OperationalError as error:
                raise unreachable(self._connections.url, error) from None
            ids = {row[1:]: row[0] for row in known.rows}
            self._known |= {lane: ids[(*lane[:4], lane.limit_key)] for lane in missing}
        self._used |= lanes
        return self._known

    def forget_all(self) -> None:
        """In another history the same numbers may be those of other lanes."""
        self._known.clear()
        self._used.clear()
        self._used_before.clear()

    def recently_used(self) -> list[int]:
        """The lanes that rows were put into since the last call but one: a floor is raised in two steps."""
        used = self._used | self._used_before
        self._used_before, self._used = self._used, set()
        return sorted(self._known[lane] for lane in used if lane in self._known)

    def forget(self) -> None:
        """A person may have deleted some: the next call asks again, and makes those that are missing."""
        self._known = {}


def _limits_of(lanes: Sequence[Lane]) -> list[Statement | None]:
    """Limits are declared with the lanes that they hold back."""
    declared = {(lane.tenant, limit.name): limit for lane in lanes for limit in lane.limits}
    if not declared:
        return []
    limits = list(declared.values())
    columns = {
        "tenant": texts(tenant for tenant, _ in declared),
        "name": texts(limit.name for limit in limits),
        "concurrency": plain(limit.concurrency for limit in limits),
        "rate": plain(limit.rate for limit in limits),
        "burst": plain(limit.burst for limit in limits),
    }
    return [(query("declare_limits"), columns), SYNC]


def _reset(row: ResetTasks) -> dict[str, Any]:
    return {
        "job": row.job_id,
        "node": row.node,
        "enqueued": row.enqueued,
        **_selection(row.selection),
    }


def _selection(selection: Selection) -> dict[str, Any]:
    return {
        "statuses": texts(selection.statuses),
        "items": None if selection.items is None else plain(selection.items),
        "code": selection.code,
        "fingerprint": selection.fingerprint,
        "also": plain(selection.also),
        "items_only": selection.items_only,
    }


def _restart(row: RestartNode) -> dict[str, Any]:
    return {"job": row.job_id, "node": row.node, "own_only": row.own_only}


def _parsed(text: str | bytes | None) -> Any:
    return None if text is None else orjson.loads(text)


def job_row(row: tuple[Any, ...]) -> JobRow:
    return JobRow._make((*row[:9], orjson.loads(row[9]), _parsed(row[10]), *row[11:18], orjson.loads(row[18]), row[19]))


def node_row(row: tuple[Any, ...]) -> NodeRow:
    """From the columns of `load_nodes`, without the output."""
    return NodeRow._make((*row[:5], None, _parsed(row[6]), *row[7:19], _parsed(row[19]), *row[20:-1]))


def _signal_row(row: tuple[Any, ...]) -> SignalRow:
    return SignalRow._make((*row[:11], _parsed(row[11]), _parsed(row[12]), *row[13:]))


def breaker_of(row: tuple[Any, ...]) -> Breaker:
    """From the columns of `load_breakers`."""
    name, state, settings, calls, successes, changed_at, until, held, reason = row
    return Breaker(
        rules=BreakerRules.from_json({**orjson.loads(settings), "name": name}),
        state=BreakerState(state),
        window=[(at, failed) for at, failed in orjson.loads(calls)],
        successes=successes,
        changed_at=changed_at,
        until=until,
        held=held,
        reason=reason,
    )


def breaker_columns(breakers: Sequence[Breaker], actor: str | None = None) -> dict[str, str]:
    """The parameters of `write_breakers`; `actor` is the person who changed them, if one did."""
    return {
        "name": texts(breaker.name for breaker in breakers),
        "state": plain(breaker.state for breaker in breakers),
        "calls": jsons(breaker.window for breaker in breakers),
        "successes": plain(breaker.successes for breaker in breakers),
        "changed_at": plain(breaker.changed_at for breaker in breakers),
        "until": plain(breaker.until for breaker in breakers),
        "held": plain(breaker.held for breaker in breakers),
        "reason": texts(breaker.reason for breaker in breakers),
        "actor": texts([actor] * len(breakers)),
    }
