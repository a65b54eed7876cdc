"""How an installation is, at one look."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.fleet import Fleet
from holdfast.store.stats_rows import LastPass
from holdfast.version import __version__
from holdfast.views.fleet import unserved_view
from holdfast.views.health import InstallationHealth
from holdfast.views.upkeep import log_view

JANITOR_SECONDS = 60.0
"""How long the janitor may be away."""


async def health(scope: Scope, store: OperationsStore) -> InstallationHealth:
    """Whether the installation does its work, and if not, why."""
    reader = store.reads(scope.looks_at)
    fleet, queues = await reader.fleet(), await reader.queues()
    last = await store.oversight(scope.looks_at).last_pass()
    janitor = log_view(await store.janitor().leader(), ()).leader
    now = datetime.fromtimestamp(await reader.now(), UTC)
    reasons = tuple(_reasons(fleet, last, now))
    waiting = [queue.since for queue in queues if queue.since is not None]
    return InstallationHealth(
        status="degraded" if reasons else "ok",
        reasons=reasons,
        version=__version__,
        database="ok",
        schema=last.schema_number,
        orchestrators=len(fleet.orchestrators),
        workers=len(fleet.workers),
        queued=sum(queue.queued for queue in queues),
        held=sum(queue.held for queue in queues),
        running=sum(queue.running for queue in queues),
        oldest_waiting=min(waiting, default=None),
        janitor=janitor,
        janitor_passed_at=last.counted_at,
    )


def _reasons(fleet: Fleet, last: LastPass, now: datetime) -> Iterator[str]:
    if not fleet.orchestrators:
        yield "No orchestrator is running: submitted jobs wait."
    if not fleet.workers:
        yield "No worker is running: tasks wait."
    if last.counted_at is None or (now - last.counted_at).total_seconds() > JANITOR_SECONDS:
        yield "The janitor has not looked for a minute: what is wrong is not repaired."
    for row in fleet.unserved:
        one = unserved_view(row)
        lacks = "has that handler" if one.cause == "no_worker_for_handler" else "serves that queue"
        yield f"No worker {lacks}: '{one.handler}' in the queue '{one.queue}'."
