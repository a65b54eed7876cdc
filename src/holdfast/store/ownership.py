"""Orchestrators: their leases, the jobs that they own, and the upkeep that each of them does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import orjson

from holdfast.core.breaking import let_try
from holdfast.define.gates import BreakerRules, breaker_key
from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.breakers import breaker_of, changing
from holdfast.store.columns import by_name
from holdfast.store.connection import SYNC
from holdfast.store.cycle import PostgresCycle
from holdfast.store.dangers import Dangers
from holdfast.store.leases import LEASE_SLACK_SECONDS
from holdfast.store.queries import query
from holdfast.store.records import OpenedGates
from holdfast.store.session import PostgresSession
from holdfast.version import __version__


class PostgresOwnership(PostgresSession):
    """Keeps the promises of `interface.OwnerStore`."""

    def cycle(self, orchestrator_id: int) -> PostgresCycle:
        return PostgresCycle(self.connections, orchestrator_id, self._lanes, self.payloads)

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

    async def declare_breakers(self, tenant: str, breakers: Sequence[BreakerRules]) -> None:
        """Make breakers of a tenant known; one that exists keeps its state."""
        await self._execute(
            "declare_breakers",
            key=texts(breaker_key(tenant, rules.name) for rules in breakers),
            tenant=tenant,
            settings=jsons(rules.to_json() for rules in breakers),
            probes=plain(rules.probes for rules in breakers),
        )

    async def subscriptions(self) -> dict[str, frozenset[str]]:
        """The events that the webhooks of each tenant subscribe to, and those that all tenants' hooks get."""
        return {row["tenant"]: frozenset(row["events"]) for row in await self._fetch("subscriptions")}

    async def announce_hooks(self, hooks: Sequence[str]) -> None:
        """Make hooks that this process has known to all owners."""
        await self._execute("announce_hooks", hooks=texts(hooks))

    async def open_gates(self) -> OpenedGates:
        """Let breakers be tried whose cooldown is over."""
        waits, answer = await self._exchange("main", (query("limited_work_waits"), {}), (query("shut_breakers"), {}))
        rows = by_name(answer)
        shut = [breaker_of(row) for row in rows]
        due = [breaker.key for breaker, row in zip(shut, rows, strict=True) if let_try(breaker, row["now"])]
        may_find = by_name(waits)[0]["waits"]
        if due:
            async with changing(self.connections, due, let_try, leave_locked=True) as (_, tried):
                may_find = may_find or bool(tried)
        if may_find:
            await self.notify_workers()
        return OpenedGates(may_find, {breaker.key: breaker.until for breaker in shut})

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
