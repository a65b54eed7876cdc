"""What an owner remembers of its jobs: their states, their deadlines, and what it owes them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.advance import owed_results, owed_rows
from holdfast.core.states import JobState
from holdfast.core.stopping import bound_deadlines


class Memory:
    """Nodes and counters of jobs, never their tasks. What is dropped is read from the store again."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobState] = {}
        self.to_load: set[str] = set()
        self.former_owners: dict[str, str] = {}
        """The jobs that were taken over and have not been loaded yet, each with the name of its former owner."""
        self.owing_rows: dict[str, None] = {}
        self.owing_results: dict[str, None] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}
        self.knows_its_jobs = True
        self.known_until: str | None = None

    def adopt(self, former_owners: Mapping[str, str]) -> None:
        self.to_load.update(former_owners)
        self.former_owners.update(former_owners)

    def learn(self, page: Sequence[str], *, is_last: bool) -> None:
        """The next of the jobs that belong to the owner, by id; they are loaded some at a time."""
        self.to_load.update(job_id for job_id in page if job_id not in self.jobs)
        self.knows_its_jobs, self.known_until = is_last, page[-1] if page else None

    def keep(self, states: Iterable[JobState]) -> None:
        """These are committed: keep what is still open, with its deadlines and what the owner owes it."""
        for state in states:
            job_id = state.job_id
            self.former_owners.pop(job_id, None)
            self.owing_results.pop(job_id, None)
            if state.is_terminal:
                self.doubt(job_id)
                self.owing_rows.pop(job_id, None)
                continue
            self.jobs[job_id] = state
            self._arm(state)
            if owed_rows(state):
                self.owing_rows.setdefault(job_id)
            if owed_results(state):
                self.owing_results.setdefault(job_id)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop these jobs; the next cycle reads them again."""
        for job_id in job_ids:
            self.drop(job_id)
            self.to_load.add(job_id)

    def drop(self, job_id: str) -> None:
        self.doubt(job_id)
        self.owing_rows.pop(job_id, None)
        self.owing_results.pop(job_id, None)

    def doubt(self, job_id: str) -> None:
        """Drop its state; what the owner owes it stays."""
        self.jobs.pop(job_id, None)
        self._armed.pop(job_id, None)

    def forget_everything(self) -> None:
        """Drop what was learned from another connection, or another history; the rows say which jobs are ours."""
        self.jobs.clear()
        self.to_load.clear()
        self.owing_rows.clear()
        self.owing_results.clear()
        self._deadlines.clear()
        self._armed.clear()
        self.knows_its_jobs, self.known_until = False, None

    def next_deadline(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    def due(self, now: float) -> list[str]:
        """The jobs whose deadline has come; each is returned once."""
        due = []
        while self._deadlines and self._deadlines[0][0] <= now:
            moment, job_id = heapq.heappop(self._deadlines)
            if self._armed.get(job_id) == moment:
                del self._armed[job_id]
                if job_id in self.jobs:
                    due.append(job_id)
        return due

    def follow_clock(self, now: float) -> None:
        """The clock has stepped back: no deadline is further away than its own time, from now on."""
        self._deadlines, self._armed = [], {}
        for state in self.jobs.values():
            bound_deadlines(state, now)
            self._arm(state)

    def _arm(self, state: JobState) -> None:
        deadline = state.next_deadline()
        if deadline is not None and self._armed.get(state.job_id) != deadline:
            self._armed[state.job_id] = deadline
            heapq.heappush(self._deadlines, (deadline, state.job_id))
