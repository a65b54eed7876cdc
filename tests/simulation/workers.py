"""Workers: they claim tasks, run them as the script says, and report."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.errors import Unreachable
from holdfast.store.interface import Store
from holdfast.store.records import Lease, Report, WorkerIdentity
from tests.simulation.environment import HANDLERS, LEASE_SECONDS, RENEW_SECONDS, Environment

OUTAGE_SECONDS = 15.0
SLOW_SECONDS = 6.0
UNDO_STEPS = 15
"""An undo has more steps than other tasks, so that more often something strikes it."""
LONGEST_SECONDS = SLOW_SECONDS + 0.5


class Workers(Environment):
    """The processes that run tasks."""

    async def _work(self) -> None:
        store = self._new_store()
        while True:
            try:
                started = self.db.time
                worker = await store.register_worker("worker", None, HANDLERS, 4, LEASE_SECONDS)
                await self._serve(store, worker, started)
            except Unreachable:
                await self._sleep(0.3)

    async def _serve(self, store: Store, worker: WorkerIdentity, started: float) -> None:
        """Claim, run, report, renew. The worker stops at the end of its lease, counted from before it asked for it."""
        lease_ends, renew_at = started + LEASE_SECONDS, started + RENEW_SECONDS
        held: list[Lease] = []
        while True:
            if self.db.time >= renew_at:
                asked_at = self.db.time
                held_keys = [(*h[:3], h.epoch) for h in held]
                still = await store.renew_worker(worker, LEASE_SECONDS, held_keys)
                if still is None:
                    return
                await store.release_strays(worker, held_keys)
                held = [h for h in held if (*h[:3], h.epoch) in still]
                lease_ends, renew_at = asked_at + LEASE_SECONDS, asked_at + RENEW_SECONDS
            if self.db.time >= lease_ends:
                return
            if not held:
                # If the answer is lost, the next renewal gives back the leases that this worker does not know.
                with contextlib.suppress(Unreachable):
                    held = await store.claim(worker, None, HANDLERS, self.chance.randint(1, 4))
            if not held:
                await self._idle(self.poll_seconds)
                continue
            count = self.chance.randint(1, len(held))
            batch, held = held[:count], held[count:]
            reports = await self._execute_all(store, worker, batch, lease_ends)
            if reports:
                await self._report(store, worker, reports)

    async def _execute_all(
        self, store: Store, worker: WorkerIdentity, leases: Sequence[Lease], lease_ends: float
    ) -> list[Report]:
        """Run tasks one after the other. Tasks that cannot begin before the lease ends become strays."""
        reports = []
        for lease in leases:
            if self.db.time >= lease_ends:
                break
            self.checkers.begun(worker.worker_id, (lease.job_id, lease.node, lease.item), lease.epoch)
            reports.append(await self._execute(store, lease))
        return reports

    async def _execute(self, store: Store, lease: Lease) -> Report:
        what = f"undo of {lease.node}" if lease.is_undo else lease.node
        outcome = self.script.outcome(self.numbers[lease.job_id], what, lease.item, *self._spent(lease))
        started = self.db.time
        await self._sleep(self.chance.random() * 0.5)
        for _ in range(UNDO_STEPS if lease.is_undo else 0):
            await self._breathe()
        self.checkers.executed((lease.job_id, lease.node, lease.item), lease.epoch)
        if outcome == "slow":
            await self._sleep(min(lease.timeout_seconds, SLOW_SECONDS))
            outcome = "transient"
        common = (lease.job_id, lease.node, lease.item, lease.epoch, lease.attempt)
        if self._is_down(lease):
            down = orjson.dumps({"code": "DEPENDENCY_DOWN", "message": "the gateway is down", "class": "transient"})
            return Report(*common, "failed", started, None, down)
        if lease.is_undo and outcome == "done":
            did = lease.params["output"]["did"]
            assert did == [lease.node, lease.item], f"25: {lease.node}[{lease.item}] is undone with the output of {did}"
            return Report(*common, "done", self.db.time, b"null")
        if outcome == "done":
            did = {"did": [lease.node, lease.item], "params": lease.params, "by": lease.handler}
            return Report(*common, "done", self.db.time, orjson.dumps(did | await self._read(store, lease)))
        if outcome == "dies":
            data = orjson.dumps({"code": "WORKER_LOST", "message": "as scripted"})
            return Report(*common, "lost", self.db.time, None, data, alone=True)
        failure_class = "permanent" if outcome == "permanent" else None
        data = orjson.dumps({"code": "HANDLER_ERROR", "message": "as scripted", "class": failure_class})
        return Report(*common, "failed", self.db.time, None, data)

    async def _read(self, store: Store, lease: Lease) -> dict[str, Any]:
        """Read the results that the task needs: a batch reads its page, the last task the results of all batches."""
        node = self._program(lease.job_id).nodes.get(lease.node)
        if node is None or node.batches is None:
            return {}
        every: dict[str, Any] = {"node": lease.node, "offset": 0, "limit": 1000}
        page = lease.params["page"] if lease.item >= 0 else every
        read: list[Any] = []
        saw: list[Any] = []
        after, until = page["offset"] - 1, page["offset"] + page["limit"]
        while results := await store.results_page(lease.job_id, page["node"], after, until, 2):
            outputs = [orjson.loads(result.output or b"null") for result in results]
            read += [output["did"] for output in outputs]
            saw += [output["params"] for output in outputs]
            after = results[-1].item
        return {"read": read, "saw": saw}

    def _is_down(self, lease: Lease) -> bool:
        """Whether the dependency of the task is down at this moment, so that its handler fails."""
        if lease.is_undo or self.seed % 3 or not self.troubled or self.db.time >= 1_000_000.0 + OUTAGE_SECONDS:
            return False
        return self._program(lease.job_id).breaker_of(lease.node, lease.item) is not None

    async def _report(self, store: Store, worker: WorkerIdentity, reports: list[Report]) -> None:
        """Send reports until there is an answer. Sometimes send them twice."""
        while True:
            try:
                await store.report(worker, reports)
                break
            except Unreachable:
                await self._breathe()
        if self.troubled and self.chance.random() < self.mix.duplicate:
            with contextlib.suppress(Unreachable):
                await store.report(worker, reports)
