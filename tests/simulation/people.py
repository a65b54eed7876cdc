"""Who sends something to jobs: a client, an operator, a janitor, and people with verbs and corrections."""

from __future__ import annotations

import contextlib
import zlib
from typing import Any

from holdfast.core.planning import batches_asked, make_plan
from holdfast.core.plans import Plan, plan_id
from holdfast.core.signals import Request, Verb
from holdfast.core.steering import SteeringVerb, open_job, steering_id
from holdfast.errors import NotFound, Unreachable
from holdfast.orchestrator.loop import KILLS
from holdfast.store.interface import Store
from tests.simulation.correcting import draw_correction
from tests.simulation.environment import Environment
from tests.simulation.selection import select

MOST_RECHECKS = 100
"""How many unread rechecks a job may have. A claim reads 500 requests; a cancel must not stand behind that many."""


class People(Environment):
    """The processes that submit, cancel, recheck, steer, recover and correct jobs."""

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
                is_drawn = row is not None and (row["finished_at"] is None or self.store.random() < 0.1)
                if is_drawn and self._unread(job.job_id) < MOST_RECHECKS:
                    with contextlib.suppress(Unreachable, NotFound):
                        await store.send(job.job_id, "recheck", "stuck_tasks", "as drawn")

    def _unread(self, job_id: str) -> int:
        """How many rechecks of a job wait. The janitor itself sends none while one waits."""
        return sum(1 for row in self.db.inbox.values() if row["job_id"] == job_id and row["kind"] == "recheck")

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
        await self._unpause_all(store)

    async def _unpause_all(self, store: Store) -> None:
        while paused := [job_id for job_id in sorted(self.db.jobs.keys() - self.deadly) if self._may_be_paused(job_id)]:
            with contextlib.suppress(Unreachable, NotFound):
                await store.send(paused[0], "unpause", "someone", "it is calm")
            await self._sleep(2.0)

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

    async def _take_back(self) -> None:
        """A person who undoes jobs that have ended, as long as there are faults, and goes on where an undo failed."""
        store, chance = self._new_store(), self.taking_back
        while self.troubled:
            await self._sleep(chance.random() * self.mix.undos)
            jobs = [job_id for job_id in sorted(self.db.jobs) if job_id not in self.deadly]
            if not jobs or not self.troubled:
                continue
            job_id = chance.choice(jobs)
            with contextlib.suppress(Unreachable, NotFound):
                if self.db.jobs[job_id]["finished_at"] is not None:
                    await store.send(job_id, "recover", "someone", "as drawn", self._draw_undo(job_id))
                elif self.db.jobs[job_id]["reason"] == "undoing":
                    await self._disturb_undo(store, job_id)
        await self._unpause_all(store)

    async def _disturb_undo(self, store: Store, job_id: str) -> None:
        drawn = self.taking_back.random()
        if drawn < 0.2:
            self.cancelled.add(job_id)
            await store.send(job_id, "cancel", "someone", "no longer wanted")
        elif drawn < 0.6:
            await store.send(job_id, self.taking_back.choice(["pause", "unpause"]), "someone", "as drawn")

    def _draw_undo(self, job_id: str) -> dict[str, Any]:
        chance, nodes = self.taking_back, self.db.nodes[job_id]
        left = sorted(name for name, node in nodes.items() if node.undo is not None and node.undo["failed"])
        if left and chance.random() < 0.4:
            return {"verb": "skip", "node": chance.choice(left)}
        if chance.random() < 0.2:
            return {"verb": "resume"}
        drawn: dict[str, Any] = {"verb": "undo", "items": []}
        if chance.random() < 0.3:
            drawn["node"] = chance.choice([*sorted(nodes), "no_such_node"])
        if chance.random() < 0.3:
            drawn["plan_id"] = self._plan_id(job_id, drawn)
        return drawn

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
