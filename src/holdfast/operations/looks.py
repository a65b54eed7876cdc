"""What a plan is made of: a job as one transaction of the store sees it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from holdfast.core.correcting import Corrected
from holdfast.core.plans import Plan, Refusal
from holdfast.core.signals import MatchedTask, Request
from holdfast.core.states import JobState


class PlanningLook(Protocol):
    """A job as one transaction sees it."""

    @property
    def state(self) -> JobState: ...

    @property
    def now(self) -> float:
        """When that was, by the store's clock."""
        ...

    async def plan(self, request: Request) -> Plan | Refusal:
        """The plan that the owner would make of the verb now."""
        ...


class CorrectingLook(PlanningLook, Protocol):
    """An ended job as one transaction sees it, with what its nodes gave."""

    async def read_outputs(self, nodes: Container[str]) -> None:
        """Complete the state with what these nodes gave, where that is too large for a row."""
        ...

    async def own_params(self) -> dict[str, bytes | None]:
        """The params of each node's own task; None: they were refused."""
        ...

    async def item_keys(self, node: str) -> list[tuple[int, str]]:
        """The tasks of a fan-out, each with what its item is known by."""
        ...

    async def matched_tasks(self, node: str, items: Sequence[int]) -> dict[int, MatchedTask]:
        """These tasks of a fan-out as their rows say."""
        ...

    async def completed_outputs(self, node: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """The next outputs of a node's completed tasks, by item."""
        ...

    async def corrected_plan(self, after: JobState, request: Request, corrected: Corrected) -> Plan | Refusal:
        """The plan of a verb with a correction; `after` is the job as it would be."""
        ...
