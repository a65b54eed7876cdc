"""An owner and its jobs: one cycle drains signals, runs the core and commits once. Runs on any store.

Knows nothing of waiting, timers or connections: the loop around it decides when to run the next cycle, and the
simulator runs the same code against its model of a store.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast import failpoint
from holdfast.core.advance import advance, owed_results, owed_rows
from holdfast.core.breaking import Breaker
from holdfast.core.company import WIDE_FROM, Company
from holdfast.core.effects import WithdrawTasks
from holdfast.core.failing import failure
from holdfast.core.gathering import Gathering
from holdfast.core.holding import consult, named_by, notice
from holdfast.core.planning import batches_asked
from holdfast.core.signals import (
    ItemsAggregated,
    OwnerChanged,
    RecoveryRequested,
    Signal,
    TaskReported,
    TasksWithdrawn,
    TimePassed,
    WorkContinued,
)
from holdfast.core.states import JobState, Rules, Status
from holdfast.core.stopping import bound_deadlines
from holdfast.core.turn import CLOCK_SLACK_SECONDS
from holdfast.define.program import Program, compile_pinned
from holdfast.errors import Code, Fenced, HistoryChanged, Locked, LostRace, PayloadRefused, Unreachable
from holdfast.masking import masked
from holdfast.orchestrator.commit import add_states
from holdfast.orchestrator.loading import inconsistency, recovery, signal
from holdfast.store.dangers import Dangers
from holdfast.store.interface import (
    GATHERED,
    LEFT_OUT,
    Batch,
    Cycle,
    Examined,
    Handover,
    JobRow,
    Lease,
    NodeRow,
    Opened,
    SignalRow,
    Store,
    Wide,
)
from holdfast.store.loading import job_state

logger = logging.getLogger("holdfast.orchestrator")

CLAIM_LIMIT = 500
DRAIN_LIMIT = 2000
LOAD_LIMIT = 500
NARROW_DRAIN_LIMIT = 50
NARROW_SHARE = 10
NARROW_CHUNK = 250
"""What a cycle takes on of a wide job while it has others beside it, which wait for the cycle's end: so many reports
when none of theirs is waiting, so many when one is, and so many new tasks."""
RECHECK = "recheck"
RECOVER = "recover"
CANCEL = "cancel"
ASIDE_SECONDS = (5.0, 300.0)
"""How long a job that nobody can advance is left alone: at first, and at most."""
LOCKED_SECONDS = (1.0, 30.0)
"""The same for a job of which another session keeps a row locked."""
CLOCK_DOUBT_SECONDS = 60.0
"""How long rows that lie ahead of the clock are looked for: those that others have locked at first are free by then."""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did: whether there is more to do at once, here or by another, and whether workers have news.

    Of a handover: which reports were taken, and what the worker leases next; None: it was not looked at.
    """

    now: float
    signals: int
    jobs: int
    more: bool
    overflows: bool
    enqueued: bool
    due_at: float | None
    finished: tuple[str, ...]
    taken: frozenset[int] | None = None
    leases: list[Lease] = field(default_factory=list)
    yields: bool = False
    """Whether a wide job should let others go first for a moment."""


@dataclass(frozen=True, slots=True)
class _Aside:
    """A job that cannot be advanced, when it is tried again, and which signals have asked for it in vain."""

    until: float
    seconds: float
    asked_by: frozenset[int] = frozenset()


class Owner:
    """The only writer of its jobs. Keeps their nodes and counters in memory, never their tasks."""

    def __init__(
        self,
        store: Store,
        orchestrator_id: int,
        name: str,
        rules: Rules,
        chance: Callable[[], float],
        company: Company | None = None,
    ) -> None:
        """Owners that take turns in one process share their `company`."""
        self._company = company or Company()
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
        self._noticed: dict[str, Sequence[Signal]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._armed: dict[str, float] = {}
        self._now = 0.0
        self._knows_its_jobs = True
        self._known_until: str | None = None
        self._one_by_one: deque[str] = deque()
        self._aside: dict[str, _Aside] = {}
        self._dangers = Dangers()
        self._doubts_until = float("inf")

    def beware(self, dangers: Dangers) -> None:
        """Jobs in whose cycles orchestrators died are advanced alone; those that killed alone, not at all."""
        self._dangers = dangers
        for job_id in dangers.deaths:
            self._drop(job_id)
        self._one_by_one.extend(job_id for job_id in dangers.suspects if job_id not in self._one_by_one)

    def adopt(self, taken: Mapping[str, str]) -> None:
        """Jobs that were taken over, each from the named owner: they are loaded in the next cycles."""
        self._to_load.update(taken)
        self._taken_over.update(taken)

    def notice(self, shut: Mapping[str, float | None]) -> None:
        """The breakers that are not closed just now: the jobs that they hold, and no longer hold, are told."""
        # Of a hundred thousand jobs hardly one is held: who is not, and behind no breaker that is shut, is passed over.
        concerned = [(job_id, state) for job_id, state in self.jobs.items() if shut or state.holds]
        told = ((job_id, notice(state, shut)) for job_id, state in concerned)
        self._noticed = {job_id: news for job_id, news in told if news}

    def next_deadline(self) -> float | None:
        moments = [aside.until for aside in self._aside.values()]
        if self._deadlines:
            moments.append(self._deadlines[0][0])
        return min(moments, default=None)

    @property
    def doubts_clock(self) -> bool:
        """Whether rows may lie ahead of the clock: for a while after it stepped back, and after our own beginning."""
        return self._now < self._doubts_until

    @property
    def has_work(self) -> bool:
        """Whether the next cycle has something to do even without a signal."""
        owes = self._to_load - self._dangers.deaths.keys() or self._owing_rows or self._owing_results
        is_due = any(aside.until <= self._now for aside in self._aside.values())
        return bool(owes or self._one_by_one or self._noticed) or is_due or not self._knows_its_jobs

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
            logger.warning("memory_dropped: %s; what is known of %d jobs is read again", reason, len(self.jobs))
            self.forget_everything()
            return CycleResult(self._now, 0, 0, more=True, overflows=False, enqueued=False, due_at=None, finished=())
        except BaseException as problem:
            self.forget(involved)
            await self._cycle.rollback()
            if isinstance(problem, Exception) and involved and self._dangers.are_near:
                with contextlib.suppress(Unreachable):
                    await self._store.forget_open_cycle(self.orchestrator_id)
            if not isinstance(problem, Exception) or isinstance(problem, Fenced | LostRace):
                raise
            if isinstance(problem, Unreachable) and not isinstance(problem, Locked):
                raise
            if not involved:
                raise
            await self._blame(involved, problem)
            return CycleResult(self._now, 0, 0, more=True, overflows=False, enqueued=False, due_at=None, finished=())

    async def _blame(self, involved: set[str], problem: Exception) -> None:
        """One of these jobs cannot be advanced: find out which, or set it aside, longer from time to time."""
        if len(involved) > 1:
            logger.warning("cycle_failed: %d jobs are tried one by one, after %r", len(involved), problem)
            self._one_by_one.extend(sorted(involved - set(self._one_by_one)))
            return
        (job_id,) = involved
        if job_id in self._one_by_one:
            self._one_by_one.remove(job_id)
        self._to_load.discard(job_id)
        is_locked = isinstance(problem, Locked)
        least, most = LOCKED_SECONDS if is_locked else ASIDE_SECONDS
        before = self._aside.get(job_id)
        seconds = min(most, 2 * before.seconds) if before is not None else least
        self._aside[job_id] = _Aside(self._now + seconds, seconds, before.asked_by if before else frozenset())
        if is_locked:
            logger.warning("job_set_aside: %s for %g s, its neighbours go on: %s", job_id, seconds, problem)
        else:
            logger.error("job_set_aside: %s for %g s, its neighbours go on", job_id, seconds, exc_info=problem)
        with contextlib.suppress(Locked):
            await self._store.set_aside(job_id, self.orchestrator_id, masked(f"{type(problem).__name__}: {problem}"))

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what memory says of these jobs; the next cycle reads them from the store."""
        for job_id in job_ids:
            self._drop(job_id)
            self._to_load.add(job_id)

    def _drop(self, job_id: str) -> None:
        self.jobs.pop(job_id, None)
        self._armed.pop(job_id, None)
        self._owing_rows.pop(job_id, None)
        self._owing_results.pop(job_id, None)

    def forget_everything(self) -> None:
        """Drop what was learned from another connection, or another history; the rows say which jobs are ours."""
        self.jobs.clear()
        self._programs.clear()
        self._to_load.clear()
        self._owing_rows.clear()
        self._owing_results.clear()
        self._noticed = {}
        self._deadlines.clear()
        self._armed.clear()
        self._knows_its_jobs, self._known_until = False, None

    async def _learn_own_jobs(self) -> None:
        """The next page of them; they are loaded as those of a takeover are, some in each cycle."""
        page = await self._cycle.owned(self._known_until, LOAD_LIMIT)
        self._to_load.update(job_id for job_id in page if job_id not in self.jobs)
        self._knows_its_jobs, self._known_until = len(page) < LOAD_LIMIT, page[-1] if page else None

    async def _run(self, involved: set[str], handover: Handover | None) -> CycleResult:
        due = [job_id for job_id, aside in self._aside.items() if aside.until <= self._now]
        self._one_by_one.extend(job_id for job_id in due if job_id not in self._one_by_one)
        alone = self._one_by_one[0] if self._one_by_one else None
        waits = [job_id for job_id in self._aside if job_id not in due]
        waits += [*self._dangers.killers, *(job_id for job_id in self._dangers.suspects if job_id != alone)]
        wide_job = self._company.wide_job(self._now)
        wide = Wide(wide_job, NARROW_DRAIN_LIMIT) if wide_job is not None else None
        opened = await self._cycle.open(CLAIM_LIMIT, DRAIN_LIMIT, waits, handover, wide, is_hurried=alone is not None)
        now = self._look_at_clock(opened.now)
        if not self._knows_its_jobs:
            await self._learn_own_jobs()
        work: defaultdict[str, list[SignalRow | Signal]] = defaultdict(list)
        claimed, heard = self._choose(opened, alone, waits)
        heard, postponed = _leave_room(heard, wide_job)
        for row in heard:
            work[row.job_id].append(row)
        self._company.saw({job_id: len(rows) for job_id, rows in work.items()}, now)
        if alone is None:
            self._add_own_work(work, now)
        else:
            # A key without signals: the job is loaded and looked at.
            work[alone] += [WorkContinued(None)] if alone in self._owing_rows else []
            self._owing_rows.pop(alone, None)
        if not work and handover is None:
            # Woken in vain: unlike a commit, a rollback waits for no disk.
            await self._cycle.rollback()
            return CycleResult(now, 0, 0, more=self.has_work, overflows=False, enqueued=False, due_at=None, finished=())
        # A claimed job is ours only after the commit; if its outcome is unknown, the reload finds out.
        involved.update(work)
        if self._dangers.are_near:
            await self._store.note_open_cycle(self.orchestrator_id, sorted(involved))
        doubted = self._doubt(work)
        states = await self._states(work, claimed)
        examined = await self._cycle.examine(doubted) if doubted else {}
        batch = Batch(handled=[row.id for row in heard if row.job_id in states])
        withdrawals: list[WithdrawTasks] = []
        asked = [row for row in heard if row.kind == RECOVER and row.job_id in states]
        heard_by = {
            job_id: await self._all_heard(signals, states[job_id], now, examined.get(job_id))
            for job_id, signals in work.items()
            if job_id in states
        }
        breakers = await self._breakers(states, heard_by)
        for job_id, signals in heard_by.items():
            withdrawals += await self._advance(batch, states[job_id], signals, breakers, now)
        batch.breakers += breakers.values()
        await self._withdraw(batch, states, withdrawals, now)
        for row in asked:
            await self._recover(batch, states, row, now)
        for state in states.values():
            if state.job_id in self._aside and not state.is_terminal:
                state.job_touched = True
            add_states(batch, state, self.orchestrator_id)
        batch.closes_cycle = self._dangers.are_near
        batch.survived = self._survived(alone, states)
        committed = await self._cycle.commit(batch, handover)
        self._remember(states.values())
        if alone is not None:
            self._end_turn_of(alone, states)
        return CycleResult(
            now=now,
            signals=len(heard),
            jobs=len(states),
            more=alone is not None
            or postponed
            or len(heard) >= (NARROW_DRAIN_LIMIT if wide is not None else DRAIN_LIMIT)
            or len(claimed) >= CLAIM_LIMIT
            or self.has_work,
            overflows=len(claimed) >= CLAIM_LIMIT,
            enqueued=committed.work_left,
            due_at=batch.earliest_due(),
            finished=tuple(s.job_id for s in states.values() if s.is_terminal),
            taken=opened.taken if handover is not None else None,
            leases=committed.leases,
            yields=wide is not None and wide.job_id in states,
        )

    def _survived(self, alone: str | None, states: Mapping[str, JobState]) -> list[str]:
        """A suspect that was advanced alone and owes nothing more: nobody will die of it."""
        state = states.get(alone) if alone is not None and alone in self._dangers.deaths else None
        return [] if state is None or owed_rows(state) or owed_results(state) else [state.job_id]

    def _end_turn_of(self, alone: str, states: Mapping[str, JobState]) -> None:
        """It was advanced alone. A suspect that owes more does that alone as well."""
        self._one_by_one.popleft()
        self._aside.pop(alone, None)
        if self._survived(alone, states):
            deaths = {job_id: count for job_id, count in self._dangers.deaths.items() if job_id != alone}
            self._dangers = self._dangers._replace(deaths=deaths)
        elif alone in self._dangers.deaths and alone in states:
            self._one_by_one.append(alone)

    def _choose(
        self, opened: Opened, alone: str | None, waits: Collection[str]
    ) -> tuple[dict[str, JobRow], list[SignalRow]]:
        """The jobs and signals whose turn it is. Of a job that may kill, only a cancel counts, and it counts alone."""
        kept_back = set(waits)
        self._wake_asked(row for row in opened.signals if row.job_id in kept_back and row.job_id in self._aside)
        if alone is None:
            deadly = kept_back & self._dangers.deaths.keys()
            cancelled = {row.job_id for row in opened.signals if row.job_id in deadly and row.kind == CANCEL}
            self._one_by_one.extend(sorted(cancelled))

        def has_turn(job_id: str) -> bool:
            return job_id not in kept_back if alone is None else job_id == alone

        claimed = {row.job_id: row for row in opened.claimed if has_turn(row.job_id)}
        heard = [row for row in opened.signals if has_turn(row.job_id)]
        return claimed, [row for row in heard if row.job_id not in kept_back or row.kind == CANCEL]

    def _wake_asked(self, asking: Iterable[SignalRow]) -> None:
        """A person or the janitor asks for jobs that were set aside: each signal has them tried once, at once."""
        asked: defaultdict[str, set[int]] = defaultdict(set)
        for row in asking:
            asked[row.job_id].add(row.id)
        for job_id, ids in asked.items():
            if not ids <= self._aside[job_id].asked_by:
                self._aside[job_id] = replace(self._aside[job_id], until=self._now, asked_by=frozenset(ids))

    def _look_at_clock(self, now: float) -> float:
        """Where the clock of the database has stepped back, nothing waits longer than its own time, from now on."""
        before, self._now = self._now, now
        if before == 0.0:
            self._doubts_until = now + CLOCK_DOUBT_SECONDS
        if now >= before - CLOCK_SLACK_SECONDS:
            return now
        logger.warning("clock_stepped_back: the clock of the database went back by %.1f s", before - now)
        self._doubts_until = now + CLOCK_DOUBT_SECONDS
        self._company.forget()
        for job_id, aside in self._aside.items():
            self._aside[job_id] = replace(aside, until=min(aside.until, now + aside.seconds))
        self._deadlines, self._armed = [], {}
        for state in self.jobs.values():
            bound_deadlines(state, now)
            self._arm(state)
        return now

    def _add_own_work(self, work: defaultdict[str, list[SignalRow | Signal]], now: float) -> None:
        """What the owner owes without being asked: loading, deadlines, the next chunk, gathered results."""
        for job_id in list(self._to_load - self._dangers.deaths.keys())[:LOAD_LIMIT]:
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
            self._company.saw({job_id: WIDE_FROM}, now)
            work[job_id].append(WorkContinued(NARROW_CHUNK if self._company.wide_job(now) else None))
        for job_id, news in self._noticed.items():
            if job_id in self.jobs:
                work[job_id] += news
        self._noticed = {}
        for job_id in self._owing_results:
            work[job_id]  # The results are gathered in _advance.

    def _doubt(self, work: dict[str, list[SignalRow | Signal]]) -> list[str]:
        """Jobs that the janitor doubts: nothing that memory says of them counts, and they are looked at first.

        First, because what the rows say now must not be mixed with what this cycle has decided and not written.
        """
        doubted = []
        for job_id, signals in work.items():
            doubts = [s for s in signals if isinstance(s, SignalRow) and s.kind == RECHECK]
            if doubts:
                signals[:] = [*doubts[:1], *(s for s in signals if s not in doubts)]
                doubted.append(job_id)
                self.jobs.pop(job_id, None)
                self._armed.pop(job_id, None)
        return doubted

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
            bound_deadlines(state, self._now)
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
            if program.definition.breakers:
                await self._store.declare_breakers(program.definition.breakers)
            self._programs[definition_hash] = program
        return program

    async def _all_heard(
        self, given: Iterable[SignalRow | Signal], state: JobState, now: float, examined: Examined | None
    ) -> list[Signal]:
        """What a job hears in this cycle, but for verbs: these come last."""
        at_once = [one for one in given if not (isinstance(one, SignalRow) and one.kind == RECOVER)]
        return [await self._heard(one, state, now, examined) for one in at_once]

    async def _heard(self, given: SignalRow | Signal, state: JobState, now: float, examined: Examined | None) -> Signal:
        if not isinstance(given, SignalRow):
            return given
        if given.lacks_its_output:
            given = await self._cycle.whole(given)
        if given.kind == RECHECK:
            assert examined is not None
            return inconsistency(given, examined)
        return signal(given, now, self._chance(), state.program)

    async def _breakers(self, states: dict[str, JobState], heard: Mapping[str, Iterable[Signal]]) -> dict[str, Breaker]:
        """The breakers that the reports of this cycle concern, locked; usually none."""
        names: set[str] = set()
        for job_id, signals in heard.items():
            program = states[job_id].program
            for one in signals:
                if isinstance(one, TaskReported) and (named := named_by(one, program.breaker_of(one.node, one.item))):
                    names |= named
        return {found.name: found for found in await self._cycle.breakers(sorted(names))} if names else {}

    async def _advance(
        self,
        batch: Batch,
        state: JobState,
        signals: Iterable[Signal],
        breakers: dict[str, Breaker],
        now: float,
    ) -> list[WithdrawTasks]:
        withdrawals: list[WithdrawTasks] = []
        # Only what was owed before this cycle: the items of a fan-in that becomes owed now are not written yet.
        owed = owed_results(state) if state.job_id in self._owing_results else []
        for heard in signals:
            changes: Sequence[Signal] = ()
            if breakers and isinstance(heard, TaskReported):
                heard, changes = consult(heard, state.program.breaker_of(heard.node, heard.item), breakers, now)
            for one in (heard, *changes):
                withdrawals += batch.add(advance(state, one, now))
        for node in owed:
            answer = await self._gather(state, node, now)
            withdrawals += batch.add(advance(state, answer, now))
        if state.stop is None:
            await failpoint.hit("decide.job", state.program.definition.workflow_id)
        return withdrawals

    async def _gather(self, state: JobState, node: str, now: float) -> ItemsAggregated:
        """Read what the items gave; all their reports are committed by now."""
        gathering = Gathering(state.program.nodes[node].node.aggregation, self._rules.payload_limit_bytes)
        fan_out = state.program.graph.fan_out_of[node]
        left_out: dict[str, list[int]] = {how: [] for how in LEFT_OUT}
        # Where there were batches, what they gave is gathered; items that were left out are still listed.
        is_batched = state.nodes[node].batch_size is not None
        readings = [(node, GATHERED), (fan_out, LEFT_OUT)] if is_batched else [(fan_out, GATHERED)]
        try:
            for source, statuses in readings:
                after, more = -1, True
                while more:
                    page, more = await self._cycle.results(state.job_id, source, after, statuses)
                    for result in page:
                        after = result.item
                        if result.status == Status.COMPLETED:
                            gathering.add(result.output, result.size_bytes)
                        else:
                            left_out[result.status].append(result.item)
            return ItemsAggregated(node, gathering.answer(left_out))
        except (ValueError, PayloadRefused) as problem:
            code = problem.code if isinstance(problem, PayloadRefused) else Code.CONTRACT_VIOLATION
            error = failure(code, str(problem), permanent=True, at=now, node=node)
            return ItemsAggregated(node, error=error)

    async def _withdraw(
        self, batch: Batch, states: dict[str, JobState], withdrawals: list[WithdrawTasks], now: float
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
                withdrawals += batch.add(advance(state, heard, now))

    async def _recover(self, batch: Batch, states: dict[str, JobState], row: SignalRow, now: float) -> None:
        """Carry out a verb last, when the rows say what the cycle has decided so far: a plan counts them."""
        state, request = states[row.job_id], recovery(row)
        await self._cycle.write(batch)
        batch.clear()
        node = state.nodes.get(request.node or "")
        enqueued = node.enqueued if node is not None else 0
        selected = await self._cycle.select(row.job_id, request, enqueued, batches_asked(state, request))
        asked = RecoveryRequested(row.id, row.actor or "", row.reason or "", request, selected)
        await self._withdraw(batch, states, batch.add(advance(state, asked, now)), now)

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
            self._arm(state)
            if owed_rows(state):
                self._owing_rows.setdefault(job_id)
            if owed_results(state):
                self._owing_results.setdefault(job_id)

    def _arm(self, state: JobState) -> None:
        deadline = state.next_deadline()
        if deadline is not None and self._armed.get(state.job_id) != deadline:
            self._armed[state.job_id] = deadline
            heapq.heappush(self._deadlines, (deadline, state.job_id))


def _leave_room(heard: list[SignalRow], wide_job: str | None) -> tuple[list[SignalRow], bool]:
    """Only a few signals of a wide job in a cycle that others wait for, and whether any stay for the next one."""
    of_wide = [row for row in heard if row.job_id == wide_job]
    if len(of_wide) <= NARROW_SHARE or len(of_wide) == len(heard):
        return heard, False
    return [row for row in heard if row.job_id != wide_job] + of_wide[:NARROW_SHARE], True
