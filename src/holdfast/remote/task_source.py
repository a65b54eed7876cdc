"""Where a worker without a database gets its tasks: from the HTTP service. Keeps the promises of `worker/ports.py`.

While there is nothing to do, one claim waits at the service. Until it is answered, reports go alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from holdfast import failpoint
from holdfast.errors import NotFound, WorkerGone
from holdfast.remote.attempts import RemoteAttempts
from holdfast.remote.connection import PATIENCE_SECONDS
from holdfast.remote.work import Token, facts_of, held_of, lease_of, report_body
from holdfast.store.leases import Held
from holdfast.store.records import Lease, Report, WorkerIdentity
from holdfast.version import __version__
from holdfast.worker.ports import OnLocked

LONGEST_WAIT_SECONDS = 30.0
REPORTS_BYTES = 4 << 20
"""How much of reports one request carries: the service refuses requests that are much larger."""
AFTER_ALL_CLAIMS = 2**53
"""A time in microseconds since 1970."""
LONGEST_LEASE_SECONDS = 120.0
"""The longest lease that the service gives."""


class _Wish(NamedTuple):
    limit: int
    slots: int | None


class _Claimed(NamedTuple):
    leases: list[Lease]
    claimed_at: int


class RemoteTaskSource(RemoteAttempts):
    """One worker's way to the service. It makes one claim at a time, and makes it again if its answer is lost."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        wake: Callable[[], object] = lambda: None,
        wait_seconds: float = LONGEST_WAIT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`wake` is called when tasks have come for a claim that waited for `wait_seconds` at most.

        What a running attempt reads is asked for again for `patience_seconds`: beyond its lease that is of no use.
        """
        super().__init__(url, key, patience_seconds)
        self.wake = wake
        self._wait_seconds = min(wait_seconds, LONGEST_WAIT_SECONDS)
        self._claim_id: str | None = None
        """Of a claim whose answer has not arrived."""
        self._wish = _Wish(0, None)
        self._waiting: asyncio.Task[_Claimed] | None = None
        self._known_until = 0
        """When the worker has claimed what it knows of, by the database's clock."""
        self._cancelled: set[Held] = set()

    async def close(self) -> None:
        await self._stop_waiting()
        await self._connection.close()

    # The worker's own lease

    async def register_worker(
        self,
        name: str,
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        concurrency: int,
        lease_seconds: float,
    ) -> WorkerIdentity:
        await self._stop_waiting()
        body = {
            "name": name,
            "queues": list(queues) if queues is not None else None,
            "handlers": list(handlers),
            "concurrency": concurrency,
            "lease_seconds": lease_seconds,
            "version": __version__,
            "registration_id": uuid.uuid4().hex,
        }
        registration = await self._connection.send("register", body)
        self._worker_id, self._claim_id, self._known_until = registration["worker_id"], None, 0
        self.tokens.end_all_but(())
        return WorkerIdentity(self._worker_id, name)

    async def renew_worker(
        self,
        worker: WorkerIdentity,
        lease_seconds: float,
        held: Sequence[Held],
        changed_files: Sequence[str] | None = None,
    ) -> list[Held] | None:
        # Of what it does not list nothing goes back: the answer to a claim may be under way.
        changed = list(changed_files) if changed_files is not None else None
        await failpoint.hit("renew.before")
        answer = await self._renew(worker, leases=held, claimed_at=0, changed_files=changed)
        await failpoint.hit("renew.after")
        if answer is None:
            return None
        self._cancelled = self._named(answer["cancelled"])
        lost = self._named(answer["lost"])
        return [one for one in held if one not in lost]

    async def end_worker(self, worker: WorkerIdentity) -> None:
        await self._stop_waiting()
        with contextlib.suppress(WorkerGone, NotFound):
            await self._connection.send("leave", {"worker_id": worker.worker_id})

    async def _renew(self, worker: WorkerIdentity, **more: Any) -> Any:
        """The answer; None: the worker's lease has ended. Leases are listed by their names."""
        try:
            return await self._connection.send("renew", {"worker_id": worker.worker_id, **more})
        except (WorkerGone, NotFound):
            return None

    @staticmethod
    def _named(leases: Sequence[Any]) -> set[Held]:
        return {(job_id, node, item, epoch) for job_id, node, item, epoch in leases}

    # Tasks

    async def report_and_claim(
        self,
        worker: WorkerIdentity,
        reports: Sequence[Report],
        queues: Sequence[str] | None,
        handlers: Sequence[str],
        limit: int,
        slots: int | None,
        on_locked: OnLocked,
    ) -> tuple[int, list[Lease]]:
        self._wish = _Wish(limit, slots)
        if self._waiting is not None and (not self._waiting.done() or reports):
            accepted = await self.report(worker, reports, on_locked)
            return accepted, self._arrived() if self._waiting.done() else []
        if self._waiting is not None:
            return 0, self._arrived()
        if not limit:
            return await self.report(worker, reports, on_locked), []
        *earlier, last = self._grouped(reports) or [[]]
        accepted = 0
        for group in earlier:
            accepted += await self._report_group(worker, group, on_locked)
        fates, claimed = await self._claim(worker, last, self._wish, 0.0)
        accepted += self._settled([report for report, _ in last], fates, on_locked)
        leases = self._taken_on(claimed)
        if len(leases) < limit and self._claim_id is None:
            self._wish = _Wish(limit - len(leases), max(0, slots - len(leases)) if slots is not None else None)
            self._waiting = asyncio.create_task(self._wait(worker), name="holdfast claim")
            self._waiting.add_done_callback(lambda _: self.wake())
        return accepted, leases

    def _arrived(self) -> list[Lease]:
        """What the claim that waited has got."""
        assert self._waiting is not None
        ended, self._waiting = self._waiting, None
        return self._taken_on(ended.result())

    async def _wait(self, worker: WorkerIdentity) -> _Claimed:
        """Claim until there are tasks; each time for the slots that are free then."""
        while True:
            wish = self._wish if self._wish.limit else _Wish(1, 0)
            _, claimed = await self._claim(worker, (), wish, self._wait_seconds)
            if claimed.leases or self._claim_id is not None:
                return claimed
            self._taken_on(claimed)

    async def _claim(
        self, worker: WorkerIdentity, group: Sequence[tuple[Report, bytes]], wish: _Wish, wait_seconds: float
    ) -> tuple[list[str], _Claimed]:
        """If the answer is lost, the next claim has the same id, and gets the same tasks."""
        self._claim_id = self._claim_id or uuid.uuid4().hex
        body = {
            "worker_id": worker.worker_id,
            "claim_id": self._claim_id,
            "free": wish.limit,
            "slots": wish.slots,
            "wait_seconds": wait_seconds,
            "inputs_once": True,
            "reports": [orjson.Fragment(text) for _, text in group],
        }
        await failpoint.hit("report.before" if group else "claim.before")
        try:
            answer = await self._connection.send("claim", body, seconds=wait_seconds)
        except (WorkerGone, NotFound):
            # The heartbeat finds that out, too, and the worker registers again.
            return ["rejected"] * len(group), _Claimed([], 0)
        if group:
            await failpoint.hit("report.after_commit")
        if answer["tasks"]:
            await failpoint.hit("claim.after_commit")
        self._claim_id = None
        first_of = {task["job_id"]: task for task in reversed(answer["tasks"])}
        self._facts = {job_id: facts_of(task, answer["inputs"].get(job_id, {})) for job_id, task in first_of.items()}
        self._definitions = {task["definition_hash"]: task["lease"] for task in answer["tasks"]}
        for task in answer["tasks"]:
            self.tokens.add(held_of(task), Token(task["lease"], task["tenant"]))
        return answer["reports"], _Claimed([lease_of(task) for task in answer["tasks"]], answer["claimed_at"])

    def _taken_on(self, claimed: _Claimed) -> list[Lease]:
        """From now on the worker knows of these."""
        self._known_until = max(self._known_until, claimed.claimed_at)
        return claimed.leases

    async def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._waiting
            self._waiting = None

    async def report(
        self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked = lambda report: None
    ) -> int:
        accepted = 0
        for group in self._grouped(reports):
            accepted += await self._report_group(worker, group, on_locked)
        return accepted

    async def _report_group(
        self, worker: WorkerIdentity, group: Sequence[tuple[Report, bytes]], on_locked: OnLocked
    ) -> int:
        body = {"worker_id": worker.worker_id, "reports": [orjson.Fragment(text) for _, text in group]}
        await failpoint.hit("report.before")
        try:
            fates = (await self._connection.send("report", body))["reports"]
        except NotFound:
            fates = ["rejected"] * len(group)
        await failpoint.hit("report.after_commit")
        return self._settled([report for report, _ in group], fates, on_locked)

    def _grouped(self, reports: Sequence[Report]) -> list[list[tuple[Report, bytes]]]:
        """With the bytes that are sent, in parts that one request can carry. Others have no lease of ours."""
        groups: list[list[tuple[Report, bytes]]] = []
        size = REPORTS_BYTES
        for report in reports:
            text = report_body(self.tokens.of((report.job_id, report.node, report.item, report.epoch)) or "-", report)
            if size + len(text) > REPORTS_BYTES:
                groups.append([])
                size = 0
            groups[-1].append((report, text))
            size += len(text)
        return groups

    def _settled(self, reports: Sequence[Report], fates: Sequence[str], on_locked: OnLocked) -> int:
        """How many of them were accepted. Those that are locked can be sent again."""
        settled = []
        for report, fate in zip(reports, fates, strict=True):
            if fate == "locked":
                on_locked(report)
            else:
                settled.append((report.job_id, report.node, report.item, report.epoch))
        self.tokens.end(settled)
        return sum(fate == "taken" for fate in fates)

    async def reject(self, worker: WorkerIdentity, reports: Sequence[Report], on_locked: OnLocked) -> int:
        """There is no shortcut whose reports could be left."""
        return len(reports) - await self.report(worker, reports, on_locked)

    async def begin_late(self, worker: WorkerIdentity, held: Held) -> bool:
        answer = await self._renew(worker, begin=[held])
        return answer is not None and bool(answer["may_begin"])

    async def release_strays(self, worker: WorkerIdentity, held: Sequence[Held]) -> int:
        await self._renew(worker, leases=held, claimed_at=self._known_until)
        self.tokens.end_all_but(held if self._waiting is None else [*held, *self._just_claimed()])
        return 0

    def _just_claimed(self) -> list[Held]:
        """What has come and the worker does not know of yet."""
        if self._waiting is None or not self._waiting.done() or self._waiting.cancelled():
            return []
        if self._waiting.exception() is not None:
            return []
        return [(one.job_id, one.node, one.item, one.epoch) for one in self._waiting.result().leases]

    async def end_claims(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        await self._stop_waiting()
        await self._renew(worker, leases=held, claimed_at=AFTER_ALL_CLAIMS)

    async def cancelled_among(self, held: Sequence[Held]) -> list[Held]:
        """As the last renewal said, which a heartbeat sends just before."""
        return [one for one in held if one in self._cancelled]
