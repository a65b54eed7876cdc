"""One simulated world: orchestrators, workers and clients as coroutines, and a scheduler that draws the next one to
run, on a virtual clock.

`people`, `workers` and `orchestrators` have the processes, `faults` what happens to them between their steps, `mix`
the chances of that, and `environment` what all of them share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.operations.submitting import new_job
from holdfast.store.records import NewJob
from tests.simulation.correction_checkers import may_be_compared, without_numbers
from tests.simulation.environment import LEASE_SECONDS, Process, Sleep
from tests.simulation.faults import Faults
from tests.simulation.gates import unpause_queue
from tests.simulation.job_checkers import check_deadlines
from tests.simulation.mix import Mix
from tests.simulation.orchestrators import Died, Orchestrators
from tests.simulation.people import People
from tests.simulation.workers import LONGEST_SECONDS

VISITORS = ("client", "person", "undoer")
"""Processes that end by themselves, and are never restarted."""
ZOMBIE_SECONDS = 1.5 * LEASE_SECONDS


class World(People, Orchestrators, Faults):
    """Runs one seed to its end; `trace` is the same, byte for byte, whenever the seed is the same.

    Subclasses can replace the store and the way in which processes run: tests/interleaving runs the same processes
    on a real store.
    """

    def __init__(self, seed: int, mix: Mix | None = None, jobs: list[NewJob] | None = None) -> None:
        super().__init__(seed, mix, jobs)
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
        if self.mix.undos:
            self._add(Process("undoer", lambda: self._take_back()))
        if self.deadly:
            self._add(Process("operator", lambda: self._cancel_deadly()))
        self._add(Process("client", lambda: self._submit_all()))

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
                patience = 3.0 if not self.mix.together else 3.0 + 2 * LONGEST_SECONDS
                check_deadlines(self.db, patience)
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
            # At least a microsecond: the clock may show a number that is too large for less to change it.
            self.db.now += max(next_at - self.db.time, 1e-6)
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

    def _restart(self) -> None:
        for process in self.processes:
            if process.running is None and process.wake_at <= self.db.time and process.name not in VISITORS:
                self._begin(process)

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
    check_corrected_results(world)
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


def check_corrected_results(world: World) -> None:
    """24: a corrected job that is whole has the results of the same job in a calm world, corrected from the start."""
    programs = {job.job_id: world._program(job.job_id) for job in world.jobs}
    names = [job_id for job_id in programs if may_be_compared(world.db, job_id)]
    if not names:
        return
    inputs = {job_id: world.db.jobs[job_id]["inputs"] for job_id in names}
    jobs = [new_job(programs[name].definition, inputs[name], key=name)._replace(job_id=name) for name in names]
    calm = World(world.seed, mix=replace(world.mix.calm(), trouble=0.0, deaths=0.0), jobs=jobs)
    calm.run()
    results, expected = outcomes(world), outcomes(calm)
    for name in names:
        status, result, nodes = results[name]
        shown = {node: nodes[node] for node in expected[name][2]}
        assert without_numbers((status, result, shown)) == without_numbers(expected[name]), (
            f"24: {name} has {results[name]}, but corrected from the beginning: {expected[name]}"
        )
