"""What is paused, and many jobs that are paused or unpaused together: which would be, and which were."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.views.gates import PausedQueue
from holdfast.views.verbs import Verb


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """A job that was not changed, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobsPlan:
    """What a pause or an unpause of many jobs would do now; `workflow_id` None: to all jobs of the tenant."""

    verb: Verb
    workflow_id: str | None
    jobs: int
    """How many jobs would be changed."""
    already: int
    """How many are so already."""
    refused: tuple[RefusedJob, ...]
    """Those that have not ended and cannot be changed."""
    workflows: dict[str, int]
    """The jobs that would be changed, by workflow."""
    job_ids: tuple[str, ...]
    """The same jobs, oldest first."""

    def to_result(self) -> JobsResult:
        """Before anything was done."""
        return JobsResult(self.verb, self.workflow_id, 0, self.already, 0, self.refused, ())


@dataclass(frozen=True, slots=True)
class JobsResult:
    """What a pause or an unpause of many jobs has done."""

    verb: Verb
    workflow_id: str | None
    jobs: int
    """How many jobs were changed."""
    already: int
    """How many were so already."""
    ended: int
    """How many ended before the verb reached them."""
    refused: tuple[RefusedJob, ...]
    pending: tuple[str, ...]
    """The jobs whose owners have not answered yet: the verb is recorded for them."""


@dataclass(frozen=True, slots=True)
class PauseState:
    """A pause that holds now: of a queue, or of jobs of a workflow."""

    id: str
    """`queue:NAME` or `workflow:ID`; `all` ends all pauses of jobs."""
    queue: str | None
    workflow_id: str | None
    by: tuple[str, ...]
    since: datetime
    """When the first of it was paused."""
    reason: str | None
    count: int
    """How many jobs are paused; of a queue, how many tasks of the tenant wait in it."""


@dataclass(frozen=True, slots=True)
class PauseChange:
    """What a pause, or the end of one, has done or would do: one of the three is given."""

    id: str
    queue: PausedQueue | None = None
    jobs: JobsResult | None = None
    plan: JobsPlan | None = None
    """What would be done; nothing was changed."""
