"""The part of `SyncClient` for those who look after a tenant or an installation."""

from __future__ import annotations

from datetime import datetime

from holdfast.operations import audit, stats, upkeep
from holdfast.sync_client_gates import Face
from holdfast.views.attention import Concern
from holdfast.views.audit import AuditPage
from holdfast.views.health import InstallationHealth
from holdfast.views.pausing import PauseState
from holdfast.views.stats import StatsStep
from holdfast.views.upkeep import JanitorActions


class SyncOversight(Face):
    """Who changed what, what happened, and what asks for a person."""

    def audit(
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
        return self._loop.run(
            self._client.audit(since=since, actor=actor, action=action, instance=instance, limit=limit, after=after)
        )

    def attention(self) -> list[Concern]:
        """What asks for a person: failures that no person has seen, what is held, and what no worker serves."""
        return self._loop.run(self._client.attention())

    def stats(self, *, since: datetime | None = None, step_seconds: int = stats.MINUTE_SECONDS) -> list[StatsStep]:
        """What happened since then, step by step, up to now; without `since` the last 60 steps."""
        return self._loop.run(self._client.stats(since=since, step_seconds=step_seconds))

    def health(self) -> InstallationHealth:
        """Whether the installation does its work, and if not, why."""
        return self._loop.run(self._client.health())

    def pauses(self) -> list[PauseState]:
        """The queues that are paused, and the workflows of which jobs are."""
        return self._loop.run(self._client.pauses())

    def janitor_actions(self, *, limit: int = upkeep.LOG_LENGTH, after: str | None = None) -> JanitorActions:
        """One page of what the janitor did, newest first; `after` is the cursor of the page before."""
        return self._loop.run(self._client.janitor_actions(limit=limit, after=after))
