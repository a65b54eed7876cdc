"""What the janitor needs from outside: a store that searches for problems, signals owners, and forgets old rows.

The composition root passes the implementation in; `store/janitor_store.py` has the one on Postgres. Every call may
raise Unreachable: then its outcome is unknown.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from holdfast.store.audit_rows import Origin
from holdfast.store.upkeep_rows import ActionView, CompletedJob, Fact, Finding, LeaderView, OldestLeft, OpenJob, Pruned

Search = Literal[
    "find_expired_leases",
    "find_forgotten",
    "find_idle_jobs",
    "find_laneless_queue",
    "find_long_open_breakers",
    "find_missed_deadlines",
    "find_orphaned_inbox",
    "find_orphaned_queue",
    "find_repeated_failures",
    "find_stuck_tasks",
    "find_wrong_counters",
]
"""The problems that a store can search for."""

Deletion = Literal[
    "delete_laneless_queue", "delete_orphaned_inbox", "delete_orphaned_queue", "forget", "write_deletion"
]
"""What a store can delete on its own, with a line in the janitor's log; the last one writes only the line."""


class PruneStore(Protocol):
    """Deletes finished jobs with all their rows and objects. Any number may prune at once."""

    async def find(
        self, older_than_seconds: float, statuses: Sequence[str] = ..., *, most: int | None = None
    ) -> list[Pruned]:
        """Which jobs can be pruned, by workflow and status; at most the `most` oldest jobs."""
        ...

    async def oldest_left(self, older_than_seconds: float, statuses: Sequence[str] = ...) -> OldestLeft | None:
        """The oldest finished job that a prune would leave."""
        ...

    async def prune(
        self,
        older_than_seconds: float,
        statuses: Sequence[str] = ...,
        *,
        within_seconds: float | None = None,
        on_batch: Callable[[int], None] = ...,
        by: tuple[str, Origin] | None = None,
    ) -> list[Pruned]:
        """Delete these jobs, oldest first; returns what was deleted.

        No batch begins after `within_seconds`. `on_batch` is called with the number of jobs deleted so far. `by` is the
        person who asks for it.
        """
        ...

    async def leftovers(self, age_seconds: float = 0.0) -> int:
        """How many jobs have objects left, that long after their rows were deleted."""
        ...

    async def finish_leftovers(self, age_seconds: float = 0.0) -> int:
        """Remove the objects of jobs whose rows were deleted; returns the number of jobs."""
        ...


class JanitorStore(Protocol):
    """Where the janitor looks and acts. Every action is guarded, so that two leaders at once do no harm."""

    @property
    def pruning(self) -> PruneStore: ...

    # The leader

    async def lead(self, holder: str, lease_seconds: float) -> bool:
        """Take or keep the lead; False while another process has it."""
        ...

    async def resign(self, holder: str) -> None:
        """End the lead now."""
        ...

    async def leader(self) -> LeaderView | None:
        """The process that leads now."""
        ...

    # Problems

    async def patrol(self, after: str, jobs: int, tasks: int) -> list[str]:
        """The next open jobs: at most `jobs` of them, or as many as have `tasks` tasks."""
        ...

    async def completed(
        self, after: tuple[datetime, str], jobs: int, tasks: int, patience: float
    ) -> list[CompletedJob]:
        """The next jobs that completed lately: at most `jobs` of them, or as many as have `tasks` tasks."""
        ...

    async def look(self, search: Search, /, jobs: Sequence[str] | None = None, **parameters: Any) -> list[Fact]:
        """Search for one kind of problem, in these jobs or everywhere."""
        ...

    async def nodes_of(self, jobs: Sequence[str]) -> list[OpenJob]:
        """Those of these jobs that are still open, with their graphs and the statuses of their nodes."""
        ...

    # Actions

    async def tried(self, jobs: Iterable[str]) -> dict[tuple[str, str, str | None], int]:
        """How often owners had to recheck these jobs lately: by duty, job and node."""
        ...

    async def recheck(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Make the owners recheck these jobs; returns what was sent: a job with an unread signal needs no other."""
        ...

    async def alert(self, run: uuid.UUID, findings: Sequence[Finding]) -> list[Finding]:
        """Store what needs a person; returns what was not reported within the last hour."""
        ...

    async def expire(self) -> int:
        """End leases that have run out, and write the log; returns how many."""
        ...

    async def delete(self, deletion: Deletion, run: uuid.UUID, duty: str, /, **parameters: Any) -> list[Finding]:
        """Delete one kind of row and write the log; returns what was deleted."""
        ...

    async def roll_up(self) -> None:
        """Count the events that no pass has counted yet."""
        ...

    async def actions(self, limit: int, *, tenant: str | None = None, before: int | None = None) -> list[ActionView]:
        """The last actions, newest first: before that line, and about jobs of that tenant, if they are given."""
        ...
