"""Many jobs that are paused or unpaused together: which would be, and which were."""

from __future__ import annotations

from dataclasses import dataclass

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
