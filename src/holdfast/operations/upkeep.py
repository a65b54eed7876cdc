"""Looking after a database: deleting old jobs, and the findings and actions of the janitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import InvalidInput
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.upkeep_rows import EVERY_STATUS
from holdfast.views.upkeep import JanitorLog, JanitorPass, Pruned, log_view, pass_view, pruned_view

LOG_LENGTH = 50
JANITOR_LEASE_SECONDS = 10.0


async def prune(
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
    pruning = store.pruning()
    if dry_run:
        rows = await pruning.find(older_than_seconds, wanted)
    else:
        rows = await pruning.prune(older_than_seconds, wanted, on_batch=on_batch)
    left = await pruning.oldest_left(older_than_seconds, wanted)
    return pruned_view(rows, left, await pruning.leftovers(), dry_run=dry_run)


async def janitor_log(store: OperationsStore, *, limit: int = LOG_LENGTH) -> JanitorLog:
    """Which process does the janitor's work, and what was done last, newest first."""
    janitor = store.janitor()
    return log_view(await janitor.leader(), await janitor.actions(limit))


async def run_janitor(
    scope: Scope,
    store: OperationsStore,
    *,
    dry_run: bool = False,
    lease_seconds: float = JANITOR_LEASE_SECONDS,
    retention_days: float | None = None,
) -> JanitorPass:
    """Look at everything once and have it repaired; with `dry_run` nothing is changed."""
    # Imported late: every client would pay for it, and few run a janitor.
    from holdfast.janitor.service import Janitor

    janitor = Janitor(store.janitor(), scope.actor, lease_seconds=lease_seconds, retention_days=retention_days)
    findings = await janitor.run_once(dry_run=dry_run)
    return pass_view(findings, datetime.now(UTC), dry_run=dry_run)
