"""Whose turn it is: most jobs share a cycle, a job that made a cycle fail is tried alone, or left alone for a while."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.core.advance import owed_results, owed_rows
from holdfast.core.states import JobState
from holdfast.store.dangers import Dangers
from holdfast.store.records import JobRow, Opened, SignalRow

CANCEL = "cancel"
ASIDE_SECONDS = (5.0, 300.0)
"""How long a job that no orchestrator can advance is left alone: at first, and at most."""
LOCKED_SECONDS = (1.0, 30.0)
"""The same for a job of which another session keeps a row locked."""


@dataclass(frozen=True, slots=True)
class _Aside:
    """A job that cannot be advanced, when it is tried again, and which signals have asked for it without success."""

    until: float
    seconds: float
    asked_by: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Round:
    """Who takes part in a cycle: one job alone, or all but those that wait."""

    alone: str | None
    waits: tuple[str, ...]


class Turns:
    """The jobs that were set aside, those that are tried one by one, and those in whose cycles orchestrators died."""

    def __init__(self) -> None:
        self._aside: dict[str, _Aside] = {}
        self._one_by_one: deque[str] = deque()
        self.dangers = Dangers()

    def beware(self, dangers: Dangers) -> None:
        """Jobs in whose cycles orchestrators died are advanced alone; those that killed alone, not at all."""
        self.dangers = dangers
        self._try_alone(dangers.suspects)

    def is_aside(self, job_id: str) -> bool:
        return job_id in self._aside

    def next_try(self) -> float | None:
        """When the first of the jobs that were set aside is tried again."""
        return min((aside.until for aside in self._aside.values()), default=None)

    def has_work(self, now: float) -> bool:
        return bool(self._one_by_one) or any(aside.until <= now for aside in self._aside.values())

    def next(self, now: float) -> Round:
        """Who takes part in the next cycle."""
        due = [job_id for job_id, aside in self._aside.items() if aside.until <= now]
        self._try_alone(due)
        alone = self._one_by_one[0] if self._one_by_one else None
        suspects = (job_id for job_id in self.dangers.suspects if job_id != alone)
        aside = (job_id for job_id in self._aside if job_id not in due)
        return Round(alone, (*aside, *self.dangers.killers, *suspects))

    def choose(self, opened: Opened, turn: Round, now: float) -> tuple[dict[str, JobRow], list[SignalRow]]:
        """The jobs and signals whose turn it is. Of a job that may kill, only a cancel counts, and it counts alone."""
        waits = set(turn.waits)
        self._wake_asked((row for row in opened.signals if row.job_id in waits and row.job_id in self._aside), now)
        if turn.alone is None:
            deadly = waits & self.dangers.deaths.keys()
            cancelled = {row.job_id for row in opened.signals if row.job_id in deadly and row.kind == CANCEL}
            self._one_by_one.extend(sorted(cancelled))

        def has_turn(job_id: str) -> bool:
            return job_id not in waits if turn.alone is None else job_id == turn.alone

        claimed = {row.job_id: row for row in opened.claimed if has_turn(row.job_id)}
        signals = [row for row in opened.signals if has_turn(row.job_id)]
        return claimed, [row for row in signals if row.job_id not in waits or row.kind == CANCEL]

    def suspect(self, job_ids: Collection[str]) -> None:
        """A cycle failed with these jobs: each is tried alone, to find the one that cannot be advanced."""
        self._try_alone(sorted(job_ids))

    def set_aside(self, job_id: str, now: float, *, is_locked: bool) -> float:
        """Leave a job alone, longer each time; returns for how long."""
        if job_id in self._one_by_one:
            self._one_by_one.remove(job_id)
        least, most = LOCKED_SECONDS if is_locked else ASIDE_SECONDS
        before = self._aside.get(job_id)
        seconds = min(most, 2 * before.seconds) if before is not None else least
        self._aside[job_id] = _Aside(now + seconds, seconds, before.asked_by if before else frozenset())
        return seconds

    def survived(self, alone: str | None, states: Mapping[str, JobState]) -> list[str]:
        """A suspect that was advanced alone and owes nothing more: no orchestrator dies of it."""
        state = states.get(alone) if alone is not None and alone in self.dangers.deaths else None
        return [] if state is None or owed_rows(state) or owed_results(state) else [state.job_id]

    def end(self, alone: str, states: Mapping[str, JobState]) -> None:
        """It was advanced alone. A suspect that owes more does that alone as well."""
        self._one_by_one.popleft()
        self._aside.pop(alone, None)
        if self.survived(alone, states):
            deaths = {job_id: count for job_id, count in self.dangers.deaths.items() if job_id != alone}
            self.dangers = self.dangers._replace(deaths=deaths)
        elif alone in self.dangers.deaths and alone in states:
            self._one_by_one.append(alone)

    def follow_clock(self, now: float) -> None:
        """The clock has stepped back: no job is left alone for longer than its own time, from now on."""
        for job_id, aside in self._aside.items():
            self._aside[job_id] = replace(aside, until=min(aside.until, now + aside.seconds))

    def _try_alone(self, job_ids: Iterable[str]) -> None:
        self._one_by_one.extend(job_id for job_id in job_ids if job_id not in self._one_by_one)

    def _wake_asked(self, asking: Iterable[SignalRow], now: float) -> None:
        """A person or the janitor asks for jobs that were set aside: each signal has them tried once, at once."""
        asked: defaultdict[str, set[int]] = defaultdict(set)
        for row in asking:
            asked[row.job_id].add(row.id)
        for job_id, ids in asked.items():
            if not ids <= self._aside[job_id].asked_by:
                self._aside[job_id] = replace(self._aside[job_id], until=now, asked_by=frozenset(ids))
