"""The part of the client over a URL about what holds tasks back, and about the janitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.operations import upkeep
from holdfast.operations.gates import BreakerVerb
from holdfast.operations.verbs import ANSWER_SECONDS, Verb
from holdfast.remote.base import Remote, path_of, query_of
from holdfast.views.defaults import TenantDefaults
from holdfast.views.gates import Breaker, Limit, PausedQueue
from holdfast.views.pausing import JobsPlan, JobsResult, PauseChange
from holdfast.views.upkeep import JanitorLog, JanitorPass

LONGEST_WAIT_SECONDS = 60.0
EVERYTHING = "all"


class RemoteGates(Remote):
    """What holds tasks back, and the janitor."""

    async def breakers(self) -> list[Breaker]:
        return await self._list(Breaker, "/breakers")

    async def change_breaker(self, name: str, verb: BreakerVerb, *, reason: str = "") -> Breaker:
        path = path_of("breakers", name, verb)
        return self._read(Breaker, await self._send("POST", path, body={"reason": reason}, is_repeatable=True))

    async def limits(self) -> list[Limit]:
        return await self._list(Limit, "/limits")

    async def set_limit(
        self,
        name: str,
        *,
        tenant: str | None = None,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        backlog: int | None = None,
    ) -> Limit:
        body = {
            "concurrency": concurrency,
            "rate": {"limit": rate[0], "per_seconds": rate[1]} if rate is not None else None,
            "backlog": backlog,
        }
        path = path_of("limits", name)
        return self._read(Limit, await self._send_for(tenant, "PUT", path, body=body, is_repeatable=True))

    async def drop_limit(self, name: str, *, tenant: str | None = None) -> Limit:
        return self._read(Limit, await self._send_for(tenant, "DELETE", path_of("limits", name)))

    async def _send_for(self, tenant: str | None, method: str, path: str, **request: Any) -> Any:
        """A request for another tenant than the one of this client."""
        query = [("tenant", tenant)] if tenant not in (None, self._scope.tenant) else self._tenant()
        return await self._connection.send(method, path, query=query, **request)

    async def defaults(self) -> TenantDefaults:
        return await self._get(TenantDefaults, "/defaults")

    async def set_defaults(self, values: Mapping[str, Any], *, reason: str = "") -> TenantDefaults:
        body = {"values": dict(values), "reason": reason}
        return self._read(TenantDefaults, await self._send("PUT", "/defaults", body=body, is_repeatable=True))

    async def reset_defaults(self, names: Sequence[str] | None = None, *, reason: str = "") -> TenantDefaults:
        query = query_of(name=list(names) if names is not None else None, reason=reason or None)
        return self._read(TenantDefaults, await self._send("DELETE", "/defaults", query=query, is_repeatable=True))

    async def plan_jobs(self, verb: Verb, *, workflow_id: str | None = None) -> JobsPlan:
        change = await self._steer(verb, workflow_id, reason="", seconds=0, dry_run=True)
        assert change.plan is not None
        return change.plan

    async def change_jobs(self, plan: JobsPlan, *, reason: str = "", seconds: float = ANSWER_SECONDS) -> JobsResult:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        change = await self._steer(plan.verb, plan.workflow_id, reason=reason, seconds=wait, dry_run=False)
        assert change.jobs is not None
        return change.jobs

    async def _steer(
        self, verb: Verb, workflow_id: str | None, *, reason: str, seconds: float, dry_run: bool
    ) -> PauseChange:
        """The service plans again: jobs may have ended or begun since."""
        if verb not in (Verb.PAUSE, Verb.UNPAUSE):
            raise InvalidInput(
                f"{verb} is about one job.", remedy="Many jobs at once can be paused and unpaused: holdfast pause --all"
            )
        waiting: dict[str, Any] = {"is_repeatable": True, "seconds": seconds}
        if verb is Verb.PAUSE:
            what = {"workflow": workflow_id} if workflow_id is not None else {"all": True}
            body = {**what, "reason": reason, "dry_run": dry_run}
            answer = await self._send("POST", "/pauses", query=query_of(wait=seconds), body=body, **waiting)
        else:
            path = path_of("pauses", EVERYTHING if workflow_id is None else f"workflow:{workflow_id}")
            query = query_of(reason=reason or None, wait=seconds, dry_run=dry_run)
            answer = await self._send("DELETE", path, query=query, **waiting)
        return self._read(PauseChange, answer)

    async def pause_queue(self, queue: str, *, reason: str = "") -> PausedQueue:
        body = {"queue": queue, "reason": reason}
        return self._queue(await self._send("POST", "/pauses", body=body))

    async def unpause_queue(self, queue: str) -> PausedQueue:
        return self._queue(await self._send("DELETE", path_of("pauses", f"queue:{queue}")))

    def _queue(self, answer: Any) -> PausedQueue:
        change = self._read(PauseChange, answer)
        assert change.queue is not None
        return change.queue

    async def janitor_log(self, *, limit: int = upkeep.LOG_LENGTH) -> JanitorLog:
        return await self._get(JanitorLog, "/janitor", limit=limit)

    async def run_janitor(
        self,
        *,
        dry_run: bool = False,
        lease_seconds: float = upkeep.JANITOR_LEASE_SECONDS,
        retention_days: float | None = None,
        audit_days: float | None = None,
        stats_days: float | None = None,
    ) -> JanitorPass:
        """Of the settings, those of the service count."""
        body = {"dry_run": dry_run}
        return self._read(JanitorPass, await self._send("POST", "/janitor/run", body=body, seconds=60.0))
