"""The part of the client over a URL for those who look after a tenant or an installation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.operations import audit, stats, upkeep
from holdfast.remote.identities import RemoteIdentities
from holdfast.views.attention import Concern
from holdfast.views.audit import AuditLine, AuditPage
from holdfast.views.health import InstallationHealth
from holdfast.views.identities import KeptTenant, Tenant
from holdfast.views.pausing import PauseState
from holdfast.views.stats import StatsStep
from holdfast.views.upkeep import Action, JanitorActions


class RemoteOversight(RemoteIdentities):
    """Who changed what, what happened, what asks for a person, and the tenants."""

    async def audit(
        self,
        *,
        since: datetime | None = None,
        actor: str | None = None,
        action: str | None = None,
        instance: str | None = None,
        limit: int = audit.PAGE_LENGTH,
        after: str | None = None,
    ) -> AuditPage:
        lines, cursor = await self._administered_page(
            AuditLine,
            "/audit",
            since=since,
            actor=actor,
            action=action,
            instance=instance,
            limit=limit,
            cursor=after,
        )
        return AuditPage(tuple(lines), cursor)

    async def attention(self) -> list[Concern]:
        return await self._list(Concern, "/attention")

    async def stats(
        self, *, since: datetime | None = None, step_seconds: int = stats.MINUTE_SECONDS
    ) -> list[StatsStep]:
        steps, _ = await self._administered_page(StatsStep, "/stats", since=since, step=step_seconds)
        return steps

    async def health(self) -> InstallationHealth:
        return self._read(InstallationHealth, await self._send("GET", f"{self.url}/health", is_repeatable=True))

    async def pauses(self) -> list[PauseState]:
        return await self._list(PauseState, "/pauses")

    async def janitor_actions(self, *, limit: int = upkeep.LOG_LENGTH, after: str | None = None) -> JanitorActions:
        actions, cursor = await self._page(Action, "/janitor/actions", limit=limit, cursor=after)
        return JanitorActions(tuple(actions), cursor)

    async def tenants(self) -> list[Tenant]:
        return await self._list(Tenant, "/tenants")

    async def keep_tenant(self, name: str, *, queues: Sequence[str] | None = None) -> KeptTenant:
        body = {"name": name, "queues": list(queues) if queues is not None else None}
        answer = await self._send("POST", "/tenants", body=body, is_repeatable=True)
        return self._read(KeptTenant, answer)
