"""What is paused now: queues, and jobs by workflow."""

from __future__ import annotations

from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.views.gates import limit_view
from holdfast.views.pausing import PauseState

QUEUE, WORKFLOW, EVERYTHING = "queue:", "workflow:", "all"
"""What the id of a pause begins with, or is."""


async def pauses(scope: Scope, store: OperationsStore) -> list[PauseState]:
    """The queues that are paused, and the workflows of the tenant of which jobs are."""
    found = []
    for limit in map(limit_view, await store.gates().limits(scope.tenant)):
        if limit.paused is not None:
            pause, queue = limit.paused, limit.name.removeprefix(QUEUE)
            found.append(PauseState(limit.name, queue, None, (pause.by,), pause.since, pause.reason, limit.waiting))
    for row in await store.oversight(scope.tenant).paused_jobs():
        id = f"{WORKFLOW}{row.workflow_id}"
        found.append(PauseState(id, None, row.workflow_id, tuple(row.by), row.since, None, row.jobs))
    return found
