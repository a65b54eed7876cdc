"""What a correction means for each node: whether its work would be the same with other inputs or another definition.

The handler and the params of a task count. Retries, queues, timeouts, importance and texts do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from holdfast.core.kinds import has_task_per_item
from holdfast.core.match_states import Matching
from holdfast.core.matching import Counted, gives_same, same_params
from holdfast.core.plans import SET_BY_PERSON, Action, Plan, Stale
from holdfast.core.readiness import SKIPPED_BY_PERSON
from holdfast.core.signals import Request
from holdfast.core.states import TERMINAL, JobState, NodeState, Status
from holdfast.core.turn import Turn
from holdfast.define.condition import Condition
from holdfast.define.expression import Path
from holdfast.define.node_program import NodeProgram, TaskProgram
from holdfast.define.program import Program
from holdfast.define.template import Template
from holdfast.errors import HoldfastError, PayloadRefused, TemplateError

Branches = tuple[tuple[Condition | None, tuple[str, ...]], ...]


class Difference(NamedTuple):
    """Why the work of a node is not what it was."""

    reason: str
    taken: tuple[str, ...] | None = None
    """For a conditional: the branch that it takes now."""
    other_handler: bool = False
    only_contract: bool = False
    """Only what its output must look like has changed: what has completed stays, as long as it fits."""
    other_tasks: bool = False
    """Its tasks are of another kind now, so that those that it has cannot stay."""


@dataclass(slots=True)
class Corrected:
    """A correction of a job, beside the state that already follows it: what was before, and what the rows say."""

    before: Program
    inputs_before: Mapping[str, Any]
    own_params: Mapping[str, bytes | None]
    """The params of each node's own task, as its row has them."""
    counted: Mapping[str, Counted] = field(default_factory=dict)
    """What matching would come to, by fan-out."""
    stale: Stale | None = None
    undecided: list[str] = field(default_factory=list)
    """The nodes with stale work for which the person has chosen neither to keep it nor to run it again."""
    cannot_stay: list[str] = field(default_factory=list)
    """The nodes with stale work that the person wants to keep, although their tasks are of another kind now."""

    def fresh(self) -> Corrected:
        """The same, before any plan was made of it."""
        return replace(self, undecided=[], cannot_stay=[])

    def is_new(self, name: str) -> bool:
        return name not in self.before.nodes

    def keeps_tasks(self, state: JobState, node: NodeState) -> bool:
        """Whether it is and was a fan-out, so that its tasks can belong to its items."""
        was_one = not self.is_new(node.name) and self.before.nodes[node.name].source is not None
        return was_one and has_task_per_item(state, node.name)

    def other_handler(self, state: JobState, node: NodeState) -> Difference | None:
        """Whether a fan-out runs another handler for its items, whatever these are."""
        old, new = self.before.nodes[node.name].task, state.program.nodes[node.name].task
        found = _other_handler(old, new) if old is not None and new is not None else None
        is_owed = _owes_other_handler(node)
        return found or (
            Difference("an earlier correction gave it another handler", other_handler=True) if is_owed else None
        )

    def touched_batches(self, state: JobState, node: NodeState, how: Matching) -> tuple[int, ...]:
        """The batches of a completed fan-in that read what becomes another result when the items of its fan-out are
        matched; none: all of them must run, because there are new items, or because more than the items has changed."""
        fan_out = state.program.graph.fan_out_of[node.name]
        counted = self.counted.get(fan_out)
        is_whole = node.status is Status.COMPLETED and node.batch_size is not None and node.has_only_completed
        if counted is None or counted.new or not is_whole or self.difference(state, node) is not None:
            return ()
        items = {*counted.gone_items, *counted.other_items}
        items |= set(counted.stale_items) if how.reruns_stale else set()
        items |= set(counted.unfinished_items) if how.reruns_unfinished else set()
        assert node.batch_size is not None
        return tuple(sorted({item // node.batch_size for item in items}))

    def keeps_params(self, state: JobState, node: NodeState) -> bool:
        """Whether a person gave the params of the node's own task: they stay."""
        old, new = self.before.nodes.get(node.name), state.program.nodes[node.name]
        has_task = node.expanded > 0 and node.name not in self.own_params
        return has_task and old is not None and has_own_task_only(old) and has_own_task_only(new)

    def difference(self, state: JobState, node: NodeState) -> Difference | None:
        """Why the node's work is not what it was; None: it is the same, or a person has decided how it ended."""
        if node.reason == SET_BY_PERSON or self.is_new(node.name):
            return None
        old, new = self.before.nodes[node.name], state.program.nodes[node.name]
        has_other_tasks = old.node.type is not new.node.type or (old.batches is None) is not (new.batches is None)
        is_skipped = node.reason == SKIPPED_BY_PERSON and not has_task_per_item(state, node.name)
        if is_skipped and not (has_other_tasks and node.expanded):
            return None
        if old.node.type is not new.node.type:
            return Difference(f"it is a {new.node.type} now", other_handler=True, other_tasks=node.expanded > 0)
        if new.branches:
            return _other_branch(state, node)
        if has_task_per_item(state, node.name):
            return self._of_items(state, node, old, new)
        if new.batches is not None or old.batches is not None:
            return self._of_batches(state, node, old, new)
        if new.task is None or old.task is None:
            is_same = new.node.aggregation is old.node.aggregation and new.task is old.task
            return None if is_same else Difference("its aggregation is another one")
        return self._of_own_task(state, node, old.task, new.task)

    def _of_own_task(self, state: JobState, node: NodeState, old: TaskProgram, new: TaskProgram) -> Difference | None:
        found = _other_handler(old, new)
        if found is not None or node.status is not Status.COMPLETED or node.name not in self.own_params:
            return found
        before, turn = self.own_params[node.name], Turn(state, 0.0)
        scope = turn.scope_of(node.name)
        try:
            now = orjson.dumps(new.params.render(scope))
        except (TemplateError, PayloadRefused, TypeError):
            return Difference("its params cannot be computed now")
        if before is None or same_params(before, now):
            return None
        if any(gives_same(new.params, former, before) for former in turn.former_scopes(scope, new.params.paths)):
            return None
        return Difference(f"its params differ: {_differing(orjson.loads(before), orjson.loads(now))}")

    def _of_items(self, state: JobState, node: NodeState, old: NodeProgram, new: NodeProgram) -> Difference | None:
        assert old.task is not None and new.task is not None
        found = _other_handler(old.task, new.task)
        if found is not None:
            return found
        parts = (
            ("source", old.node.source != new.node.source, new.source),
            ("params", old.task.spec.params != new.task.spec.params, new.task.params),
        )
        reasons = [reason for part in parts if (reason := self._why_other(state, node.name, *part)) is not None]
        if reasons:
            return Difference(" and ".join(reasons), other_handler=_owes_other_handler(node))
        if old.task.spec.output_schema != new.task.spec.output_schema:
            return Difference("its output has another contract", only_contract=True)
        return None

    def _why_other(
        self, state: JobState, name: str, part: str, is_rewritten: bool, template: Template | None
    ) -> str | None:
        """Why a part of a node may give something else."""
        if is_rewritten:
            return f"its {part} is another one" if part != "params" else "its params are others"
        read = self._reads_other(state, template, name)
        if read is None:
            return None
        return f"its params read {read}" if part == "params" else f"its {part} reads {read}"

    def _of_batches(self, state: JobState, node: NodeState, old: NodeProgram, new: NodeProgram) -> Difference | None:
        if old.batches is None or new.batches is None or (old.task is None) != (new.task is None):
            return Difference("it takes its items in another way", other_tasks=node.expanded > 0)
        pairs = [(old.batches, new.batches), *([(old.task, new.task)] if old.task and new.task else [])]
        for before, now in pairs:
            found = _other_handler(before, now)
            if found is not None:
                return found
            is_rewritten = before.spec.params != now.spec.params
            reason = self._why_other(state, node.name, "params", is_rewritten, now.params)
            if reason is not None:
                return Difference(reason)
        assert old.node.batches is not None and new.node.batches is not None
        is_rewritten = old.node.batches.size != new.node.batches.size
        reason = self._why_other(state, node.name, "size of batches", is_rewritten, new.batch_size)
        if reason is not None:
            return Difference(reason)
        if old.batches.spec.output_schema != new.batches.spec.output_schema:
            return Difference("the output of its batches has another contract", only_contract=True)
        return None

    def _reads_other(self, state: JobState, template: Template | None, name: str) -> str | None:
        """What a template reads that the correction has changed, as far as nothing above has rerun."""
        if template is None:
            return None
        for path in sorted(template.paths, key=str):
            if path[0] in ("inputs", "input") and _at(self.inputs_before, path[1:]) != _at(state.inputs, path[1:]):
                return ".".join(map(str, ("inputs", *path[1:])))
        if "job" in template.roots and self.before.definition.version != state.program.definition.version:
            return "the version of the workflow"
        is_other = self.before.graph.sources[name] != state.program.graph.sources[name]
        return "what comes before it" if "upstream" in template.roots and is_other else None


def has_own_task_only(program: NodeProgram) -> bool:
    return program.task is not None and not program.has_items and program.batches is None


def _owes_other_handler(node: NodeState) -> bool:
    """Whether an earlier correction gave a fan-out another handler, and was stopped before all tasks had it."""
    return node.matching is not None and node.is_matching and node.matching.has_other_handler


def _other_handler(old: TaskProgram, new: TaskProgram) -> Difference | None:
    if old.spec.handler == new.spec.handler:
        return None
    return Difference(f"its handler is {new.spec.handler} now, and was {old.spec.handler}", other_handler=True)


def _other_branch(state: JobState, node: NodeState) -> Difference | None:
    """Conditionals are evaluated again: they cost nothing."""
    if node.status is not Status.COMPLETED:
        return None
    turn, branches = Turn(state, 0.0), state.program.nodes[node.name].branches
    scope = turn.scope_of(node.name)
    paths = frozenset[Path]().union(*(one.paths for one, _ in branches if one is not None))
    taken = _taken(branches, scope)
    if any(_taken(branches, one) == node.taken for one in (scope, *turn.former_scopes(scope, paths))):
        return None
    leads = f"it leads to {', '.join(taken)} now" if taken else "none of its branches holds now"
    return Difference(leads, taken=taken)


def _taken(branches: Branches, scope: Mapping[str, Any]) -> tuple[str, ...] | None:
    try:
        return next((targets for one, targets in branches if one is None or one.evaluate(scope)), None)
    except HoldfastError:
        return None


def _differing(before: Any, now: Any) -> str:
    names = [key for key in {**before, **now} if before.get(key, ...) != now.get(key, ...)]
    return ", ".join(names) or "in the types of their values"


def _at(value: Any, path: Iterable[Any]) -> Any:
    for key in path:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return ...
    # As JSON, because 1, 1.0 and true are equal for Python.
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def corrected_state(state: JobState, program: Program, inputs: dict[str, Any]) -> JobState:
    """The job with another definition and other inputs, as it would be before anything runs."""
    nodes = {name: replace(node) for name, node in state.nodes.items()}
    after = replace(state, nodes=nodes, retired=dict(state.retired))
    after.correct(program, inputs)
    after.scope["job"]["generation"] += 1
    return after


def to_count(state: JobState, corrected: Corrected) -> list[tuple[NodeState, Difference]]:
    """The fan-outs whose items must be matched with their tasks, before a plan can say how many of them run."""
    wanted = []
    for node in state.nodes.values():
        if node.expanded and corrected.keeps_tasks(state, node):
            difference = corrected.difference(state, node)
            if difference is not None:
                wanted.append((node, difference))
    return wanted


def correction_id(job_id: str, generation: int, seq: int, request: Request, after: JobState, plan: Plan) -> str:
    """The hash of a correction and of what comes of it."""
    done = [(step.node, str(step.action), step.items) for step in plan.steps if step.action is not Action.KEEP]
    asked = list(request._replace(plan_id=None))
    content = [job_id, generation, seq, asked, after.program.hash, after.inputs, done]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def matching_of(node: NodeState, difference: Difference | None, stale: Stale | None, *, is_chosen: bool) -> Matching:
    """How the tasks of a fan-out are matched with its items."""
    return Matching(
        reruns_stale=stale is not Stale.KEEP,
        reruns_unfinished=is_chosen,
        has_other_handler=difference is not None and difference.other_handler,
        gone=node.gone,
    )


def ends_otherwise(state: JobState, node: NodeState) -> bool:
    """Whether a fan-out whose items have all ended ends in another way by the `tolerate` that it has now."""
    definition = state.program.nodes[node.name].node
    if not has_task_per_item(state, node.name) or node.status not in TERMINAL or node.is_matching:
        return False
    has_all = node.expanded == node.width and not node.open_tasks and not node.cancelled
    if not has_all or not node.expanded or node.status not in (Status.COMPLETED, Status.FAILED):
        return False
    return definition.tolerate.allows(node.failed, node.items) is not (node.status is Status.COMPLETED)
