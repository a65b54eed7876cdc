"""One simulated world: orchestrators, workers and clients as coroutines, a scheduler that draws the next one to run,
a virtual clock, and faults: crash, pause, restart, failed and unknown commits, doubled and late messages."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.core.breaking import Breaker
from holdfast.core.effects import WithdrawTasks
from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Plan, plan_id
from holdfast.core.signals import CancelRequested, Request, Signal, Verb
from holdfast.core.states import JobState, Rules
from holdfast.core.steering import SteeringVerb, open_job, steering_id
from holdfast.define.program import Program, compile_pinned
from holdfast.errors import Fenced, LostRace, NotFound, Unreachable
from holdfast.operations.submitting import new_job
from holdfast.orchestrator.deciding import Decider
from holdfast.orchestrator.loop import KILLS
from holdfast.orchestrator.owner import Owner
from holdfast.store.batch import Batch, Handover
from holdfast.store.interface import Store
from holdfast.store.leases import in_lock_order
from holdfast.store.loading import job_state
from holdfast.store.records import Lease, NewJob, Report, WorkerIdentity
from tests.simulation.checkers import Checkers
from tests.simulation.correcting import OTHER_HANDLER, draw_correction
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import Database, step
from tests.simulation.gates import pause_queue, queue_is_paused, unpause_queue
from tests.simulation.selection import select
from tests.simulation.shapes import Script, draw_definition, draw_inputs
from tests.simulation.store import ModelStore

LEASE_SECONDS, RENEW_SECONDS = 10.0, 3.0
OUTAGE_SECONDS = 15.0
HANDLERS = ("work", OTHER_HANDLER)
VISITORS = ("client", "person")
"""Processes that end by themselves, and are never restarted."""
SLOW_SECONDS = 6.0
LONGEST_SECONDS = SLOW_SECONDS + 0.5
ZOMBIE_SECONDS = 1.5 * LEASE_SECONDS
KILLER_SECONDS = 30.0


@dataclass
class Mix:
    """The sizes of a world and the chances of its faults; each seed draws its own."""

    orchestrators: int = 2
    workers: int = 2
    jobs: int = 3
    trouble: float = 0.3
    crash: float = 0.0
    pause: float = 0.0
    commit_failed: float = 0.0
    commit_unknown: float = 0.0
    cancel: float = 0.0
    duplicate: float = 0.0
    bug: float = 0.0
    together: int = 0
    lost_limit: int = 1000
    deaths: float = 0.0
    crash_limit: int = 2
    chunk: int = 3
    window: int = 4
    doubt: float = 0.0
    vanish: float = 0.0
    requeue_limit: int = 1000
    verbs: float = 0.0
    goes_back: float = 0.0
    deadly: int = 0
    steps_back: float = 0.0
    pauses_queues: float = 0.0
    corrections: float = 0.0
    troubled_seconds: float = 50.0

    @classmethod
    def draw(cls, chance: random.Random, fate: random.Random) -> Mix:
        def sometimes(value: float) -> float:
            return value * chance.random() if chance.random() < 0.6 else 0.0

        return cls(
            orchestrators=chance.randint(1, 3),
            workers=chance.randint(1, 3),
            jobs=chance.randint(1, 3),
            trouble=sometimes(0.6),
            crash=sometimes(0.02),
            pause=sometimes(0.02),
            commit_failed=sometimes(0.1),
            commit_unknown=sometimes(0.1),
            cancel=chance.choice([0.0, 0.0, 0.5]),
            duplicate=sometimes(0.3),
            bug=sometimes(0.05),
            together=chance.choice([0, 0, 1, 2]),
            lost_limit=chance.choice([1000, 1000, 1000, 2]),
            chunk=chance.choice([1, 3, 100]),
            window=chance.choice([1, 2, 4, 100]),
            deaths=fate.choice([0.0, 0.1, 0.3]),
            crash_limit=fate.choice([1, 2, 2, 3]),
        )

    def calm(self) -> Mix:
        """The same work without faults of the environment: its results are the expected ones."""
        return Mix(
            orchestrators=self.orchestrators,
            workers=self.workers,
            together=self.together,
            jobs=self.jobs,
            trouble=self.trouble,
            deaths=self.deaths,
            crash_limit=self.crash_limit,
            chunk=self.chunk,
            window=self.window,
            troubled_seconds=0.0,
        )


@dataclass
class Process:
    """A coroutine that can crash, sleep until its lease has expired, and start again."""

    name: str
    start: Callable[[], Coroutine[Any, Any, None]]
    running: Any = None
    wake_at: float = 0.0
    generation: int = 0
    cycles: list[Any] = field(default_factory=list)


@dataclass
class Sleep:
    """What a coroutine yields to let virtual time pass."""

    seconds: float


class _Sleeper:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Any:
        yield Sleep(self.seconds)


class TakeoverUnknown(Exception):
    """The answer to a takeover was lost."""


class Died(BaseException):
    """A process dies in the middle of a decision."""


class MortalOwner(Owner):
    """An owner that dies when it advances a deadly job, unless it cancels the job."""

    def __init__(self, deadly: set[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._decider = MortalDecider(deadly, self._cycle, self._rules, arguments[4], self._program)


class MortalDecider(Decider):
    def __init__(self, deadly: set[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._deadly = deadly

    async def advance(
        self,
        batch: Batch,
        state: JobState,
        signals: Iterable[Signal],
        owed: Iterable[str],
        breakers: dict[str, Breaker],
        now: float,
    ) -> list[WithdrawTasks]:
        signals = list(signals)
        cancels = any(isinstance(one, CancelRequested) for one in signals)
        is_open = state.stop is None and not state.is_terminal
        if state.job_id in self._deadly and is_open and not cancels:
            raise Died
        return await super().advance(batch, state, signals, owed, breakers, now)


class World:
    """Runs one seed to its end; `trace` is the same, byte for byte, whenever the seed is the same.

    Subclasses can replace the store and the way in which processes run: tests/interleaving runs the same processes
    on a real store.
    """

    poll_seconds = 1.0

    def __init__(self, seed: int, mix: Mix | None = None, jobs: list[NewJob] | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        drawn = Mix.draw(self.chance, random.Random(f"fate {seed}"))
        self.store = random.Random(f"janitor {seed}")
        if self.store.random() < 0.4:
            drawn.doubt, drawn.vanish = self.store.choice([0.5, 3.0]), self.store.choice([0.0, 0.002, 0.02])
        self.helping = random.Random(f"person {seed}")
        if self.helping.random() < 0.5:
            drawn.verbs = self.helping.choice([2.0, 8.0])
        self.losing = random.Random(f"history {seed}")
        if self.losing.random() < 0.25:
            drawn.goes_back = self.losing.choice([0.004, 0.02])
        self.saved: tuple[dict[str, Any], dict[str, Any]] | None = None
        if self.losing.random() < 0.1:
            drawn.deadly = 1
        self.clock = random.Random(f"clock {seed}")
        if self.clock.random() < 0.3:
            drawn.steps_back = self.clock.choice([0.001, 0.005])
        drawn.requeue_limit = random.Random(f"requeues {seed}").choice([1000, 1000, 5, 2, 1, 0])
        self.pausing = random.Random(f"queues {seed}")
        if self.pausing.random() < 0.15:
            drawn.pauses_queues = 0.01
        self.editing = random.Random(f"corrections {seed}")
        if self.editing.random() < 0.35:
            drawn.corrections = self.editing.choice([0.5, 2.0])
        self.mix = mix or drawn
        self.db = Database()
        self.checkers = Checkers(self.db, self.mix.crash_limit, self.mix.requeue_limit)
        self.script = Script(seed, self.mix.trouble, self.mix.deaths)
        self.rules = Rules(
            lost_limit=self.mix.lost_limit,
            crash_limit=self.mix.crash_limit,
            requeue_limit=self.mix.requeue_limit,
            grace_seconds=5.0,
            drain_seconds=20.0,
            chunk_size=self.mix.chunk,
            window_size=self.mix.window,
            repeat_limit=2 if seed % 7 == 0 else 20,
            chunk_bytes=10 if seed % 5 == 0 else 1 << 20,
        )
        self.jobs = jobs if jobs is not None else self._draw_jobs()
        self.deadly = {job.job_id for job in self.jobs[: self.mix.deadly]}
        self.numbers = {job.job_id: number for number, job in enumerate(self.jobs)}
        self.troubled = self.mix.troubled_seconds > 0
        self.trace: list[str] = []
        self.cancelled: set[str] = set()
        self.db.commit_outcome = self._commit_outcome
        self.processes: list[Process] = []
        for n in range(self.mix.orchestrators):
            self._add(Process(f"orchestrator {n}", lambda: self._orchestrate()))
        for n in range(self.mix.workers):
            self._add(Process(f"worker {n}", lambda: self._work()))
        for n in range(self.mix.together):
            self._add(Process(f"both {n}", lambda: self._work_and_own()))
        if self.mix.doubt:
            self._add(Process("janitor", lambda: self._tidy()))
        if self.mix.verbs:
            self._add(Process("person", lambda: self._help()))
        if self.mix.corrections:
            self._add(Process("editor", lambda: self._edit()))
        if self.deadly:
            self._add(Process("operator", lambda: self._cancel_deadly()))
        self._add(Process("client", lambda: self._submit_all()))

    def _draw_jobs(self) -> list[NewJob]:
        jobs = []
        for number in range(self.mix.jobs):
            definition = draw_definition(self.chance)
            job = new_job(definition, draw_inputs(self.chance), key=f"job {number}", priority=self.chance.randint(0, 1))
            jobs.append(job._replace(job_id=f"job-{number}"))
        return jobs

    def _commit_outcome(self) -> str:
        if not self.troubled:
            return "done"
        drawn = self.chance.random()
        if drawn < self.mix.commit_failed:
            return "failed"
        return "unknown" if drawn < self.mix.commit_failed + self.mix.commit_unknown else "done"

    def _chance_or_bug(self) -> float:
        """The randomness of a retry. Sometimes it raises an error, like a bug in the middle of a decision."""
        if self.troubled and self.chance.random() < self.mix.bug:
            raise ArithmeticError("as scripted")
        return self.chance.random()

    # The store and the time of the processes

    def _new_store(self) -> Store:
        return ModelStore(self.db)

    async def _sleep(self, seconds: float) -> None:
        await _Sleeper(seconds)

    async def _idle(self, seconds: float) -> None:
        """Sleep because there is nothing to do. A subclass may wake the process early."""
        await self._sleep(seconds)

    async def _breathe(self) -> None:
        await step()

    def _begin(self, process: Process) -> None:
        process.running = process.start()

    def _kill(self, process: Process) -> None:
        """End the process and its locks."""
        process.running.close()
        process.running = None
        for transaction in list(self.db.transactions):
            if transaction in process.cycles:
                transaction.abort()
        process.cycles = []

    def _end_idle_transactions(self) -> None:
        self.db.abort_idle()

    def _spent(self, lease: Lease) -> tuple[int, int]:
        """How often the task has failed, and how often it has died."""
        task = self.db.tasks[lease.job_id].get((lease.node, lease.item))
        # The task of a zombie may not exist any more, because its node began again.
        return (task["retries"], task["crashes"]) if task is not None else (0, 0)

    # The scheduler

    def _add(self, process: Process) -> None:
        self.processes.append(process)
        self._begin(process)

    def run(self, limit: int = 60_000) -> None:
        """Run with faults first, then without, until every job has ended and every signal is read."""
        try:
            self._run(limit)
        finally:
            for process in self.processes:
                if process.running is not None:
                    self._kill(process)

    def _run(self, limit: int) -> None:
        calm_at = self.db.time + self.mix.troubled_seconds
        ending = False
        for _ in range(limit):
            if self.troubled and self.db.time > calm_at:
                self._calm_down()
            if not (ending and self.troubled) and self._is_done():
                if not self.troubled:
                    self.checkers.check_end(self.jobs)
                    return
                # Zombies may still report; after that nothing happens any more.
                ending, calm_at = True, min(calm_at, self.db.time + ZOMBIE_SECONDS)
            self._take_step()
            self.checkers.check_step()
            if self.mix.troubled_seconds == 0:
                # An owner that also runs tasks looks at its deadlines only between them.
                self.checkers.check_deadlines(patience=3.0 if not self.mix.together else 3.0 + 2 * LONGEST_SECONDS)
        open_jobs = {j: r["status"] for j, r in self.db.jobs.items() if r["finished_at"] is None}
        raise AssertionError(f"not finished after {limit} steps at {self.db.time}: {open_jobs}")

    def _calm_down(self) -> None:
        self.troubled = False
        for queue in ("default", "heavy"):
            unpause_queue(self.db, queue)
        for process in self.processes:
            process.wake_at = min(process.wake_at, self.db.time)
            if process.running is None and process.name not in VISITORS:
                self._begin(process)

    def _is_done(self) -> bool:
        if self.db.inbox or len(self.db.jobs) < len(self.jobs):
            return False
        return all(job["finished_at"] is not None for job in self.db.jobs.values())

    def _take_step(self) -> None:
        """Draw one process that is awake and run it to its next step; if all sleep, let time pass."""
        awake = [p for p in self.processes if p.running is not None and p.wake_at <= self.db.time]
        if not awake:
            next_at = min(p.wake_at for p in self.processes if p.running is not None or p.name not in VISITORS)
            self.db.now += next_at - self.db.time
            self._restart()
            self._end_idle_transactions()
            return
        process = awake[int(self.chance.random() * len(awake))]
        self.db.now += 0.001
        if self.troubled and self.mix.vanish and self.store.random() < self.mix.vanish:
            self._lose_a_row()
        if self.troubled and self.mix.goes_back and self.losing.random() < self.mix.goes_back:
            self._save_or_go_back()
            return
        if self.troubled and self.mix.steps_back and self.clock.random() < self.mix.steps_back:
            self.db.step_back(self.clock.choice([1.0, 30.0, 86_400.0]))
        if self.troubled and self.mix.pauses_queues and self.pausing.random() < self.mix.pauses_queues:
            self._pause_or_unpause_a_queue()
        if self.troubled and process.name not in VISITORS and self._misfortune(process):
            return
        self._advance(process)

    def _save_or_go_back(self) -> None:
        """Make a copy of the database, or replace the database by the last copy while all processes continue.

        Everything after the copy is lost, submissions included: the client sends them again.
        """
        if self.saved is None or self.losing.random() < 0.5:
            self.saved = (self.db.rows(), self.checkers.memory())
            return
        rows, memory = self.saved
        self.trace.append(f"{self.db.time:.3f} the database goes back")
        self.db.go_back_to(rows)
        self.checkers.go_back_to(memory)
        client = next(process for process in self.processes if process.name == "client")
        if client.running is not None:
            self._kill(client)
        client.wake_at = self.db.time
        self._begin(client)

    def _pause_or_unpause_a_queue(self) -> None:
        queue = self.pausing.choice(["default", "heavy"])
        if queue_is_paused(self.db, queue):
            unpause_queue(self.db, queue)
        else:
            pause_queue(self.db, queue)

    def _lose_a_row(self) -> None:
        """Delete a queue row, leased or not, or the row of a process, as something outside the engine could."""
        if self.store.random() < 0.1:
            processes = self.store.choice([self.db.workers, self.db.orchestrators])
            shared = {transaction.me for transaction in self.db.transactions}
            if ids := sorted(processes.keys() - shared):
                del processes[self.store.choice(ids)]
            return
        keys = sorted(key for key in self.db.queue if not self.db.row_locked(key))
        if keys:
            key = self.store.choice(keys)
            self.db.history.ended[(key, self.db.queue.pop(key)["epoch"])] = "vanished"
            self.db.dirty.add(key[0])

    def _restart(self) -> None:
        for process in self.processes:
            if process.running is None and process.wake_at <= self.db.time and process.name not in VISITORS:
                self._begin(process)

    def _misfortune(self, process: Process) -> bool:
        """Perhaps crash the process, which ends its locks; or let it sleep, perhaps until its lease has expired."""
        drawn = self.chance.random()
        if drawn < self.mix.crash:
            self._die(process)
            return True
        if drawn < self.mix.crash + self.mix.pause:
            process.wake_at = self.db.time + self.chance.choice([2.0, 12.0, 25.0])
            self.trace.append(f"{self.db.time:.3f} {process.name} sleeps until {process.wake_at:.3f}")
            return True
        return False

    def _die(self, process: Process) -> None:
        self.trace.append(f"{self.db.time:.3f} {process.name} crashes")
        self._kill(process)
        process.wake_at = self.db.time + self.chance.choice([0.5, 3.0, 15.0])

    def _advance(self, process: Process) -> None:
        self.current = process
        try:
            yielded = process.running.send(None)
        except Died:
            self.db.history.killed += 1
            self._die(process)
            return
        except StopIteration:
            process.running = None
            process.wake_at = float("inf")
            return
        if isinstance(yielded, Sleep):
            process.wake_at = self.db.time + yielded.seconds
        self.trace.append(f"{self.db.time:.3f} {process.name}")

    # The processes

    async def _submit_all(self) -> None:
        store = self._new_store()
        for job in self.jobs:
            await self._sleep(self.chance.random() * 3)
            while True:
                try:
                    answer = (await store.submit([job]))[0]
                    assert answer.job_id == job.job_id, "the same submission made two jobs"
                    break
                except Unreachable:
                    await self._sleep(0.5)
            if self.troubled and self.chance.random() < self.mix.cancel:
                await self._cancel(store, job.job_id)

    async def _cancel(self, store: Store, job_id: str) -> None:
        await self._sleep(self.chance.random() * 15)
        self.cancelled.add(job_id)
        while True:
            try:
                await store.send(job_id, "cancel", "someone", "no longer wanted")
                return
            except Unreachable:
                await self._sleep(0.5)

    async def _cancel_deadly(self) -> None:
        """An operator who cancels jobs that are set aside, after all other jobs have ended."""
        store = self._new_store()
        while True:
            await self._sleep(5.0)
            for job_id in sorted(self.deadly & self.db.jobs.keys()):
                job = self.db.jobs[job_id]
                ends = [row["finished_at"] for other, row in self.db.jobs.items() if other not in self.deadly]
                if self.troubled or job["finished_at"] is not None or None in ends:
                    continue
                if (job["reason"] or "").endswith(KILLS):
                    self.cancelled.add(job_id)
                    with contextlib.suppress(Unreachable):
                        await store.send(job_id, "cancel", "someone", "it kills")

    async def _tidy(self) -> None:
        """A janitor that sends rechecks for every job. A recheck of a correct job must change nothing."""
        store = self._new_store()
        while True:
            await self._sleep(self.mix.doubt)
            for job in self.jobs:
                row = self.db.jobs.get(job.job_id)
                if row is not None and (row["finished_at"] is None or self.store.random() < 0.1):
                    with contextlib.suppress(Unreachable, NotFound):
                        await store.send(job.job_id, "recheck", "stuck_tasks", "as drawn")

    async def _help(self) -> None:
        """A person who sends verbs to any job, sensible or not, as long as there are faults."""
        store = self._new_store()
        while self.troubled:
            await self._sleep(self.helping.random() * self.mix.verbs)
            jobs = sorted(self.db.jobs)
            if not jobs or not self.troubled:
                continue
            job_id = self.helping.choice(jobs)
            with contextlib.suppress(Unreachable, NotFound):
                if self.helping.random() < 0.3:
                    verb = self.helping.choice(["pause", "unpause"])
                    data = {"plan_id": self._steering_id(job_id, verb)} if self.helping.random() < 0.3 else None
                    await store.send(job_id, verb, "someone", "as drawn", data)
                else:
                    await store.send(job_id, "recover", "someone", "as drawn", self._draw_verb(job_id))
        while paused := [job_id for job_id in sorted(self.db.jobs.keys() - self.deadly) if self._may_be_paused(job_id)]:
            with contextlib.suppress(Unreachable, NotFound):
                await store.send(paused[0], "unpause", "someone", "it is calm")
            await self._sleep(2.0)

    async def _edit(self) -> None:
        """A person who corrects jobs that have ended, as long as there are faults."""
        store = self._new_store()
        while self.troubled:
            await self._sleep(self.editing.random() * self.mix.corrections)
            jobs = [(job_id, job) for job_id, job in sorted(self.db.jobs.items()) if job_id not in self.deadly]
            ended = [job_id for job_id, job in jobs if job["finished_at"] is not None]
            if not ended or not self.troubled:
                continue
            job_id = self.editing.choice(ended)
            verb = self.editing.choice([Verb.RESUME, Verb.RESUME, Verb.RETRY, Verb.RERUN])
            node = self.editing.choice(sorted(self.db.nodes[job_id])) if verb is not Verb.RESUME else None
            request = Request(verb, node)
            drawn = draw_correction(self.db, self._state(job_id), request, self.editing)
            if drawn is None:
                continue
            row, definition = drawn
            with contextlib.suppress(Unreachable, NotFound):
                await store.keep_plan(row, definition)
                self.db.definitions.setdefault(row.definition_hash, definition)
                asked = {"verb": str(verb), "correction": row.plan_id} | ({"node": node} if node is not None else {})
                await store.send(job_id, "recover", "someone", "as drawn", asked)

    def _may_be_paused(self, job_id: str) -> bool:
        is_asked = any(row["job_id"] == job_id and row["kind"] == "pause" for row in self.db.inbox.values())
        return is_asked or any(hold["by"] == "pause" for hold in self.db.jobs[job_id]["holds"])

    def _draw_verb(self, job_id: str) -> dict[str, Any]:
        verb = self.helping.choice(["resume", "resume", "resume", "retry", "clear", "rerun", "skip", "set"])
        if verb == "resume":
            # Not drawn from `helping`: its next draws stay those of earlier worlds.
            return {"verb": verb, "tolerated": zlib.crc32(repr(self.helping.getstate()[1][-3:]).encode()) % 3 == 0}
        node = self.helping.choice([*sorted(self.db.nodes[job_id]), "no_such_node"])
        items = [self.helping.randrange(4)] if verb == "clear" and self.helping.random() < 0.5 else []
        drawn: dict[str, Any] = {"verb": verb, "node": node, "items": items}
        if verb == "set":
            drawn["output"] = {"given": True}
        if verb == "clear" and items and zlib.crc32(repr(self.helping.getstate()[1][-5:]).encode()) % 2:
            drawn["params"] = {"given": items[0]}
        if self.helping.random() < 0.3:
            drawn["plan_id"] = self._plan_id(job_id, drawn)
        return drawn

    def _plan_id(self, job_id: str, drawn: dict[str, Any]) -> str | None:
        """The id of the verb's plan at this moment. The job may have changed when its owner reads the verb."""
        request = Request(**drawn | {"verb": Verb(drawn["verb"]), "items": tuple(drawn["items"])})
        state = self._state(job_id)
        node = state.nodes.get(request.node or "")
        selected = select(self.db, job_id, request, node.enqueued if node else 0, batches_asked(state, request))
        plan = make_plan(state, request, selected, self.db.now)
        return plan_id(job_id, state.generation, request, plan) if isinstance(plan, Plan) else None

    def _steering_id(self, job_id: str, verb: str) -> str:
        return steering_id(open_job(self._state(job_id)), SteeringVerb(verb))

    def _state(self, job_id: str) -> JobState:
        job, nodes = ModelCycle(self.db, 0).committed_rows(job_id)
        return job_state(job, nodes, self._program(job_id), self.rules)

    async def _orchestrate(self) -> None:
        """The loop of orchestrator/loop.py on virtual time."""
        store = self._new_store()
        former: int | None = None
        while True:
            try:
                if former is not None:
                    await store.end_orchestrator(former)
                    former = None
                orchestrator_id = await store.register_orchestrator("orchestrator", LEASE_SECONDS)
                owner = self._new_owner(store, orchestrator_id)
                self.current.cycles = [owner._cycle]
                await self._own(store, owner)
            except Fenced:
                self.trace.append(f"{self.db.time:.3f} fenced")
            except TakeoverUnknown:
                former = orchestrator_id
            except (Unreachable, LostRace):
                await self._sleep(0.2)

    def _new_owner(self, store: Store, orchestrator_id: int) -> Owner:
        return MortalOwner(self.deadly, store, orchestrator_id, f"o{orchestrator_id}", self.rules, self._chance_or_bug)

    async def _own(self, store: Store, owner: Owner) -> None:
        renew_at = sweep_at = scan_at = 0.0
        while True:
            try:
                if self.db.time >= renew_at:
                    if not await store.renew_orchestrator(owner.orchestrator_id, LEASE_SECONDS):
                        raise Fenced("ended by another")
                    renew_at = self.db.time + RENEW_SECONDS
                if self.db.time >= scan_at:
                    scan_at = self.db.time + 2.0
                    await self._take_over(store, owner)
                if self.db.time >= sweep_at:
                    sweep_at = self.db.time + 1.0
                    if self.mix.steps_back and owner.doubts_clock:
                        await store.follow_clock(LEASE_SECONDS)
                    await store.sweep_inbox()
                    await store.expire()
                    owner.notice((await store.open_gates()).shut)
                    await store.wake_due()
                result = await owner.run_cycle()
            except Fenced:
                raise
            except (Unreachable, LostRace):
                await self._sleep(0.2)
                continue
            if not result.more:
                deadline = owner.next_deadline()
                await self._idle(max(0.05, min(self.poll_seconds, (deadline or 1e18) - self.db.now)))

    async def _take_over(self, store: Store, owner: Owner) -> None:
        """Take over jobs. Without an answer the orchestrator does not know its jobs, and begins under a new id."""
        try:
            owner.adopt(await store.take_over(owner.orchestrator_id, 100))
        except Unreachable:
            raise TakeoverUnknown from None
        dangers = await store.dangers(KILLER_SECONDS)
        owner.beware(dangers)
        for job_id in dangers.killers:
            await store.set_aside(job_id, owner.orchestrator_id, KILLS)

    async def _work_and_own(self) -> None:
        """A worker and an owner in one process: the owner accepts the worker's reports and returns its next leases."""
        store = self._new_store()
        while True:
            try:
                orchestrator_id = await store.register_orchestrator("both", LEASE_SECONDS)
                owner = self._new_owner(store, orchestrator_id)
                self.current.cycles = [owner._cycle]
                started = self.db.time
                worker = await store.register_worker("worker", None, HANDLERS, 4, LEASE_SECONDS)
                await self._do_both(store, owner, worker, started)
            except (Unreachable, LostRace, Fenced, TakeoverUnknown):
                # The leases of the worker and of the orchestrator expire by themselves.
                await self._sleep(0.3)

    async def _do_both(self, store: Store, owner: Owner, worker: WorkerIdentity, started: float) -> None:
        renew_at, lease_ends, scan_at = started + RENEW_SECONDS, started + LEASE_SECONDS, 0.0
        held: list[Lease] = []
        while True:
            if self.db.time >= renew_at:
                asked_at, held_keys = self.db.time, [(*h[:3], h.epoch) for h in held]
                still = await store.renew_worker(worker, LEASE_SECONDS, held_keys)
                if still is None or not await store.renew_orchestrator(owner.orchestrator_id, LEASE_SECONDS):
                    return
                await store.release_strays(worker, held_keys)
                held = [h for h in held if (*h[:3], h.epoch) in still]
                lease_ends, renew_at = asked_at + LEASE_SECONDS, asked_at + RENEW_SECONDS
            if self.db.time >= lease_ends:
                return
            if self.db.time >= scan_at:
                scan_at = self.db.time + 2.0
                await self._take_over(store, owner)
                if self.mix.steps_back and owner.doubts_clock:
                    await store.follow_clock(LEASE_SECONDS)
                await store.sweep_inbox()
                owner.notice((await store.open_gates()).shut)
                await store.wake_due()
            if not held:
                held = await store.claim(worker, None, HANDLERS, 2)
            reports = in_lock_order(await self._execute_all(store, worker, held[:2], lease_ends))
            held = held[2:]
            if not reports:
                await self._advance_alone(owner)
                continue
            result = await owner.run_cycle(Handover(worker, reports, None, HANDLERS, 2))
            if result.accepted is None:
                await self._report(store, worker, reports)
            else:
                self.db.history.handed += len(result.accepted)
                held += result.leases

    async def _advance_alone(self, owner: Owner) -> None:
        if not (await owner.run_cycle()).more:
            await self._idle(self.poll_seconds)

    async def _work(self) -> None:
        store = self._new_store()
        while True:
            try:
                started = self.db.time
                worker = await store.register_worker("worker", None, HANDLERS, 4, LEASE_SECONDS)
                await self._serve(store, worker, started)
            except Unreachable:
                await self._sleep(0.3)

    async def _serve(self, store: Store, worker: WorkerIdentity, started: float) -> None:
        """Claim, run, report, renew. The worker stops at the end of its lease, counted from before it asked for it."""
        lease_ends, renew_at = started + LEASE_SECONDS, started + RENEW_SECONDS
        held: list[Lease] = []
        while True:
            if self.db.time >= renew_at:
                asked_at = self.db.time
                held_keys = [(*h[:3], h.epoch) for h in held]
                still = await store.renew_worker(worker, LEASE_SECONDS, held_keys)
                if still is None:
                    return
                await store.release_strays(worker, held_keys)
                held = [h for h in held if (*h[:3], h.epoch) in still]
                lease_ends, renew_at = asked_at + LEASE_SECONDS, asked_at + RENEW_SECONDS
            if self.db.time >= lease_ends:
                return
            if not held:
                # If the answer is lost, the next renewal gives back the leases that this worker does not know.
                with contextlib.suppress(Unreachable):
                    held = await store.claim(worker, None, HANDLERS, self.chance.randint(1, 4))
            if not held:
                await self._idle(self.poll_seconds)
                continue
            count = self.chance.randint(1, len(held))
            batch, held = held[:count], held[count:]
            reports = await self._execute_all(store, worker, batch, lease_ends)
            if reports:
                await self._report(store, worker, reports)

    async def _execute_all(
        self, store: Store, worker: WorkerIdentity, leases: Sequence[Lease], lease_ends: float
    ) -> list[Report]:
        """Run tasks one after the other. Tasks that cannot begin before the lease ends become strays."""
        reports = []
        for lease in leases:
            if self.db.time >= lease_ends:
                break
            self.checkers.begun(worker.worker_id, (lease.job_id, lease.node, lease.item), lease.epoch)
            reports.append(await self._execute(store, lease))
        return reports

    async def _execute(self, store: Store, lease: Lease) -> Report:
        outcome = self.script.outcome(self.numbers[lease.job_id], lease.node, lease.item, *self._spent(lease))
        started = self.db.time
        await self._sleep(self.chance.random() * 0.5)
        self.checkers.executed((lease.job_id, lease.node, lease.item), lease.epoch)
        if outcome == "slow":
            await self._sleep(min(lease.timeout_seconds, SLOW_SECONDS))
            outcome = "transient"
        common = (lease.job_id, lease.node, lease.item, lease.epoch, lease.attempt)
        if self._is_down(lease):
            down = orjson.dumps({"code": "DEPENDENCY_DOWN", "message": "the gateway is down", "class": "transient"})
            return Report(*common, "failed", started, None, down)
        if outcome == "done":
            did = {"did": [lease.node, lease.item], "params": lease.params}
            return Report(*common, "done", self.db.time, orjson.dumps(did | await self._read(store, lease)))
        if outcome == "dies":
            data = orjson.dumps({"code": "WORKER_LOST", "message": "as scripted"})
            return Report(*common, "lost", self.db.time, None, data, alone=True)
        failure_class = "permanent" if outcome == "permanent" else None
        data = orjson.dumps({"code": "HANDLER_ERROR", "message": "as scripted", "class": failure_class})
        return Report(*common, "failed", self.db.time, None, data)

    async def _read(self, store: Store, lease: Lease) -> dict[str, Any]:
        """Read the results that the task needs: a batch reads its page, the last task the results of all batches."""
        node = self._program(lease.job_id).nodes.get(lease.node)
        if node is None or node.batches is None:
            return {}
        every: dict[str, Any] = {"node": lease.node, "offset": 0, "limit": 1000}
        page = lease.params["page"] if lease.item >= 0 else every
        read: list[Any] = []
        after, until = page["offset"] - 1, page["offset"] + page["limit"]
        while results := await store.results_page(lease.job_id, page["node"], after, until, 2):
            read += [orjson.loads(result.output or b"null")["did"] for result in results]
            after = results[-1].item
        return {"read": read}

    def _program(self, job_id: str) -> Program:
        job = self.db.jobs.get(job_id)
        if job is None:
            # The database went back to a time before the submission.
            return compile_pinned(*self.jobs[self.numbers[job_id]][4:6])
        return compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])

    def _is_down(self, lease: Lease) -> bool:
        """Whether the dependency of the task is down at this moment, so that its handler fails."""
        if self.seed % 3 or not self.troubled or self.db.time >= 1_000_000.0 + OUTAGE_SECONDS:
            return False
        return self._program(lease.job_id).breaker_of(lease.node, lease.item) is not None

    async def _report(self, store: Store, worker: WorkerIdentity, reports: list[Report]) -> None:
        """Send reports until there is an answer. Sometimes send them twice."""
        while True:
            try:
                await store.report(worker, reports)
                break
            except Unreachable:
                await self._breathe()
        if self.troubled and self.chance.random() < self.mix.duplicate:
            with contextlib.suppress(Unreachable):
                await store.report(worker, reports)


def outcomes(world: World) -> dict[str, Any]:
    """The status, the result and the nodes of each job."""
    return {
        job_id: (
            row["status"],
            row["result"],
            {n.node: (str(n.status), n.output) for n in world.db.nodes[job_id].values()},
        )
        for job_id, row in sorted(world.db.jobs.items())
    }


def run_seed(seed: int) -> World:
    """Run one seed with faults, and compare its results with those of the same work without faults."""
    world = World(seed)
    world.run()
    check_results(world)
    return world


def check_results(world: World) -> None:
    """Compare with the same work in a calm world, except for jobs whose results depend on timing."""
    calm = World(world.seed, mix=world.mix.calm(), jobs=world.jobs)
    calm.run()
    results, expected = outcomes(world), outcomes(calm)
    for job_id in expected:
        if job_id in world.cancelled or world.checkers.lost_work(job_id) or calm.checkers.lost_work(job_id):
            continue
        assert results[job_id][0] == expected[job_id][0], f"{job_id}: {results[job_id]} but calm: {expected[job_id]}"
        if world.checkers.ran_to_its_end(job_id) and calm.checkers.ran_to_its_end(job_id):
            assert results[job_id] == expected[job_id], f"{job_id}: {results[job_id]} but calm: {expected[job_id]}"
