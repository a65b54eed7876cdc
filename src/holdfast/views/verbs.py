"""A verb: its arguments, its plan, and the answer of the job's owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast.core import plans, signals, steering
from holdfast.core.plans import Stale
from holdfast.core.states import JobState, Status
from holdfast.core.undo_plans import COUNTS_AS_UNDONE
from holdfast.define.definition import Definition
from holdfast.errors import HoldfastError, InvalidInput, NotFound, Refused
from holdfast.store.records import PlanRow
from holdfast.views.advice import request_words
from holdfast.views.encoding import HIDDEN, IF_ANY, LOCAL

APPLIED, PENDING = "applied", "pending"


class Verb(StrEnum):
    """What a person or a program can do with a job."""

    CANCEL = "cancel"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    RESUME = "resume"
    RETRY = "retry"
    CLEAR = "clear"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"
    UNDO = "undo"

    @property
    def is_steering(self) -> bool:
        """Whether it stops or holds the whole job, and makes nothing run again."""
        return self in (Verb.CANCEL, Verb.PAUSE, Verb.UNPAUSE)

    @property
    def takes_node(self) -> bool:
        return not self.is_steering and self is not Verb.RESUME

    @property
    def needs_node(self) -> bool:
        return self.takes_node and self is not Verb.UNDO

    @property
    def is_by_hand(self) -> bool:
        """Whether a person decides how a node ends."""
        return self in (Verb.SKIP, Verb.SET)


@dataclass(frozen=True, slots=True)
class Correction:
    """Other inputs or another definition for a job that has ended, from its next generation on."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The inputs that differ; the others stay."""
    definition: Definition | None = None
    stale: Stale | None = None
    """Whether completed work that the corrected job would do in another way is kept or runs again."""


@dataclass(frozen=True, slots=True)
class VerbRequest:
    """A verb with its arguments. With the id of a plan the owner does exactly that plan, or refuses."""

    verb: Verb
    node: str | None = None
    items: tuple[int, ...] = ()
    code: str | None = None
    fingerprint: str | None = None
    only: bool = False
    """Leave what follows the node as it is."""
    plan_id: str | None = None
    output: Any = None
    """For `set`: the result of the node."""
    tolerated: bool = False
    """For `resume`: also run tolerated failures of completed nodes again."""
    correction: Correction | None = None
    """For `resume`, `retry` and `rerun`."""
    params: dict[str, Any] | None = None
    """For `clear`: what the one task that it names is given from now on."""

    def to_core(self) -> signals.Request:
        return signals.Request(
            signals.Verb(self.verb),
            self.node,
            self.items,
            self.code,
            self.fingerprint,
            self.only,
            self.plan_id,
            self.output,
            self.tolerated,
            self.params,
        )

    def words(self, job: str) -> str:
        """The verb with its arguments, as people type it."""
        return f"{self.verb} {job}" if self.verb.is_steering else request_words(self.to_core(), job)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What a verb would do to a node, or to some of its tasks."""

    node: str
    action: str
    items: int | None
    """How many tasks; None: not known yet."""
    reason: str
    confirm: bool
    """Whether a person must confirm it."""
    blocked: str | None = field(default=None, metadata=IF_ANY)
    """Why it may not be done; then nothing of the plan can be."""
    redone: bool = field(default=False, metadata=HIDDEN)
    """Whether it runs again what had completed."""
    is_kept: bool = field(default=False, metadata=HIDDEN)


class KeptPlan(NamedTuple):
    """The row of a correction's plan, and the definition that it brings."""

    row: PlanRow
    definition: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What a verb would do to a job, node by node, as the job was when the plan was made."""

    plan_id: str
    job_id: str
    verb: Verb
    generation: int
    made_at: datetime
    tasks: int
    """How many tasks it changes, as far as that is known."""
    steps: tuple[PlanStep, ...]
    command: str | None
    """The command that does exactly this; None if a step is blocked."""
    unknown: int
    """How many nodes have an unknown number of tasks."""
    evaluates_result: bool
    """Whether nothing runs but the `result` of the workflow is evaluated again."""
    request: VerbRequest = field(metadata=HIDDEN)
    refusal: Refused | NotFound | None = field(default=None, metadata=HIDDEN)
    """Why it cannot be carried out, and what to do instead: a step is blocked."""
    running: int = field(default=0, metadata=HIDDEN)
    """For a cancel, a pause or an unpause: how many tasks run now."""
    uncounted: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    corrected: tuple[str, ...] = field(default=(), metadata=IF_ANY)
    """What a correction changes: `inputs.NAME`, and the parts of the workflow."""
    kept: KeptPlan | None = field(default=None, repr=False, metadata=LOCAL)
    """For a correction: what its owner needs to carry it out."""

    @property
    def asks(self) -> bool:
        """Whether a person must confirm it."""
        return any(step.confirm for step in self.steps)

    @property
    def undoes(self) -> bool:
        """Whether it takes something back: it undoes, or goes on with an undo."""
        return self.verb is Verb.UNDO or any(
            step.action == plans.Action.UNDO or step.reason == COUNTS_AS_UNDONE for step in self.steps
        )

    @property
    def work(self) -> str:
        """What runs, in words: what is counted, and what cannot be counted yet."""
        if self.evaluates_result:
            return "nothing but the workflow's result"
        later = [_several(number, kind) for kind, number in Counter(self.uncounted).items()]
        tasks = f"{self.tasks:,} task{'' if self.tasks == 1 else 's'}"
        return f"{tasks}, besides {' and '.join(later)}" if later else tasks

    def words(self, job: str, *flags: str) -> str:
        """The command without the program's name, with more flags if it takes them."""
        parts = [self.request.words(job), *flags, "--plan-id", self.plan_id, *(["--yes"] if self.asks else [])]
        return " ".join(parts)

    def with_flags(self, *flags: str) -> Plan:
        """The same plan, whose command brings more flags."""
        if self.refusal is not None:
            return self
        return replace(self, command=f"holdfast {self.words(self.job_id, *flags)}")


@dataclass(frozen=True, slots=True)
class VerbResult:
    """A verb that was sent to the job's owner, and whether the owner has applied it yet."""

    job_id: str
    verb: Verb
    signal_id: int
    answer: str
    """`applied`, or `pending` while the owner has not answered."""
    status: str | None = field(default=None, metadata=IF_ANY)
    """For a cancel: the job's status now."""
    tasks: int | None = field(default=None, metadata=IF_ANY)
    """For a verb that makes tasks run: how many, as far as that is known."""
    reason: str = field(default="", metadata=HIDDEN)
    """The owner's words."""

    @property
    def is_applied(self) -> bool:
        return self.answer == APPLIED


def recovery_plan(job_id: str, generation: int, made_at: float, request: VerbRequest, plan: plans.Plan) -> Plan:
    steps = tuple(
        PlanStep(
            step.node,
            str(step.action),
            step.items,
            step.reason,
            step.confirm,
            step.blocked,
            step.redone,
            step.action is plans.Action.KEEP,
        )
        for step in plan.steps
    )
    return Plan(
        plans.plan_id(job_id, generation, request.to_core(), plan),
        job_id,
        request.verb,
        generation,
        datetime.fromtimestamp(made_at, UTC),
        plan.tasks,
        steps,
        None,
        len(plan.unknown),
        plan.evaluates_result,
        request,
        refused(job_id, request.verb, plan.refusal) if plan.refusal is not None else None,
        uncounted=tuple(str(step.unknown) for step in plan.unknown),
    ).with_flags()


def corrected_plan(
    job_id: str,
    generation: int,
    made_at: float,
    request: VerbRequest,
    plan: plans.Plan,
    kept: KeptPlan,
    corrected: tuple[str, ...],
) -> Plan:
    """The plan of a verb with a correction."""
    shown = recovery_plan(job_id, generation, made_at, request, plan)
    return replace(shown, plan_id=kept.row.plan_id, corrected=corrected, kept=kept).with_flags()


def steering_plan(job: steering.OpenJob, made_at: float, plan: steering.Steering) -> Plan:
    steps = tuple(
        PlanStep(
            step.node,
            str(step.action),
            step.items,
            step.reason,
            step.confirm,
            is_kept=step.action is steering.Change.KEEP,
        )
        for step in plan.steps
    )
    return Plan(
        steering.steering_id(job, plan.verb),
        job.job_id,
        Verb(plan.verb),
        job.generation,
        datetime.fromtimestamp(made_at, UTC),
        plan.tasks,
        steps,
        None,
        0,
        False,
        VerbRequest(Verb(plan.verb)),
        running=plan.running,
    ).with_flags()


def _several(number: int, kind: str) -> str:
    """`2 fan-outs of unknown width`."""
    noun, _, rest = kind.partition(" ")
    return f"{number} {noun}{'' if number == 1 else 's'} {rest}"


def unknown_items(state: JobState, node_name: str | None, verb: Verb, items: Sequence[int]) -> HoldfastError | None:
    """What is wrong with the items that a verb names. Only a node that was reached knows its items."""
    node = state.nodes.get(node_name or "")
    if node is None or not items:
        return None
    if node.expanded == 0 and node.status in (Status.PENDING, Status.SKIPPED, Status.CANCELLED):
        return None
    if not state.program.nodes[node.name].has_items:
        return NotFound(
            f"Job {state.job_id} was not changed by {verb}: {node.name} has one task and no items.",
            remedy=f"Leave --item out: holdfast {verb} {state.job_id} {node.name}",
            instance=state.job_id,
        )
    wrong = [item for item in items if not 0 <= item < node.width]
    if not wrong:
        return None
    kind = InvalidInput if wrong[0] < 0 else NotFound
    return kind(
        f"Job {state.job_id} was not changed by {verb}: there is no item {wrong[0]}."
        f" {items_text(node.name, node.width)}",
        remedy=f"See which items failed with: holdfast status {state.job_id}",
        instance=state.job_id,
    )


def items_text(node: str, width: int) -> str:
    if width == 0:
        return f"{node} has no items."
    return f"{node} has {width:,} items, 0 to {width - 1}." if width > 1 else f"{node} has 1 item, 0."


def refused(job_id: str, verb: str, refusal: plans.Refusal) -> NotFound | Refused:
    """The owner's refusal, or the one that it would give."""
    kind = NotFound if refusal.is_unknown else Refused
    message = f"Job {job_id} was not changed by {verb}: {refusal.reason}."
    return kind(message, remedy=refusal.remedy, instance=job_id)
