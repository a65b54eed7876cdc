"""The part of `SyncClient` about what holds tasks back, and about the care of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.client import Client
from holdfast.operations import upkeep
from holdfast.operations.gates import BreakerVerb
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import ANSWER_SECONDS, Verb
from holdfast.private_loop import PrivateLoop
from holdfast.views.defaults import TenantDefaults
from holdfast.views.gates import Breaker, Limit, PausedQueue
from holdfast.views.pausing import JobsPlan, JobsResult
from holdfast.views.upkeep import JanitorLog, JanitorPass, Pruned


class Face:
    """An asynchronous client and the loop that it lives on."""

    def __init__(self, client: Client, loop: PrivateLoop) -> None:
        self._client = client
        self._loop = loop

    @property
    def scope(self) -> Scope:
        return self._client.scope

    @property
    def database_url(self) -> str:
        return self._client.database_url


class SyncGates(Face):
    """What holds tasks back, and the care of the database."""

    def breakers(self) -> list[Breaker]:
        """All breakers that workflows have declared, by name."""
        return self._loop.run(self._client.breakers())

    def change_breaker(self, name: str, verb: BreakerVerb, *, reason: str = "") -> Breaker:
        """Open a breaker until a person closes it, close it, or close it with an empty window."""
        return self._loop.run(self._client.change_breaker(name, verb, reason=reason))

    def limits(self) -> list[Limit]:
        """All limits: those that workflows have declared, and those that people have set."""
        return self._loop.run(self._client.limits())

    def set_limit(
        self,
        name: str,
        *,
        tenant: str | None = None,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        backlog: int | None = None,
    ) -> Limit:
        """Limit a queue (`queue:NAME`), a tenant (`tenant`), or a node or a key otherwise than its workflow does.

        `rate` is how many tasks may start in how many seconds; `backlog` is how many jobs of a tenant may be open.
        """
        return self._loop.run(
            self._client.set_limit(name, tenant=tenant, concurrency=concurrency, rate=rate, backlog=backlog)
        )

    def drop_limit(self, name: str, *, tenant: str | None = None) -> Limit:
        """Remove a limit that a person has set; returns it as it was."""
        return self._loop.run(self._client.drop_limit(name, tenant=tenant))

    def defaults(self) -> TenantDefaults:
        """What holds for workflows of the tenant that say nothing, and where each value comes from."""
        return self._loop.run(self._client.defaults())

    def set_defaults(self, values: Mapping[str, Any], *, reason: str = "") -> TenantDefaults:
        """Set defaults of the tenant, such as `{"retry.max_retries": 5}`, all or none. Jobs keep what they have."""
        return self._loop.run(self._client.set_defaults(values, reason=reason))

    def reset_defaults(self, names: Sequence[str] | None = None, *, reason: str = "") -> TenantDefaults:
        """Return to the built-in values of these names, or of all. Jobs keep what they have."""
        return self._loop.run(self._client.reset_defaults(names, reason=reason))

    def plan_jobs(self, verb: Verb, *, workflow_id: str | None = None) -> JobsPlan:
        """Which jobs that have not ended a pause or an unpause of all, or of one workflow, would change now."""
        return self._loop.run(self._client.plan_jobs(verb, workflow_id=workflow_id))

    def change_jobs(self, plan: JobsPlan, *, reason: str = "", seconds: float = ANSWER_SECONDS) -> JobsResult:
        """Pause or unpause the jobs of a plan, and wait for the answers of their owners as long as some arrive."""
        return self._loop.run(self._client.change_jobs(plan, reason=reason, seconds=seconds))

    def pause_queue(self, queue: str, *, reason: str = "") -> PausedQueue:
        """Let no worker start a task of the queue, for all tenants; running tasks continue to their end."""
        return self._loop.run(self._client.pause_queue(queue, reason=reason))

    def unpause_queue(self, queue: str) -> PausedQueue:
        """Let workers start the tasks of the queue again; returns the queue as it was."""
        return self._loop.run(self._client.unpause_queue(queue))

    def prune(
        self,
        older_than_seconds: float,
        *,
        statuses: Sequence[str] = (),
        dry_run: bool = False,
        on_batch: Callable[[int], None] = lambda jobs: None,
    ) -> Pruned:
        """Delete the jobs of all tenants that finished that long ago; with `dry_run` nothing is deleted."""
        return self._loop.run(
            self._client.prune(older_than_seconds, statuses=statuses, dry_run=dry_run, on_batch=on_batch)
        )

    def janitor_log(self, *, limit: int = upkeep.LOG_LENGTH) -> JanitorLog:
        """Which process does the janitor's work, and what was done last, newest first."""
        return self._loop.run(self._client.janitor_log(limit=limit))

    def run_janitor(
        self,
        *,
        dry_run: bool = False,
        lease_seconds: float = upkeep.JANITOR_LEASE_SECONDS,
        retention_days: float | None = None,
        audit_days: float | None = None,
        stats_days: float | None = None,
    ) -> JanitorPass:
        """Look at everything once and have it repaired; with `dry_run` nothing is changed."""
        return self._loop.run(
            self._client.run_janitor(
                dry_run=dry_run,
                lease_seconds=lease_seconds,
                retention_days=retention_days,
                audit_days=audit_days,
                stats_days=stats_days,
            )
        )
