"""What can be advised for a job that has ended: verbs that would be taken, and no others."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.outcome import counts
from holdfast.core.plans import RESUMABLE, Plan
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JobState, JobStatus, Status
from holdfast.core.undo_plans import nodes_to_undo


class Advice(NamedTuple):
    """A verb that would be taken, and what it would do."""

    request: Request
    plan: Plan


def candidates(state: JobState) -> list[tuple[Request, ...]]:
    """What may be advised, the best first; of each group the first that would be taken."""
    if state.status is JobStatus.COMPLETED and state.error is not None:
        # It completed, and its rows deny it: what runs the node again that is in doubt.
        return [(Request(Verb.RERUN, state.error.node),)]
    if state.status not in RESUMABLE:
        return []
    names = [node.name for node in state.program.definition.nodes]
    failed = [name for name in names if state.nodes[name].status is Status.FAILED and counts(state, name)]
    of_each = [(Request(Verb.RETRY, n), Request(Verb.RETRY, n, only=True), Request(Verb.SKIP, n)) for n in failed]
    # Items that failed and were tolerated: what has completed behind them may be what must not run again.
    tolerated = [name for name in names if state.nodes[name].status is Status.COMPLETED and state.nodes[name].failed]
    of_items = [(Request(Verb.RETRY, name), Request(Verb.RETRY, name, only=True)) for name in tolerated]
    is_left = state.undo is not None and not state.undo.is_whole
    first = state.undo.first if state.undo is not None else None
    undo = [(Request(Verb.UNDO, first),)] if is_left and nodes_to_undo(state, first) else []
    return [*undo, (Request(Verb.RESUME),), *of_each, *of_items]
