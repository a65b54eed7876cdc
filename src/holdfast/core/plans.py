"""The plan of a recovery: what a verb would keep and what it would run again, node by node."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import NamedTuple

import orjson

from holdfast.core.foreseeing import Fate
from holdfast.core.signals import Request, Selected, Selection, Verb
from holdfast.core.states import (
    JobStatus,
    Status,
)
from holdfast.remedies import Remedy

RESUMABLE = frozenset({JobStatus.FAILED, JobStatus.PARTIAL, JobStatus.CANCELLED})
UNFINISHED = (str(Status.FAILED), str(Status.CANCELLED))
NOT_COMPLETED = (*UNFINISHED, str(Status.SKIPPED), str(Status.READY))
ANY_STATUS = (str(Status.COMPLETED), *NOT_COMPLETED)
NOTHING_SELECTED = Selected()
BY_HAND = (Verb.SKIP, Verb.SET)
SET_BY_PERSON = "set_by_person"


class Action(StrEnum):
    KEEP = "keep"
    RERUN = "rerun"
    SKIP = "skip"
    SET = "set"
    STALE = "stale"


CHANGES = (Action.RERUN, Action.SKIP, Action.SET)


class Unknown(StrEnum):
    """Why it is not known yet how many tasks of a node will run."""

    FAN_OUT = "fan-out of unknown width"
    FAN_IN = "fan-in of unknown width"
    CONDITION = "node that a condition decides"


class Step(NamedTuple):
    """What happens to a node. With a selection only these of its tasks run again, else all of it."""

    node: str
    action: Action
    items: int | None
    """How many of its tasks; None: that is not known yet."""
    reason: str
    selection: Selection | None = None
    confirm: bool = False
    """Whether a person has to confirm it."""
    redone: bool = False
    """Whether it runs again what had completed, or gives that up."""
    fate: Fate = Fate.RUNS
    unknown: Unknown | None = None
    blocked: str | None = None
    """Why it may not be done."""


class Refusal(NamedTuple):
    """Why a verb cannot be carried out, and what else can be done."""

    reason: str
    remedy: Remedy
    is_unknown: bool = False
    """It names something that does not exist."""


class Plan(NamedTuple):
    verb: Verb
    steps: tuple[Step, ...]
    evaluates_result: bool = False
    """Nothing runs, but the `result` of the workflow is evaluated once more."""
    refusal: Refusal | None = None
    """Why it cannot be carried out, although all of it can be shown: a step is blocked."""

    @property
    def reruns(self) -> list[Step]:
        return [step for step in self.steps if step.action is Action.RERUN]

    @property
    def tasks(self) -> int:
        """How many are known to run."""
        return sum(step.items or 0 for step in self.reruns)

    @property
    def unknown(self) -> list[Step]:
        """Of these it is not known yet whether they run, or how many tasks they have."""
        return [step for step in self.reruns if step.unknown is not None]


MOVED = Refusal("the job has changed since this plan was made", Remedy("Look at the plan again, and use its new id."))


def plan_id(job_id: str, generation: int, request: Request, plan: Plan) -> str:
    """The hash of what is done; what goes on beside it in a running job is no part of it.

    Keys are sorted: a given output comes back from the database in another order.
    """
    done = [(step.node, str(step.action), step.items) for step in plan.steps if step.action is not Action.KEEP]
    # Versions that do not know a field give the same id, as long as nothing is said in it.
    asked = list(request._replace(plan_id=None))[: None if request.tolerated else -1]
    content = [job_id, generation, asked, done]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
