"""The part of `Client` about what holds tasks back, and about the care of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.operations import defaults, gates, pausing, upkeep
from holdfast.operations.gates import BreakerVerb
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.operations.verbs import ANSWER_SECONDS, Verb
from holdfast.views.defaults import TenantDefaults
from holdfast.views.gates import Breaker, Limit, PausedQueue
from holdfast.views.pausing import JobsPlan, JobsResult
from holdfast.views.upkeep import JanitorLog, JanitorPass, Pruned


class Bound:
    """A store and the scope in which it is used."""

    def __init__(self, store: OperationsStore, scope: Scope | None = None) -> None:
        self._store = store
        self._scope = scope or Scope()

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def database_url(self) -> str:
        return self._store.url


class Gates(Bound):
    """What holds tasks back, and the care of the database."""

    async def breakers(self) -> list[Breaker]:
        """All breakers that workflows have declared, by name."""
        return await gates.breakers(self._scope, self._store)

    async def change_breaker(self, name: str, verb: BreakerVerb, *, reason: str = "") -> Breaker:
        """Open a breaker until a person closes it, close it, or close it with an empty window."""
        return await gates.change_breaker(self._scope, self._store, name, verb, reason=reason)

    async def limits(self) -> list[Limit]:
        """All limits: those that workflows have declared, and those that people have set."""
        return await gates.limits(self._scope, self._store)

    async def set_limit(
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
        return await gates.set_limit(
            self._scope, self._store, name, tenant=tenant, concurrency=concurrency, rate=rate, backlog=backlog
        )

    async def drop_limit(self, name: str, *, tenant: str | None = None) -> Limit:
        """Remove a limit that a person has set; returns it as it was."""
        return await gates.drop_limit(self._scope, self._store, name, tenant=tenant)

    async def defaults(self) -> TenantDefaults:
        """What holds for workflows of the tenant that say nothing, and where each value comes from."""
        return await defaults.defaults(self._scope, self._store)

    async def set_defaults(self, values: Mapping[str, Any], *, reason: str = "") -> TenantDefaults:
        """Set defaults of the tenant, such as `{"retry.max_retries": 5}`, all or none. Jobs keep what they have."""
        return await defaults.set_defaults(self._scope, self._store, values, reason=reason)

    async def reset_defaults(self, names: Sequence[str] | None = None, *, reason: str = "") -> TenantDefaults:
        """Return to the built-in values of these names, or of all. Jobs keep what they have."""
        return await defaults.reset_defaults(self._scope, self._store, names, reason=reason)

    async def plan_jobs(self, verb: Verb, *, workflow_id: str | None = None) -> JobsPlan:
        """Which jobs that have not ended a pause or an unpause of all, or of one workflow, would change now."""
        return await pausing.plan_jobs(self._scope, self._store, verb, workflow_id=workflow_id)

    async def change_jobs(self, plan: JobsPlan, *, reason: str = "", seconds: float = ANSWER_SECONDS) -> JobsResult:
        """Pause or unpause the jobs of a plan, and wait for the answers of their owners as long as some arrive."""
        return await pausing.change_jobs(self._scope, self._store, plan, reason=reason, seconds=seconds)

    async def pause_queue(self, queue: str, *, reason: str = "") -> PausedQueue:
        """Let no worker start a task of the queue, for all tenants; running tasks continue to their end."""
        return await pausing.pause_queue(self._scope, self._store, queue, reason=reason)

    async def unpause_queue(self, queue: str) -> PausedQueue:
        """Let workers start the tasks of the queue again; returns the queue as it was."""
        return await pausing.unpause_queue(self._scope, self._store, queue)

    async def prune(
        self,
        older_than_seconds: float,
        *,
        statuses: Sequence[str] = (),
        dry_run: bool = False,
        on_batch: Callable[[int], None] = lambda jobs: None,
    ) -> Pruned:
        """Delete the jobs of all tenants that finished that long ago; with `dry_run` nothing is deleted."""
        return await upkeep.prune(
            self._scope, self._store, older_than_seconds, statuses=statuses, dry_run=dry_run, on_batch=on_batch
        )

    async def janitor_log(self, *, limit: int = upkeep.LOG_LENGTH) -> JanitorLog:
        """Which process does the janitor's work, and what was done last, newest first."""
        return await upkeep.janitor_log(self._scope, self._store, limit=limit)

    async def run_janitor(
        self,
        *,
        dry_run: bool = False,
        lease_seconds: float = upkeep.JANITOR_LEASE_SECONDS,
        retention_days: float | None = None,
        audit_days: float | None = None,
        stats_days: float | None = None,
    ) -> JanitorPass:
        """Look at everything once and have it repaired; with `dry_run` nothing is changed."""
        return await upkeep.run_janitor(
            self._scope,
            self._store,
            dry_run=dry_run,
            lease_seconds=lease_seconds,
            retention_days=retention_days,
            audit_days=audit_days,
            stats_days=stats_days,
        )
