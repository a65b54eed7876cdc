"""The spans of tasks, which their owner sends after the commit that ends them."""

from __future__ import annotations

from holdfast import tracing
from holdfast.core.effects import OWN_TASK
from holdfast.orchestrator.owner import CycleResult
from holdfast.store.batch import outcome_of


def send_task_spans(result: CycleResult) -> None:
    """Call it after the commit. A task begins when its node does: from then on it may have waited."""
    for state, event in result.traced:
        job = tracing.Place.parse(state.traceparent)
        if job is None or event.node is None:
            continue
        item = OWN_TASK if event.item is None else event.item
        data = event.data or {}
        node = state.nodes.get(event.node)
        began = (node.started_at if node is not None else None) or data.get("started_at") or result.now
        tracing.task_ended(
            job,
            job.of_task(state.job_id, event.node, item, state.generation),
            began,
            result.now,
            outcome_of(event),
            str(data.get("code") or ""),
            {
                "holdfast.job_id": state.job_id,
                "holdfast.workflow_id": state.program.definition.workflow_id,
                "holdfast.tenant": state.tenant,
                "holdfast.node": event.node,
                "holdfast.item": event.item,
                "holdfast.attempt": event.attempt,
                "holdfast.generation": state.generation,
            },
        )
