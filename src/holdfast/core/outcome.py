"""What a job is called at its end and what it gives back: pure functions of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.failing import Failure
from holdfast.core.kinds import is_border
from holdfast.core.readiness import SKIPPED_BY_PERSON, View, view
from holdfast.core.states import (
    JOB_CANCELLED,
    JOB_STOPPED,
    TERMINAL,
    UPSTREAM_FAILED,
    JobState,
    JobStatus,
    NodeState,
    Status,
)
from holdfast.core.undo_states import UNDONE
from holdfast.define.node import CountsAs, Importance


def is_bad(node: NodeState) -> bool:
    return node.status in (Status.FAILED, Status.CANCELLED)


def counts(state: JobState, name: str) -> bool:
    """Start and end have no importance and never count."""
    return not is_border(state, name)


_SEVERITY = {Importance.CRITICAL: 0, Importance.IMPORTANT: 1, Importance.OPTIONAL: 2}


def weights(state: JobState) -> Mapping[str, Importance]:
    """What the end of each node means for the job. One that was cancelled because of a failure above it weighs as much
    as that failure: a consequence counts as its cause. So does one that an earlier stop had cancelled, and that could
    not run since because of a failure above it."""
    graph, nodes, importances = state.program.graph, state.nodes, state.program.importances
    reasons = (UPSTREAM_FAILED,) if state.stop is not None else (UPSTREAM_FAILED, JOB_STOPPED)
    consequences = {name for name, node in nodes.items() if node.reason in reasons}
    if not consequences:
        return importances
    found = dict(importances)
    for name in graph.order:
        if nodes[name].status is Status.CANCELLED and name in consequences:
            ended = [source for source in graph.sources[name] if nodes[source].status in TERMINAL]
            causes = [found[source] for source in ended if view(state, source, name) is View.BAD]
            found[name] = min(causes, key=_SEVERITY.__getitem__, default=found[name])
    return found


def stops_the_job(state: JobState, name: str) -> bool:
    """Whether the job cannot do without a node that has ended."""
    return is_bad(state.nodes[name]) and counts(state, name) and weights(state)[name] is Importance.CRITICAL


def was_cancelled(state: JobState) -> bool:
    """Whether a person's cancel ended something early, or an undo took something back, that no verb has run again
    since."""
    ended = [name for name, node in state.nodes.items() if node.reason in (JOB_CANCELLED, UNDONE)]
    return any(counts(state, name) for name in ended)


def job_status(state: JobState) -> JobStatus:
    """The one rule: cancelled by a person, a bad critical node, something important missing, else completed."""
    if was_cancelled(state):
        return JobStatus.CANCELLED
    partial = False
    weighed = weights(state)
    for name, node in state.nodes.items():
        if not counts(state, name):
            continue
        importance = weighed[name]
        if importance is Importance.OPTIONAL:
            continue
        if is_bad(node):
            if importance is Importance.CRITICAL:
                return JobStatus.FAILED
            partial = True
        elif _misses_something(state, node):
            partial = True
    return JobStatus.PARTIAL if partial else JobStatus.COMPLETED


def _misses_something(state: JobState, node: NodeState) -> bool:
    """Whether a node without a bad end was skipped by a person, or has items that nothing excuses."""
    tolerate = state.program.nodes[node.name].node.tolerate
    is_missed = node.failed > 0 and tolerate.counts_as is CountsAs.PARTIAL
    return is_missed or node.missed > 0 or (node.status is Status.SKIPPED and node.reason == SKIPPED_BY_PERSON)


def first_error(state: JobState) -> Failure | None:
    """The error that explains the job: the earliest failure of the most important bad node."""
    weighed = weights(state)
    candidates = [
        (
            _SEVERITY[weighed[name]],
            node.status is not Status.FAILED,
            node.finished_at or 0.0,
            i,
        )
        for i, (name, node) in enumerate(state.nodes.items())
        if counts(state, name) and is_bad(node) and node.error is not None
    ]
    if not candidates:
        return None
    return list(state.nodes.values())[min(candidates)[3]].error


def default_result(state: JobState) -> Any:
    """Without `result:`, the output of the node before the end; of several, a map by name."""
    finished = {
        name: state.nodes[name].output
        for name in state.program.graph.result_nodes
        if state.nodes[name].status is Status.COMPLETED
    }
    return next(iter(finished.values())) if len(finished) == 1 else (finished or None)
