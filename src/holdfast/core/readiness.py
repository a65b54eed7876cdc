"""When a node may run: what its dependents see of a finished node, and the rules for all_of and any_of."""

from __future__ import annotations

from enum import Enum

from holdfast.core.kinds import kind_of
from holdfast.core.states import TERMINAL, JobState, Status
from holdfast.define.node import Importance


class View(Enum):
    """What a node sees of one of its dependencies."""

    OK = "ok"
    ABSENT = "absent"
    BAD = "bad"


class Verdict(Enum):
    """What happens to a node whose dependencies are all terminal. The larger value prevails."""

    READY = 0
    SKIPPED = 1
    CANCELLED = 2


SKIPPED_BY_PERSON = "by_person"
_ALONE = {View.OK: Verdict.READY, View.ABSENT: Verdict.SKIPPED, View.BAD: Verdict.CANCELLED}


def decide(state: JobState, name: str) -> Verdict | None:
    """What happens to a pending node; None while a dependency is not terminal."""
    graph = state.program.graph
    all_of, any_of = graph.all_of[name], graph.any_of[name]
    if len(all_of) == 1 and not any_of:
        # The common case, a chain, without building lists.
        return _ALONE[view(state, all_of[0], name)] if state.nodes[all_of[0]].status in TERMINAL else None
    for source in graph.sources[name]:
        if state.nodes[source].status not in TERMINAL:
            return None
    verdicts = []
    if all_of:
        verdicts.append(_all_of([view(state, source, name) for source in all_of]))
    if any_of:
        verdicts.append(_any_of([view(state, source, name) for source in any_of]))
    return max(verdicts, key=lambda v: v.value, default=Verdict.READY)


def view(state: JobState, source: str, target: str) -> View:
    """What `target` sees of its terminal dependency `source`."""
    node = state.nodes[source]
    definition = state.program.nodes[source].node
    match node.status:
        case Status.COMPLETED:
            return View.OK if kind_of(state, source).leads_to(definition, node, target) else View.ABSENT
        case Status.SKIPPED:
            return View.OK if node.reason == SKIPPED_BY_PERSON else View.ABSENT
        case Status.FAILED:
            return View.OK if definition.importance is Importance.OPTIONAL else View.BAD
        case _:
            return View.BAD


def _all_of(views: list[View]) -> Verdict:
    if View.BAD in views:
        return Verdict.CANCELLED
    return Verdict.READY if View.OK in views else Verdict.SKIPPED


def _any_of(views: list[View]) -> Verdict:
    if View.OK in views:
        return Verdict.READY
    return Verdict.CANCELLED if View.BAD in views else Verdict.SKIPPED
