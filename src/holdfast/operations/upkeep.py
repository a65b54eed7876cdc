"""Looking after a database: deleting old jobs, and the findings and actions of the janitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import InvalidInput
from holdfast.operations.cursors import number_of_cursor
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.store.audit_rows import INSTALLATION
from holdfast.store.upkeep_rows import EVERY_STATUS
from holdfast.views.upkeep import (
    JanitorActions,
    JanitorLog,
    JanitorPass,
    Pruned,
    actions_view,
    log_view,
    pass_view,
    pruned_view,
)

LOG_LENGTH = 50
JANITOR_LEASE_SECONDS = 10.0


async def prune(
    scope: Scope,
    store: OperationsStore,
    older_than_seconds: float,
    *,
    statuses: Sequence[str] = (),
    dry_run: bool = False,
    on_batch: Callable[[int], None] = lambda jobs: None,
) -> Pruned:
    """Delete the jobs of all tenants that finished that long ago, with everything that belongs to them.

    With `dry_run` nothing is deleted. `on_batch` is called with the number of jobs that are gone so far.
    """
    wanted = tuple(dict.fromkeys(statuses)) or EVERY_STATUS
    unknown = [status for status in wanted if status not in JOB_TERMINAL]
    if unknown:
        raise InvalidInput(
            f"'{unknown[0]}' is not the status of a finished job.", remedy=f"Use one of: {', '.join(EVERY_STATUS)}"
        )
    scope.refuse_unless_administrator("what is kept of ended jobs")
    pruning = store.pruning()
    if dry_run:
        rows = await pruning.find(older_than_seconds, wanted)
    else:
        rows = await pruning.prune(older_than_seconds, wanted, on_batch=on_batch, by=(scope.actor, scope.origin))
    left = await pruning.oldest_left(older_than_seconds, wanted)
    return pruned_view(rows, left, await pruning.leftovers(), dry_run=dry_run)


async def janitor_log(scope: Scope, store: OperationsStore, *, limit: int = LOG_LENGTH) -> JanitorLog:
    """Which process does the janitor's work, and what was done last, newest first.

    An administrator of the installation sees all of it, others what concerns jobs of their tenant.
    """
    janitor = store.janitor()
    return log_view(await janitor.leader(), await janitor.actions(limit, tenant=scope.looks_at))


async def janitor_actions(
    scope: Scope, store: OperationsStore, *, limit: int = LOG_LENGTH, after: str | None = None
) -> JanitorActions:
    """One page of what the janitor did, newest first; `after` is the cursor of the page before."""
    rows = await store.janitor().actions(
        checked_limit(limit), tenant=scope.looks_at, before=number_of_cursor(after) if after is not None else None
    )
    return actions_view(rows, limit)


async def run_janitor(
    scope: Scope,
    store: OperationsStore,
    *,
    dry_run: bool = False,
    lease_seconds: float = JANITOR_LEASE_SECONDS,
    retention_days: float | None = None,
    audit_days: float | None = None,
    stats_days: float | None = None,
) -> JanitorPass:
    """Look at everything once and have it repaired; with `dry_run` nothing is changed."""
    # Imported late: every client would pay for it, and few run a janitor.
    from holdfast.janitor.retention import Keeping
    from holdfast.janitor.service import Janitor

    if not dry_run:
        scope.refuse_unless_administrator("what the janitor does")
        await store.audit().write("janitor.run", INSTALLATION, scope.actor, scope.origin, after={})
    janitor = Janitor(
        store.janitor(),
        scope.actor,
        lease_seconds=lease_seconds,
        retention_days=retention_days,
        keeping=Keeping(audit_days, stats_days),
    )
    findings = await janitor.run_once(dry_run=dry_run)
    return pass_view(findings, datetime.now(UTC), dry_run=dry_run)
