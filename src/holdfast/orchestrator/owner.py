"""An owner and its jobs: one cycle drains signals, runs the core and commits once. Runs on any store.

Knows nothing of waiting, timers or connections: the loop around it decides when to run the next cycle, and the
simulator runs the same code against its model of a store.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.core.advance import advance, owed_results, owed_rows
from holdfast.core.failing import failure
from holdfast.core.fanning import aggregate
from holdfast.core.signals import (
    ItemsAggregated,
    OwnerChanged,
    Signal,
    TasksWithdrawn,
    TimePassed,
    WorkContinued,
)
from holdfast.core.states import JobState, Rules
from holdfast.define.program import Program, compile_pinned
from holdfast.errors import Code
from holdfast.orchestrator.commit import add_effects, add_states
from holdfast.orchestrator.loading import job_state, signal
from holdfast.store.interface import Batch, Cycle, JobRow, NodeRow, SignalRow, Store, Withdrawal

CLAIM_LIMIT = 500
DRAIN_LIMIT = 2000
LOAD_LIMIT = 500


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did: whether there is more to do at once, here or by another, and whether workers have news."""

    now: float
    signals: int
    jobs: int
    more: bool
    overflows: bool
    enqueued: bool
    due_at: float | None
    finished: tuple[str, ...]


class Owner:
    """The only writer of its jobs. Keeps their nodes and counters in memory, never their tasks."""

    def __init__(
        self, store: Store, orchestrator_id: int, name: str, rules: Rules, chance: Callable[[], float]
    ) -> None:
        self.orchestrator_id = orchestrator_id
        self._name = name
        self._store = store
        self._cycle: Cycle = store.cycle(orchestrator_id)
        self._rules = rules
        self._chance = chance
        self.jobs: dict[str, JobState] = {}
        self._programs: dict[str, Program] = {}
        self._to_load: set[str] = set()
        self._taken_over: dict[str, str] = {}
        self._owing_rows: dict[str, None] = {}
        self._owing_results: dict[str, None] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}

    def adopt(self, taken: Mapping[str, str]) -> None:
        """Jobs that were taken over, each from the named owner: they are loaded in the next cycles."""
        self._to_load.update(taken)
        self._taken_over.update(taken)

    def next_deadline(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    @property
    def has_work(self) -> bool:
        """Whether the next cycle has something to do even without a signal."""
        return bool(self._to_load or self._owing_rows or self._owing_results)

    async def run_cycle(self) -> CycleResult:
        """One transaction. Whatever goes wrong, the states that it touched are forgotten and read again."""
        involved: set[str] = set()
        try:
            return await self._run(involved)
        except BaseException:
            self.forget(involved)
            await self._cycle.rollback()
            raise

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what memory says of these jobs; the next cycle reads them from the store."""
        for job_id in job_ids:
            self.jobs.pop(job_id, None)
            self._owing_rows.pop(job_id, None)
            self._owing_results.pop(job_id, None)
            self._to_load.add(job_id)

    async def _run(self, involved: set[str]) -> CycleResult:
        opened = await self._cycle.open(CLAIM_LIMIT, DRAIN_LIMIT)
        now = opened.now
        work: defaultdict[str, list[SignalRow | Signal]] = defaultdict(list)
        claimed = {row.job_id: row for row in opened.claimed}
        for row in opened.signals:
            work[row.job_id].append(row)
        self._add_own_work(work, now)
        # A claimed job is ours only after the commit; if its outcome is unknown, the reload finds out.
        involved.update(work)
        states = await self._states(work, claimed)
        batch = Batch(handled=[row.id for row in opened.signals if row.job_id in states])
        withdrawals: list[Withdrawal] = []
        for job_id, signals in work.items():
            state = states.get(job_id)
            if state is not None:
                withdrawals += await self._advance(batch, state, signals, now)
        await self._withdraw(batch, states, withdrawals, now)
        for state in states.values():
            add_states(batch, state, self.orchestrator_id)
        if states:
            await self._cycle.commit(batch)
        else:
            # Woken in vain: unlike a commit, a rollback waits for no disk.
            await self._cycle.rollback()
        self._remember(states.values())
        return CycleResult(
            now=now,
            signals=len(opened.signals),
            jobs=len(states),
            more=len(opened.signals) >= DRAIN_LIMIT or len(claimed) >= CLAIM_LIMIT or self.has_work,
            overflows=len(claimed) >= CLAIM_LIMIT,
            enqueued=batch.makes_work,
            due_at=batch.earliest_due(),
            finished=tuple(s.job_id for s in states.values() if s.is_terminal),
        )

    def _add_own_work(self, work: defaultdict[str, list[SignalRow | Signal]], now: float) -> None:
        """What the owner owes without being asked: loading, deadlines, the next chunk, gathered results."""
        for job_id in list(self._to_load)[:LOAD_LIMIT]:
            work[job_id]  # A key without signals: the job is loaded and looked at.
        while self._deadlines and self._deadlines[0][0] <= now:
            moment, job_id = heapq.heappop(self._deadlines)
            if self._armed.get(job_id) == moment:
                del self._armed[job_id]
                if job_id in self.jobs:
                    work[job_id].append(TimePassed())
        # One wide job at a time makes its chunk, in turn, so that no fan-out stalls its neighbours.
        for job_id in list(self._owing_rows)[:1]:
            del self._owing_rows[job_id]
            work[job_id].append(WorkContinued())
        for job_id in self._owing_results:
            work[job_id]  # The results are gathered in _advance.

    async def _states(
        self, work: dict[str, list[SignalRow | Signal]], claimed: dict[str, JobRow]
    ) -> dict[str, JobState]:
        """The states of all jobs with work: from memory, from the claim, or loaded; others are not ours."""
        missing = [job_id for job_id in work if job_id not in self.jobs and job_id not in claimed]
        loaded: list[JobRow] = []
        nodes: list[NodeRow] = []
        begun = [row.job_id for row in claimed.values() if row.epoch > 0]
        if missing or begun:
            loaded, nodes = await self._cycle.load([*missing, *begun])
        by_job: defaultdict[str, list[NodeRow]] = defaultdict(list)
        for node in nodes:
            by_job[node.job_id].append(node)
        states = {}
        for row in (*claimed.values(), *loaded):
            program = await self._program(row.definition_hash)
            state = job_state(row, by_job[row.job_id], program, self._rules)
            if row.job_id in claimed:
                # A finished job is only asked, not owned: its row stays as it is.
                state.epoch += 1
                state.job_touched = not state.is_terminal
            elif row.job_id in self._taken_over:
                work[row.job_id].insert(0, OwnerChanged(self._name, self._taken_over[row.job_id]))
            states[row.job_id] = state
        for job_id in work:
            self._to_load.discard(job_id)
            if job_id in self.jobs:
                states[job_id] = self.jobs[job_id]
            elif job_id not in states:
                self._taken_over.pop(job_id, None)
        return states

    async def _program(self, definition_hash: str) -> Program:
        program = self._programs.get(definition_hash)
        if program is None:
            program = compile_pinned(definition_hash, await self._store.definition(definition_hash))
            self._programs[definition_hash] = program
        return program

    async def _advance(
        self, batch: Batch, state: JobState, signals: Iterable[SignalRow | Signal], now: float
    ) -> list[Withdrawal]:
        withdrawals: list[Withdrawal] = []
        # Only what was owed before this cycle: the items of a fan-in that becomes owed now are not written yet.
        owed = owed_results(state) if state.job_id in self._owing_results else []
        for given in signals:
            heard = signal(given, now, self._chance(), state.program) if isinstance(given, SignalRow) else given
            withdrawals += add_effects(batch, state, advance(state, heard, now))
        for node in owed:
            answer = await self._gather(state, node, now)
            withdrawals += add_effects(batch, state, advance(state, answer, now))
        return withdrawals

    async def _gather(self, state: JobState, node: str, now: float) -> ItemsAggregated:
        """Read what the items of the fan-out gave; all their reports are committed by now."""
        outputs, failed = await self._cycle.results(state.job_id, state.program.graph.fan_out_of[node])
        try:
            output = aggregate(state.program.nodes[node].node.aggregation, outputs, failed)
        except ValueError as problem:
            error = failure(Code.CONTRACT_VIOLATION, str(problem), permanent=True, at=now, node=node)
            return ItemsAggregated(node, error=error)
        return ItemsAggregated(node, output)

    async def _withdraw(
        self, batch: Batch, states: dict[str, JobState], withdrawals: list[Withdrawal], now: float
    ) -> None:
        """End what waits in the queue, after everything decided so far is written, until nobody asks for more."""
        while withdrawals:
            await self._cycle.write(batch)
            batch.clear()
            ended = await self._cycle.withdraw(withdrawals)
            leases_too = {w.job_id for w in withdrawals if w.leases_too}
            withdrawals = []
            for job_id, items in ended.items():
                state = states[job_id]
                heard = TasksWithdrawn(items, leases_too=job_id in leases_too)
                withdrawals += add_effects(batch, state, advance(state, heard, now))

    def _remember(self, states: Iterable[JobState]) -> None:
        """The commit is done: keep what is still open, with its deadlines and what it owes."""
        for state in states:
            job_id = state.job_id
            self._taken_over.pop(job_id, None)
            self._owing_results.pop(job_id, None)
            if state.is_terminal:
                self.jobs.pop(job_id, None)
                self._armed.pop(job_id, None)
                self._owing_rows.pop(job_id, None)
                continue
            self.jobs[job_id] = state
            deadline = state.next_deadline()
            if deadline is not None and self._armed.get(job_id) != deadline:
                self._armed[job_id] = deadline
                heapq.heappush(self._deadlines, (deadline, job_id))
            if owed_rows(state):
                self._owing_rows.setdefault(job_id)
            if owed_results(state):
                self._owing_results.setdefault(job_id)
