"""A verb and its plan for people: what would be done, its id, and the command that does exactly that."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.advising import words
from holdfast.core.plans import Plan, Refusal, Step, plan_id
from holdfast.core.signals import Request
from holdfast.core.states import JobState, Status
from holdfast.core.steering import OpenJob, Steering, SteeringStep, steering_id
from holdfast.errors import HoldfastError, InvalidInput, NotFound, Refused
from holdfast.moments import epoch_moment

_JOB = re.compile(r"(holdfast [a-z-]+ )JOB\b")


@dataclass(frozen=True, slots=True)
class AnyPlan(ABC):
    """What a verb would do to a job, as it was when the plan was made."""

    job_id: str
    generation: int
    made_at: float

    @property
    @abstractmethod
    def verb(self) -> str: ...

    @property
    @abstractmethod
    def plan_id(self) -> str: ...

    @property
    @abstractmethod
    def tasks(self) -> int:
        """How many tasks it is about, as far as that is known."""

    @property
    def unknown(self) -> int:
        """How many nodes there are whose number of tasks is not known yet."""
        return 0

    @property
    def evaluates_result(self) -> bool:
        """Whether nothing runs but the `result` of the workflow is evaluated once more."""
        return False

    @property
    @abstractmethod
    def steps(self) -> Sequence[Step | SteeringStep]: ...

    @abstractmethod
    def words(self, job: str) -> str:
        """The verb with its arguments as people type it."""

    @property
    def asks(self) -> bool:
        """Whether a person has to mean it."""
        return any(step.confirm for step in self.steps)

    def command(self, job: str, *more: str) -> str:
        """What does exactly this, with more flags if it takes them."""
        parts = [self.words(job), *more, "--plan-id", self.plan_id, *(["--yes"] if self.asks else [])]
        return " ".join(parts)

    def to_json(self, *more: str) -> dict[str, Any]:
        return {
            "plan_id": self.plan_id,
            "job_id": self.job_id,
            "verb": self.verb,
            "generation": self.generation,
            "made_at": epoch_moment(self.made_at),
            "tasks": self.tasks,
            "steps": [
                {
                    "node": step.node,
                    "action": str(step.action),
                    "items": step.items,
                    "reason": step.reason,
                    "confirm": step.confirm,
                }
                for step in self.steps
            ],
            "command": f"holdfast {self.command(self.job_id, *more)}",
            "unknown": self.unknown,
            "evaluates_result": self.evaluates_result,
        }


@dataclass(frozen=True, slots=True)
class JobPlan(AnyPlan):
    """Of a verb that has a part of the job run again, or ends a part of it by hand."""

    request: Request
    plan: Plan

    @property
    def verb(self) -> str:
        return str(self.request.verb)

    @property
    def plan_id(self) -> str:
        return plan_id(self.job_id, self.generation, self.request, self.plan)

    @property
    def tasks(self) -> int:
        return self.plan.tasks

    @property
    def unknown(self) -> int:
        return len(self.plan.unknown)

    @property
    def evaluates_result(self) -> bool:
        return self.plan.evaluates_result

    @property
    def work(self) -> str:
        """What runs, in words: what is counted, and what cannot be counted yet."""
        if self.evaluates_result:
            return "nothing but the workflow's result"
        kinds = Counter(step.unknown for step in self.plan.unknown)
        later = [_several(number, str(kind)) for kind, number in kinds.items()]
        tasks = f"{self.tasks:,} task{'' if self.tasks == 1 else 's'}"
        return f"{tasks}, besides {' and '.join(later)}" if later else tasks

    @property
    def steps(self) -> Sequence[Step]:
        return self.plan.steps

    def words(self, job: str) -> str:
        return words(self.request, job)


@dataclass(frozen=True, slots=True)
class SteeringPlan(AnyPlan):
    """Of a cancel, a pause or an unpause."""

    job: OpenJob
    plan: Steering

    @property
    def verb(self) -> str:
        return str(self.plan.verb)

    @property
    def plan_id(self) -> str:
        return steering_id(self.job, self.plan.verb)

    @property
    def tasks(self) -> int:
        return self.plan.tasks

    @property
    def steps(self) -> Sequence[SteeringStep]:
        return self.plan.steps

    def words(self, job: str) -> str:
        return f"{self.verb} {job}"


def _several(number: int, kind: str) -> str:
    """`2 fan-outs of unknown width`."""
    noun, _, rest = kind.partition(" ")
    return f"{number} {noun}{'' if number == 1 else 's'} {rest}"


def unknown_items(state: JobState, request: Request) -> HoldfastError | None:
    """What is wrong with the items that a verb names, if its node was reached: how many it has is told with it."""
    node = state.nodes.get(request.node or "")
    if node is None or not request.items:
        return None
    if node.expanded == 0 and node.status in (Status.PENDING, Status.SKIPPED, Status.CANCELLED):
        return None
    if not state.program.nodes[node.name].has_items:
        return NotFound(
            f"Job {state.job_id} was not changed by {request.verb}: {node.name} has one task, and no items.",
            remedy=f"Leave --item out: holdfast {request.verb} {state.job_id} {node.name}",
            instance=state.job_id,
        )
    wrong = [item for item in request.items if not 0 <= item < node.width]
    if not wrong:
        return None
    kind = InvalidInput if wrong[0] < 0 else NotFound
    said = f"there is no item {wrong[0]}. {items_text(node.name, node.width)}"
    return kind(
        f"Job {state.job_id} was not changed by {request.verb}: {said}",
        remedy=f"See which failed with: holdfast status {state.job_id}",
        instance=state.job_id,
    )


def items_text(node: str, width: int) -> str:
    if width == 0:
        return f"{node} has no items."
    return f"{node} has {width:,} items, 0 to {width - 1}." if width > 1 else f"{node} has 1 item, 0."


def refused(job_id: str, verb: str, refusal: Refusal) -> NotFound | Refused:
    """A refusal for people."""
    kind = NotFound if refusal.is_unknown else Refused
    message = f"Job {job_id} was not changed by {verb}: {refusal.reason}."
    return kind(message, remedy=about(job_id, refusal.remedy), instance=job_id)


def about(job_id: str, remedy: str) -> str:
    """A remedy that speaks of this job."""
    return _JOB.sub(rf"\g<1>{job_id}", remedy)
