"""The plan of a recovery: what a verb would keep and what it would run again, node by node."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from holdfast.core.foreseeing import Fate
from holdfast.core.match_states import Matching
from holdfast.core.signals import Request, Selected, Selection, Verb
from holdfast.core.states import (
    JobStatus,
    Status,
)
from holdfast.define.program import Program
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
    NEW = "new"
    GONE = "gone"
    UNDO = "undo"


CHANGES = (Action.RERUN, Action.SKIP, Action.SET, Action.NEW)
RUNS = (Action.RERUN, Action.NEW)


class Stale(StrEnum):
    """Whether completed work that the corrected job would do in another way is kept or runs again."""

    KEEP = "keep"
    RERUN = "rerun"


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
    matching: Matching | None = None
    """For a corrected fan-out: its tasks stay, and its items are matched with them."""

    def to_json(self) -> dict[str, Any]:
        selection = self.selection._asdict() if self.selection is not None else None
        matching = asdict(self.matching) if self.matching is not None else None
        return self._asdict() | {"selection": selection, "matching": matching, "fate": int(self.fate)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Step:
        selection, matching, unknown = data["selection"], data["matching"], data["unknown"]
        if selection is not None:
            lists = {name: tuple(selection[name]) for name in ("statuses", "also")}
            items = tuple(selection["items"]) if selection["items"] is not None else None
            selection = Selection(**selection | lists | {"items": items})
        typed = {
            "action": Action(data["action"]),
            "selection": selection,
            "fate": Fate(data["fate"]),
            "unknown": Unknown(unknown) if unknown is not None else None,
            "matching": Matching(**matching) if matching is not None else None,
        }
        return cls(**data | typed)


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
        return sum(step.items or 0 for step in self.steps if step.action in (*RUNS, Action.UNDO))

    @property
    def unknown(self) -> list[Step]:
        """Of these it is not known yet whether they run, or how many tasks they have."""
        return [step for step in self.steps if step.action in RUNS and step.unknown is not None]

    def to_json(self) -> dict[str, Any]:
        """For a plan that can be carried out."""
        steps = [step.to_json() for step in self.steps]
        return {"verb": str(self.verb), "steps": steps, "evaluates_result": self.evaluates_result}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Plan:
        steps = tuple(Step.from_json(step) for step in data["steps"])
        return cls(Verb(data["verb"]), steps, data["evaluates_result"])


class Correction(NamedTuple):
    """What a person has changed about an ended job, and the plan that was made of it, as it is stored.

    Its owner compares the generation and the last event with those of the job: if they are the same, nothing has
    happened since, and the plan holds.
    """

    plan_id: str
    generation: int
    seq: int
    program: Program
    inputs: dict[str, Any]
    plan: Plan
    corrected: tuple[str, ...] = ()
    """What was changed: `inputs.NAME` or `workflow`."""
    stale: Stale | None = None


_FIRST_FIELDS = Request._fields.index("tolerated")
MOVED = Refusal("the job has changed since this plan was made", Remedy("Look at the plan again, and use its new id."))


def plan_id(job_id: str, generation: int, request: Request, plan: Plan) -> str:
    """The hash of what is done; what goes on beside it in a running job is no part of it.

    Keys are sorted: a given output comes back from the database in another order.
    """
    done = [(step.node, str(step.action), step.items) for step in plan.steps if step.action is not Action.KEEP]
    # Versions that do not know a field give the same id, as long as nothing is said in it.
    asked = list(request._replace(plan_id=None)[:_FIRST_FIELDS])
    asked += [request.tolerated] if request.tolerated else []
    asked += [request.params] if request.params is not None else []
    content = [job_id, generation, asked, done]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
