"""What the processes of a world share: the database, the virtual clock, the jobs, and what the seed draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.states import JobState, Rules
from holdfast.define.program import Program, compile_pinned
from holdfast.operations.submitting import new_job
from holdfast.store.interface import Store
from holdfast.store.loading import job_state
from holdfast.store.records import Lease, NewJob
from tests.simulation.checker_memory import Memory
from tests.simulation.checkers import Checkers
from tests.simulation.correcting import OTHER_HANDLER
from tests.simulation.cycle import ModelCycle
from tests.simulation.database import Database, step
from tests.simulation.mix import Mix
from tests.simulation.notice_checkers import draw_hooks, draw_subscriptions, with_receivers, with_receivers_of_its_own
from tests.simulation.shapes import UNDO_HANDLER, Script, draw_definition, draw_inputs, with_compensations
from tests.simulation.store import ModelStore

LEASE_SECONDS, RENEW_SECONDS = 10.0, 3.0
HANDLERS = ("work", OTHER_HANDLER, UNDO_HANDLER)


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


class Environment:
    """One seed's database, clock and jobs. Subclasses can replace the store and the time of the processes."""

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
        self.saved: tuple[dict[str, Any], Memory] | None = None
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
        self.taking_back = random.Random(f"undo {seed}")
        if self.taking_back.random() < 0.5:
            drawn.undos = self.taking_back.choice([0.5, 2.0])
            # Jobs end and are undone, and faults strike them then.
            drawn.troubled_seconds *= 4
            drawn.crash = max(drawn.crash, self.taking_back.choice([0.0, 0.01, 0.03]))
            if self.taking_back.random() < 0.6:
                drawn.verbs = drawn.corrections = 0.0
        self.mix = mix or drawn
        self.db = Database()
        self.telling = random.Random(f"notices {seed}")
        self.db.subscriptions = self._draw_subscriptions()
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
        self.current: Process

    def _draw_jobs(self) -> list[NewJob]:
        jobs = []
        for number in range(self.mix.jobs):
            definition = draw_definition(self.chance)
            if self.mix.undos:
                definition = with_compensations(definition, random.Random(f"undo {self.seed} {number}"))
            definition = with_receivers(definition, self.telling)
            job = new_job(definition, draw_inputs(self.chance), key=f"job {number}", priority=self.chance.randint(0, 1))
            jobs.append(with_receivers_of_its_own(job._replace(job_id=f"job-{number}"), self.telling))
        return jobs

    def _draw_subscriptions(self) -> dict[str, frozenset[str]]:
        return draw_subscriptions(self.telling) | draw_hooks(random.Random(f"hooks {self.seed}"))

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

    # Jobs

    def _spent(self, lease: Lease) -> tuple[int, int]:
        """How often the task has failed, and how often it has died."""
        task = self.db.tasks[lease.job_id].get((lease.node, lease.item))
        # The task of a zombie may not exist any more, because its node began again.
        return (task["retries"], task["crashes"]) if task is not None else (0, 0)

    def _program(self, job_id: str) -> Program:
        job = self.db.jobs.get(job_id)
        if job is None:
            # The database went back to a time before the submission.
            return compile_pinned(*self.jobs[self.numbers[job_id]][4:6])
        return compile_pinned(job["definition_hash"], self.db.definitions[job["definition_hash"]])

    def _state(self, job_id: str) -> JobState:
        job, nodes = ModelCycle(self.db, 0).committed_rows(job_id)
        return job_state(job, nodes, self._program(job_id), self.rules)
