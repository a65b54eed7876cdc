"""One step of a workflow after normalisation: all spellings of the language give this one form."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from holdfast.define.failures import ErrorRule
from holdfast.define.gates import Concurrency, Rate
from holdfast.define.retry import Retry


class NodeType(StrEnum):
    START = "start"
    END = "end"
    TASK = "task"
    CONDITIONAL = "conditional"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"


class Importance(StrEnum):
    """What a node's failure means for its job."""

    CRITICAL = "critical"
    IMPORTANT = "important"
    OPTIONAL = "optional"


class Aggregation(StrEnum):
    """How a fan-in without a handler combines the items."""

    COLLECT = "collect"
    CONCAT = "concat"
    SUM = "sum"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What a worker runs: for a task, for each item of a fan-out, for each batch of a fan-in or at its end."""

    handler: str
    queue: str = "default"
    params: dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 3600.0
    queue_timeout_seconds: float | None = None
    retry: Retry = field(default_factory=Retry)
    errors: tuple[ErrorRule, ...] = ()
    breaker: str | None = None
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    output_schema: dict[str, Any] | None = None
    compensate: TaskSpec | None = None
    """What takes back the effects of a completed task: it is called with the task's params and output."""

    def to_json(self) -> dict[str, Any]:
        """Leaves out unused keys of later versions, so that upgrades do not change a definition's hash."""
        later: dict[str, Any] = {
            "errors": [rule.to_json() for rule in self.errors],
            "breaker": self.breaker,
            "concurrency": self.concurrency.to_json() if self.concurrency is not None else None,
            "rate": self.rate.to_json() if self.rate is not None else None,
            "output_schema": self.output_schema,
            "compensate": self.compensate.to_json() if self.compensate is not None else None,
        }
        return {key: value for key, value in later.items() if value} | {
            "handler": self.handler,
            "queue": self.queue,
            "params": self.params,
            "timeout_seconds": self.timeout_seconds,
            "queue_timeout_seconds": self.queue_timeout_seconds,
            "retry": self.retry.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TaskSpec:
        later = {
            "retry": Retry.from_json(data["retry"]),
            "errors": tuple(ErrorRule.from_json(rule) for rule in data.get("errors", ())),
            "concurrency": Concurrency.from_json(data["concurrency"]) if "concurrency" in data else None,
            "rate": Rate.from_json(data["rate"]) if "rate" in data else None,
            "compensate": TaskSpec.from_json(data["compensate"]) if "compensate" in data else None,
        }
        return cls(**{**data, **later})


@dataclass(frozen=True, slots=True)
class Branch:
    """One way out of a conditional. The default branch has no condition; file order decides."""

    targets: tuple[str, ...]
    condition: str | None = None


class OnItemFailure(StrEnum):
    """What happens to the other items when more have failed than are tolerated."""

    FINISH = "finish"
    STOP = "stop"


class CountsAs(StrEnum):
    """What a job is called whose fan-out completed with tolerated failures."""

    PARTIAL = "partial"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Tolerate:
    """How many items of a fan-out may fail: a number, or a share of its width, rounded down."""

    failures: int = 0
    percent: float | None = None
    counts_as: CountsAs = CountsAs.PARTIAL

    def allows(self, failed: int, width: int) -> bool:
        if self.percent is None:
            return failed <= self.failures
        # In whole millionths, the finest that a file can say: as floats, 0.57 % of 10,000 would be less than 57.
        return failed <= width * round(self.percent * 1_000_000) // 100_000_000

    def to_json(self) -> dict[str, Any]:
        counts_as = {} if self.counts_as is CountsAs.PARTIAL else {"counts_as": str(self.counts_as)}
        return {"failures": self.failures, "percent": self.percent, **counts_as}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tolerate:
        return cls(**data | {"counts_as": CountsAs(data.get("counts_as", CountsAs.PARTIAL))})


class Safe(StrEnum):
    """Whether completed tasks may run again when a person asks for it."""

    ALWAYS = "always"
    CONFIRM = "confirm"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Rerun:
    """Whether a node's completed tasks may run again; the others always may."""

    safe: Safe = Safe.CONFIRM
    within_hours: float | None = None
    """How long after they completed. None: no limit."""

    def to_json(self) -> dict[str, Any]:
        return {"safe": str(self.safe), "within_hours": self.within_hours}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rerun:
        return cls(Safe(data["safe"]), data["within_hours"])


AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Batches:
    """How a fan-in takes the items of its fan-out in pages of a fixed size, each in a separate task."""

    task: TaskSpec
    size: int | str = AUTO
    """A number, a template, or `auto`."""

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "task": self.task.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Batches:
        return cls(TaskSpec.from_json(data["task"]), data["size"])


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A product of a node that is useful by itself; its location is a template."""

    name: str
    location: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "location": self.location}


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its own dependencies; graph.py adds those that come from the `next` of other nodes."""

    name: str
    type: NodeType = NodeType.TASK
    description: str = ""
    importance: Importance = Importance.CRITICAL
    next: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    task: TaskSpec | None = None
    source: str | None = None
    item_key: str | None = None
    """For a fan-out: a template over `item`. An item with the same key is the same item after a correction."""
    aggregation: Aggregation = Aggregation.COLLECT
    branches: tuple[Branch, ...] = ()
    tolerate: Tolerate = Tolerate()
    on_item_failure: OnItemFailure = OnItemFailure.FINISH
    batches: Batches | None = None
    deliverable: Deliverable | None = None
    rerun: Rerun = Rerun()

    @property
    def tasks(self) -> tuple[TaskSpec, ...]:
        """Everything that workers run for it, also to undo it."""
        batch = self.batches.task if self.batches is not None else None
        works = [task for task in (batch, self.task) if task is not None]
        return (*works, *(task.compensate for task in works if task.compensate is not None))
