"""What an undo would take back, node by node, in the order in which it would do so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.core.effects import OWN_TASK
from holdfast.core.outcome import counts
from holdfast.core.plans import Action, Plan, Refusal, Step
from holdfast.core.signals import Request, Verb
from holdfast.core.states import REMOVED, JobState, NodeState, Status
from holdfast.core.undo_states import UndoStage
from holdfast.define.node import TaskSpec
from holdfast.remedies import Remedy

COUNTS_AS_UNDONE = "it counts as undone"
"""What happens to tasks that a person skips after their undo has failed."""
LOOK_BY_HAND = "may have effects: look by hand"

Part = tuple[UndoStage, int, TaskSpec]
"""Tasks of a node that are undone together: which they are, how many, and what undoes them."""


def parts_to_undo(state: JobState, node: NodeState) -> list[Part]:
    """The completed tasks of a node that something undoes."""
    program = state.program.nodes[node.name]
    own = node.completed if not program.has_items else 0
    if node.has_last_task:
        # It ended as its node did.
        own = 1 if node.status is Status.COMPLETED else 0
    parts = []
    for stage, item, number in ((UndoStage.OWN, OWN_TASK, own), (UndoStage.ITEMS, 0, node.completed - own)):
        compensation = program.task_of(item).compensation if number else None
        if compensation is not None:
            parts.append((stage, number, compensation.spec))
    return parts


def batches_to_undo(state: JobState, node: NodeState) -> list[Part]:
    """What is left of a node while its own task is undone: the batches before that task."""
    if node.undo is None or node.undo.stage is not UndoStage.OWN:
        return []
    return [part for part in parts_to_undo(state, node) if part[0] is UndoStage.ITEMS]


def nodes_to_undo(state: JobState, first: str | None = None) -> tuple[str, ...]:
    """The nodes that have something to undo, those at the end first; with a first node, only it and what follows it."""
    within = _below(state, first) if first is not None else None
    names = reversed(state.program.graph.order)
    return tuple(
        name for name in names if (within is None or name in within) and parts_to_undo(state, state.nodes[name])
    )


def _below(state: JobState, first: str) -> set[str]:
    found, waiting = {first}, [first]
    while waiting:
        for target in state.program.graph.outgoing[waiting.pop()]:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def undo_plan(state: JobState, request: Request) -> Plan | Refusal:
    """What the verb would take back, what it leaves because nothing undoes it, and what a person must look at."""
    if not state.is_terminal:
        stop = Remedy("Stop it first with", "cancel", state.job_id)
        return Refusal(f"it is {state.status}, and only a job that has ended can be undone", stop)
    if request.node is not None and (request.node not in state.nodes or not counts(state, request.node)):
        names = ", ".join(name for name in state.program.graph.order if counts(state, name))
        return Refusal(f"it has no node '{request.node}'", Remedy(f"Its nodes are: {names}"), is_unknown=True)
    wanted = nodes_to_undo(state, request.node)
    if not wanted:
        return Refusal(_why_nothing(state, request.node), Remedy("See what there is", "status", state.job_id))
    within = _below(state, request.node) if request.node is not None else set(state.nodes)
    return Plan(request.verb, _steps(state, within))


def plan_of_failed(state: JobState, request: Request) -> Plan:
    """What a job takes back by itself that has failed."""
    return Plan(request.verb, _steps(state, set(state.nodes)))


def _why_nothing(state: JobState, first: str | None) -> str:
    where = f"from {first} on " if first is not None else ""
    within = _below(state, first) if first is not None else set(state.nodes)
    if any(node.undo is not None and node.undo.undone for name, node in state.nodes.items() if name in within):
        return f"all that can be undone {where}is undone already"
    if any(node.completed for node in state.nodes.values()):
        return f"nothing that has completed {where}has a compensate"
    return f"nothing {where}has completed"


def _steps(state: JobState, chosen: set[str]) -> tuple[Step, ...]:
    names = [name for name in reversed(state.program.graph.order) if counts(state, name)]
    undone = [
        step for name in names if name in chosen for step in _undone(name, parts_to_undo(state, state.nodes[name]))
    ]
    kept = [step for name in names for step in _kept(state, state.nodes[name], is_chosen=name in chosen)]
    removed = [
        Step(name, Action.KEEP, None, f"the workflow no longer has it; what it had done {LOOK_BY_HAND}")
        for name, node in state.retired.items()
        if node.reason == REMOVED
    ]
    return (*undone, *kept, *removed)


def by_hand(plan: Plan) -> dict[str, str]:
    """The nodes at which a person must look after an undo, and why; it is written down with the job."""
    return {step.node: step.reason for step in plan.steps if step.reason.endswith(LOOK_BY_HAND)}


def _undone(name: str, parts: list[Part]) -> Iterator[Step]:
    for _, number, spec in parts:
        yield Step(name, Action.UNDO, number, f"by {spec.handler}", confirm=True)


def _kept(state: JobState, node: NodeState, *, is_chosen: bool) -> Iterator[Step]:
    """What stays of a node: what nothing undoes, and what may have had effects without completing."""
    left = node.completed - (sum(number for _, number, _ in parts_to_undo(state, node)) if is_chosen else 0)
    if left or (node.status is Status.COMPLETED and not node.expanded):
        why = "nothing undoes it: it has no compensate" if left else "it has no completed task"
        why = why if is_chosen else "it comes before"
        yield Step(node.name, Action.KEEP, left, why)
    if is_chosen and node.failed:
        yield Step(node.name, Action.KEEP, node.failed, f"failed, and {LOOK_BY_HAND}")
    cut_short = node.cancelled - _undone_before(state, node)
    if is_chosen and cut_short > 0:
        yield Step(node.name, Action.KEEP, cut_short, f"cancelled; what of it had begun {LOOK_BY_HAND}")
    if is_chosen and node.gone:
        yield Step(node.name, Action.KEEP, node.gone, f"their items are gone, and {LOOK_BY_HAND}")


def may_have_effects(state: JobState, node: NodeState) -> bool:
    """Whether a task of it has completed, failed, or may have begun, and is not undone."""
    return node.completed > 0 or node.failed > 0 or node.cancelled > _undone_before(state, node)


def _undone_before(state: JobState, node: NodeState) -> int:
    """How many of its cancelled tasks have ended so because they were undone."""
    earlier = state.undo.before.get(node.name, 0) if state.undo is not None else 0
    return earlier + (node.undo.undone if node.undo is not None else 0)


def was_undone(node: NodeState) -> bool:
    """Whether an undo has taken back some of what it had completed, and it has not run since."""
    return node.undo is not None and node.undo.undone > 0


def undone_before(state: JobState, names: Iterable[str]) -> dict[str, int]:
    """How many tasks of each node are undone when another undo of these nodes begins."""
    earlier = dict(state.undo.before) if state.undo is not None else {}
    return earlier | {name: number for name in names if (number := _undone_before(state, state.nodes[name]))}


def is_accepted(state: JobState, request: Request) -> bool:
    """Whether a skip names a node of which an undo has failed: a person says that this part of it is done."""
    node = state.nodes.get(request.node or "")
    is_left = state.undo is not None and state.undo.is_over and not state.undo.is_whole
    return request.verb is Verb.SKIP and is_left and node is not None and node.undo is not None and node.undo.failed > 0


def acceptance_plan(state: JobState, request: Request) -> Plan:
    """What failed to be undone of a node counts as undone; the undo goes on with what it had held back."""
    assert request.node is not None and state.undo is not None
    node = state.nodes[request.node]
    assert node.undo is not None
    accepted = Step(node.name, Action.SKIP, node.undo.failed, COUNTS_AS_UNDONE, confirm=True)
    names = nodes_after_acceptance(state, request.node)
    rest = [step for name in names for step in _undone(name, _left(state, name, request.node))]
    return Plan(request.verb, (accepted, *rest))


def nodes_after_acceptance(state: JobState, accepted: str) -> tuple[str, ...]:
    """What the undo had still to do, without what a person has dealt with."""
    assert state.undo is not None
    return tuple(name for name in state.undo.nodes if _left(state, name, accepted))


def _left(state: JobState, name: str, accepted: str) -> list[Part]:
    node = state.nodes[name]
    return batches_to_undo(state, node) if name == accepted else parts_to_undo(state, node)
