"""An owner and its jobs: one cycle drains signals, runs the core and commits once. Runs on any store.

Knows nothing of waiting, timers or connections: the loop around it decides when to run the next cycle, and the
simulator runs the same code against its model of a store.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast import tracing
from holdfast.core.advance import owed_results
from holdfast.core.breaking import Breaker
from holdfast.core.effects import Emit, WithdrawTasks
from holdfast.core.holding import notice
from holdfast.core.signals import (
    OwnerChanged,
    Signal,
    TimePassed,
    WorkContinued,
)
from holdfast.core.states import JobState, Rules
from holdfast.core.stopping import bound_deadlines
from holdfast.core.turn import CLOCK_SLACK_SECONDS
from holdfast.define.program import Program, compile_pinned
from holdfast.errors import Fenced, HistoryChanged, Locked, LostRace, Unreachable
from holdfast.log_events import EventLog
from holdfast.masking import masked
from holdfast.orchestrator.commit import add_states
from holdfast.orchestrator.deciding import RECHECK, RECOVER, Decider
from holdfast.orchestrator.memory import Memory
from holdfast.orchestrator.turns import Turns
from holdfast.pacing import WIDE_FROM, CrowdingMonitor
from holdfast.store.batch import Batch, Handover
from holdfast.store.dangers import Dangers
from holdfast.store.interface import Cycle, OwnerStore
from holdfast.store.loading import job_state
from holdfast.store.records import JobRow, Lease, NodeRow, SignalRow, Wide

Work = defaultdict[str, list[SignalRow | Signal]]
"""The signals of each job of a cycle, from its inbox and from its owner."""

log = EventLog("holdfast.orchestrator")

CLAIM_LIMIT = 500
DRAIN_LIMIT = 2000
LOAD_LIMIT = 500
NARROW_DRAIN_LIMIT = 50
NARROW_SHARE = 10
NARROW_CHUNK = 250
"""What a cycle takes on of a wide job while other jobs wait for the cycle's end: how many reports when none of theirs
is waiting, how many when one is, and how many new tasks."""
CLOCK_DOUBT_SECONDS = 60.0
"""How long the owner looks for rows that lie ahead of the clock: those that others have locked are free by then."""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did: whether there is more to do at once, here or by another, and whether workers have news.

    Of a handover: which reports were accepted, and what the worker leases next; None: the cycle did not look at it.
    """

    now: float
    signals: int
    jobs: int
    more: bool
    overflows: bool
    enqueued: bool
    due_at: float | None
    finished: tuple[str, ...]
    accepted: frozenset[int] | None = None
    leases: list[Lease] = field(default_factory=list)
    begun: tuple[JobState, ...] = ()
    ended: tuple[JobState, ...] = ()
    """Jobs that began and ended with this cycle."""
    moved: tuple[Breaker, ...] = ()
    """Breakers that changed their state with this cycle."""
    created: int = 0
    """How many of the jobs had never had an owner."""
    ended_tasks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    retries: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By outcome and code of the failure."""
    traced: tuple[tuple[JobState, Emit], ...] = ()
    """The events that ended single tasks, if traces are on."""
    yields: bool = False
    """Whether a wide job should let others go first for a moment."""

    @classmethod
    def without_work(cls, now: float, *, more: bool) -> CycleResult:
        return cls(now, 0, 0, more=more, overflows=False, enqueued=False, due_at=None, finished=())


class Owner:
    """The only writer of its jobs. Keeps their nodes and counters in memory, never their tasks."""

    def __init__(
        self,
        store: OwnerStore,
        orchestrator_id: int,
        name: str,
        rules: Rules,
        chance: Callable[[], float],
        crowding: CrowdingMonitor | None = None,
    ) -> None:
        """Owners that take turns in one process share their `crowding`."""
        self._crowding = crowding or CrowdingMonitor()
        self.orchestrator_id = orchestrator_id
        self._name = name
        self._store = store
        self._cycle: Cycle = store.cycle(orchestrator_id)
        self._rules = rules
        self._decider = Decider(self._cycle, rules, chance, self._program)
        self._memory = Memory()
        self._turns = Turns()
        self._programs: dict[str, Program] = {}
        self._declared: set[tuple[str, str]] = set()
        """The definitions whose breakers were made known, each for a tenant."""
        self._breaker_news: dict[str, Sequence[Signal]] = {}
        self._subscriptions: dict[str, frozenset[str]] = {}
        self._knows_subscriptions = False
        self._moved: tuple[Breaker, ...] = ()
        self._now = 0.0
        self._doubts_until = float("inf")

    @property
    def jobs(self) -> Mapping[str, JobState]:
        return self._memory.jobs

    def beware(self, dangers: Dangers) -> None:
        """Jobs in whose cycles orchestrators died are advanced alone; those that killed alone, not at all."""
        self._turns.beware(dangers)
        for job_id in dangers.deaths:
            self._memory.drop(job_id)

    def adopt(self, former_owners: Mapping[str, str]) -> None:
        """Jobs that were taken over, each from the named owner: they are loaded in the next cycles."""
        self._memory.adopt(former_owners)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what memory says of these jobs; the next cycle reads them from the store."""
        self._memory.forget(job_ids)

    def notice(self, shut: Mapping[str, float | None]) -> None:
        """The breakers that are not closed now: the jobs that they hold, and no longer hold, get to know it."""
        # Of a hundred thousand jobs hardly one is held: a job that is not, and has no shut breaker, is passed over.
        concerned = [(job_id, state) for job_id, state in self.jobs.items() if shut or state.holds]
        news = ((job_id, notice(state, shut)) for job_id, state in concerned)
        self._breaker_news = {job_id: signals for job_id, signals in news if signals}

    def subscribe(self, subscriptions: Mapping[str, frozenset[str]]) -> None:
        """Follow what the webhooks of each tenant subscribe to, from the next cycle on."""
        # The states of all jobs share the object.
        self._subscriptions.clear()
        self._subscriptions.update(subscriptions)
        self._knows_subscriptions = True

    def next_deadline(self) -> float | None:
        moments = (self._turns.next_try(), self._memory.next_deadline())
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def doubts_clock(self) -> bool:
        """Whether rows may lie ahead of the clock: for a while after it stepped back, and after our own beginning."""
        return self._now < self._doubts_until

    @property
    def has_work(self) -> bool:
        """Whether the next cycle has something to do even without a signal."""
        memory, deadly = self._memory, self._turns.dangers.deaths.keys()
        owes = memory.to_load - deadly or memory.owing_rows or memory.owing_results or self._breaker_news
        return bool(owes) or self._turns.has_work(self._now) or not memory.knows_its_jobs

    async def run_cycle(self, handover: Handover | None = None) -> CycleResult:
        """One transaction. Whatever goes wrong, the states that it touched are forgotten and read again.

        What is neither the store's nor the fence's doing is our own bug, or a row that we cannot digest, or one that
        another session keeps locked. It must not stop the neighbours: the jobs of that cycle are tried one by one, and
        the culprit is set aside.
        """
        involved: set[str] = set()
        try:
            return await self._run(involved, handover)
        except HistoryChanged as reason:
            log.write("memory_dropped", reason=reason, jobs=len(self.jobs))
            self._memory.forget_everything()
            self._programs.clear()
            self._declared.clear()
            self._breaker_news = {}
            return CycleResult.without_work(self._now, more=True)
        except BaseException as problem:
            self.forget(involved)
            await self._cycle.rollback()
            if isinstance(problem, Exception) and involved and self._turns.dangers.are_near:
                with contextlib.suppress(Unreachable):
                    await self._store.forget_open_cycle(self.orchestrator_id)
            if not isinstance(problem, Exception) or isinstance(problem, Fenced | LostRace):
                raise
            if isinstance(problem, Unreachable) and not isinstance(problem, Locked):
                raise
            if not involved:
                raise
            await self._blame(involved, problem)
            return CycleResult.without_work(self._now, more=True)

    async def _blame(self, involved: set[str], problem: Exception) -> None:
        """One of these jobs cannot be advanced: find out which, or set it aside, longer each time."""
        if len(involved) > 1:
            log.write("cycle_failed", reason=repr(problem), jobs=len(involved))
            self._turns.suspect(involved)
            return
        (job_id,) = involved
        self._memory.to_load.discard(job_id)
        is_locked = isinstance(problem, Locked)
        seconds = self._turns.set_aside(job_id, self._now, is_locked=is_locked)
        if is_locked:
            log.write("job_set_aside", reason=problem, job=job_id, seconds=seconds)
        else:
            log.write("job_set_aside", error=problem, job=job_id, seconds=seconds)
        with contextlib.suppress(Locked):
            await self._store.set_aside(job_id, self.orchestrator_id, masked(f"{type(problem).__name__}: {problem}"))

    async def _run(self, involved: set[str], handover: Handover | None) -> CycleResult:
        if not self._knows_subscriptions:
            self.subscribe(await self._store.subscriptions())
        turn = self._turns.next(self._now)
        wide_job = self._crowding.job_to_throttle(self._now)
        wide = Wide(wide_job, NARROW_DRAIN_LIMIT) if wide_job is not None else None
        is_hurried = turn.alone is not None
        opened = await self._cycle.open(CLAIM_LIMIT, DRAIN_LIMIT, turn.waits, handover, wide, is_hurried=is_hurried)
        now = self._look_at_clock(opened.now)
        if not self._memory.knows_its_jobs:
            await self._learn_own_jobs()
        claimed, signals = self._turns.choose(opened, turn, now)
        signals, postponed = _leave_room(signals, wide_job)
        work = self._work(signals, turn.alone, now)
        if not work and handover is None:
            # Woken for nothing: unlike a commit, a rollback waits for no disk.
            await self._cycle.rollback()
            return CycleResult.without_work(now, more=self.has_work)
        # A claimed job is ours only after the commit; if its outcome is unknown, the reload finds out.
        involved.update(work)
        if self._turns.dangers.are_near:
            await self._store.note_open_cycle(self.orchestrator_id, sorted(involved))
        batch, states = await self._decide(work, claimed, signals, now)
        batch.closes_cycle = self._turns.dangers.are_near
        batch.survived = self._turns.survived(turn.alone, states)
        committed = await self._cycle.commit(batch, handover)
        self._memory.keep(states.values())
        if turn.alone is not None:
            self._turns.end(turn.alone, states)
        batch.tally()
        is_full = len(signals) >= (DRAIN_LIMIT if wide is None else NARROW_DRAIN_LIMIT)
        overflows = len(claimed) >= CLAIM_LIMIT
        return CycleResult(
            now=now,
            signals=len(signals),
            jobs=len(states),
            more=turn.alone is not None or postponed or is_full or overflows or self.has_work,
            overflows=overflows,
            enqueued=committed.work_left,
            due_at=batch.earliest_due(),
            finished=tuple(s.job_id for s in states.values() if s.is_terminal),
            accepted=opened.accepted if handover is not None else None,
            leases=committed.leases,
            begun=tuple(s for s in states.values() if (s.started_at or 0.0) >= now),
            ended=tuple(s for s in states.values() if (s.finished_at or 0.0) >= now and s.is_terminal),
            moved=self._moved,
            created=sum(row.epoch == 0 for row in claimed.values()),
            ended_tasks=batch.ended_tasks,
            retries=batch.retries,
            traced=tuple((states[event.job_id], event) for event in batch.traced or ()),
            yields=wide is not None and wide.job_id in states,
        )

    async def _learn_own_jobs(self) -> None:
        page = await self._cycle.owned(self._memory.known_until, LOAD_LIMIT)
        self._memory.learn(page, is_last=len(page) < LOAD_LIMIT)

    def _look_at_clock(self, now: float) -> float:
        """Where the clock of the database has stepped back, nothing waits longer than its own time, from now on."""
        before, self._now = self._now, now
        if before == 0.0:
            self._doubts_until = now + CLOCK_DOUBT_SECONDS
        if now >= before - CLOCK_SLACK_SECONDS:
            return now
        log.write("clock_stepped_back", seconds=round(before - now, 1))
        self._doubts_until = now + CLOCK_DOUBT_SECONDS
        self._crowding.forget()
        self._turns.follow_clock(now)
        self._memory.follow_clock(now)
        return now

    def _work(self, signals: Iterable[SignalRow], alone: str | None, now: float) -> Work:
        """What each job of this cycle gets: its signals, and what the owner owes it."""
        work: Work = defaultdict(list)
        for row in signals:
            work[row.job_id].append(row)
        self._crowding.observe({job_id: len(rows) for job_id, rows in work.items()}, now)
        if alone is None:
            self._add_own_work(work, now)
        else:
            # A key without signals: the job is loaded and looked at.
            work[alone] += [WorkContinued(None)] if alone in self._memory.owing_rows else []
            self._memory.owing_rows.pop(alone, None)
        return work

    def _add_own_work(self, work: Work, now: float) -> None:
        """What the owner owes without being asked: loading, deadlines, the next chunk, gathered results."""
        memory = self._memory
        for job_id in sorted(memory.to_load - self._turns.dangers.deaths.keys())[:LOAD_LIMIT]:
            work[job_id]  # A key without signals: the job is loaded and looked at.
        for job_id in memory.due(now):
            work[job_id].append(TimePassed())
        # One wide job at a time makes its chunk, in turn, so that no fan-out stalls its neighbours.
        for job_id in list(memory.owing_rows)[:1]:
            del memory.owing_rows[job_id]
            self._crowding.observe({job_id: WIDE_FROM}, now)
            work[job_id].append(WorkContinued(NARROW_CHUNK if self._crowding.job_to_throttle(now) else None))
        for job_id, news in self._breaker_news.items():
            if job_id in self.jobs:
                work[job_id] += news
        self._breaker_news = {}
        for job_id in memory.owing_results:
            work[job_id]  # The results are gathered when the job is advanced.

    async def _decide(
        self, work: Work, claimed: dict[str, JobRow], rows: Sequence[SignalRow], now: float
    ) -> tuple[Batch, dict[str, JobState]]:
        """Run the core for all jobs of the cycle; returns what is left to write, and the states of the jobs."""
        doubted = self._doubt(work)
        states = await self._states(work, claimed)
        examined = await self._cycle.examine(doubted) if doubted else {}
        batch = Batch(handled=[row.id for row in rows if row.job_id in states], traced=[] if tracing.is_on() else None)
        signals_of = {
            job_id: await self._decider.signals(given, states[job_id], now, examined.get(job_id))
            for job_id, given in work.items()
            if job_id in states
        }
        breakers = await self._decider.breakers(states, signals_of)
        withdrawals: list[WithdrawTasks] = []
        for job_id, signals in signals_of.items():
            # Only what was owed before this cycle: the items of a fan-in that becomes owed now are not written yet.
            owed = owed_results(states[job_id]) if job_id in self._memory.owing_results else []
            withdrawals += await self._decider.advance(batch, states[job_id], signals, owed, breakers, now)
        batch.breakers += breakers.values()
        self._moved = tuple(breaker for breaker in breakers.values() if breaker.changed_at >= now)
        await self._decider.withdraw(batch, states, withdrawals, now)
        for row in rows:
            if row.kind == RECOVER and row.job_id in states:
                await self._decider.recover(batch, states, row, now)
        for state in states.values():
            if self._turns.is_aside(state.job_id) and not state.is_terminal:
                state.job_touched = True
            add_states(batch, state, self.orchestrator_id)
        return batch, states

    def _doubt(self, work: Work) -> list[str]:
        """Jobs that the janitor doubts: nothing that memory says of them counts, and they are looked at first.

        First, because what the rows say now must not be mixed with what this cycle has decided and not written.
        """
        doubted = []
        for job_id, signals in work.items():
            doubts = [s for s in signals if isinstance(s, SignalRow) and s.kind == RECHECK]
            if doubts:
                signals[:] = [*doubts[:1], *(s for s in signals if s not in doubts)]
                doubted.append(job_id)
                self._memory.doubt(job_id)
        return doubted

    async def _states(self, work: Work, claimed: dict[str, JobRow]) -> dict[str, JobState]:
        """The states of all jobs with work: from memory, from the claim, or loaded; others are not ours."""
        memory = self._memory
        missing = [job_id for job_id in work if job_id not in memory.jobs and job_id not in claimed]
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
            program = await self._program(row.tenant, row.definition_hash)
            state = job_state(row, by_job[row.job_id], program, self._rules, self._subscriptions)
            bound_deadlines(state, self._now)
            if row.job_id in claimed:
                # A finished job is only asked, not owned: its row stays as it is.
                state.epoch += 1
                state.job_touched = not state.is_terminal
            elif row.job_id in memory.former_owners:
                work[row.job_id].insert(0, OwnerChanged(self._name, memory.former_owners[row.job_id]))
            states[row.job_id] = state
        for job_id in work:
            memory.to_load.discard(job_id)
            if job_id in memory.jobs:
                states[job_id] = memory.jobs[job_id]
            elif job_id not in states:
                memory.former_owners.pop(job_id, None)
        return states

    async def _program(self, tenant: str, definition_hash: str) -> Program:
        program = self._programs.get(definition_hash)
        if program is None:
            program = compile_pinned(definition_hash, await self._store.definition(definition_hash))
            self._programs[definition_hash] = program
        if program.definition.breakers and (tenant, definition_hash) not in self._declared:
            await self._store.declare_breakers(tenant, program.definition.breakers)
            self._declared.add((tenant, definition_hash))
        return program


def _leave_room(signals: list[SignalRow], wide_job: str | None) -> tuple[list[SignalRow], bool]:
    """Only a few reports of a wide job in a cycle that others wait for, and whether any stay for the next one."""
    reports = [row for row in signals if row.job_id == wide_job and not row.is_asked]
    if len(reports) <= NARROW_SHARE or all(row.job_id == wide_job for row in signals):
        return signals, False
    postponed = {row.id for row in reports[NARROW_SHARE:]}
    return [row for row in signals if row.id not in postponed], True
