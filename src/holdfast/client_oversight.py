"""The part of `Client` for those who look after a tenant or an installation."""

from __future__ import annotations

from datetime import datetime

from holdfast.client_gates import Bound
from holdfast.operations import attention, audit, health, pauses, stats, upkeep
from holdfast.views.attention import Concern
from holdfast.views.audit import AuditPage
from holdfast.views.health import InstallationHealth
from holdfast.views.pausing import PauseState
from holdfast.views.stats import StatsStep
from holdfast.views.upkeep import JanitorActions


class Oversight(Bound):
    """Who changed what, what happened, and what asks for a person."""

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
        """One page of changes, newest first; `after` is the cursor of the page before.

        `action` may be the beginning of one: `job` for all that was done to jobs. The tenant * is the installation.
        """
        return await audit.audit(
            self._scope,
            self._store,
            since=since,
            actor=actor,
            action=action,
            instance=instance,
            limit=limit,
            after=after,
        )

    async def attention(self) -> list[Concern]:
        """What asks for a person: failures that no person has seen, what is held, and what no worker serves."""
        return await attention.attention(self._scope, self._store)

    async def stats(
        self, *, since: datetime | None = None, step_seconds: int = stats.MINUTE_SECONDS
    ) -> list[StatsStep]:
        """What happened since then, step by step, up to now; without `since` the last 60 steps."""
        return await stats.stats(self._scope, self._store, since=since, step_seconds=step_seconds)

    async def health(self) -> InstallationHealth:
        """Whether the installation does its work, and if not, why."""
        return await health.health(self._scope, self._store)

    async def pauses(self) -> list[PauseState]:
        """The queues that are paused, and the workflows of which jobs are."""
        return await pauses.pauses(self._scope, self._store)

    async def janitor_actions(self, *, limit: int = upkeep.LOG_LENGTH, after: str | None = None) -> JanitorActions:
        """One page of what the janitor did, newest first; `after` is the cursor of the page before."""
        return await upkeep.janitor_actions(self._scope, self._store, limit=limit, after=after)
