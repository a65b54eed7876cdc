"""Jobs for programs: every operation as a method, for one tenant and one actor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.signals import Request
from holdfast.core.steering import SteeringVerb
from holdfast.define.definition import Definition
from holdfast.operations import gates, recovering, submitting
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import Submission
from holdfast.store.gates import BreakerView, LimitView
from holdfast.store.interface import NewJob, SignalAnswer
from holdfast.store.migrate import ensure_schema
from holdfast.store.postgres import PostgresStore
from holdfast.views.plans import JobPlan, SteeringPlan


class Client:
    """An asynchronous client of one database: `async with Client.connect(url) as client: …`."""

    def __init__(self, store: PostgresStore, scope: Scope | None = None) -> None:
        self._store = store
        self._scope = scope or Scope()

    @classmethod
    @asynccontextmanager
    async def connect(cls, database_url: str, scope: Scope | None = None) -> AsyncIterator[Client]:
        """A client of the database at that URL, whose schema must be there."""
        await ensure_schema(database_url, create=False)
        store = PostgresStore(database_url, "holdfast client")
        try:
            yield cls(store, scope)
        finally:
            await store.close()

    async def submit(
        self,
        definition: Definition,
        inputs: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        priority: int = 0,
        resume: bool = False,
        force: bool = False,
    ) -> Submission:
        """Make a job, or answer with the newest that the same submission made before.

        With `resume` a job that failed, is partial or was cancelled continues where it stopped. With `force` a new job
        is made, and the one before stays as it is.
        """
        return await submitting.submit(
            self._scope, self._store, definition, inputs or {}, key=key, priority=priority, resume=resume, force=force
        )

    async def submit_many(self, jobs: Sequence[NewJob]) -> list[Submission]:
        """Many submissions in one transaction."""
        return await submitting.submit_many(self._store, jobs)

    async def definition(self, workflow_id: str) -> Definition:
        """The definition of that id that was submitted last."""
        return await submitting.newest_definition(self._scope, self._store, workflow_id)

    async def cancel(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to stop it; returns the id of the signal that the owner answers.

        With the id of a plan the owner does exactly that, or refuses because the job has changed.
        """
        return await self._steer(job_id, SteeringVerb.CANCEL, reason, plan_id)

    async def pause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to begin nothing new of it; returns the signal's id."""
        return await self._steer(job_id, SteeringVerb.PAUSE, reason, plan_id)

    async def unpause(self, job_id: str, *, reason: str = "", plan_id: str | None = None) -> int:
        """Ask the job's owner to let it continue; returns the signal's id."""
        return await self._steer(job_id, SteeringVerb.UNPAUSE, reason, plan_id)

    async def _steer(self, job_id: str, verb: SteeringVerb, reason: str, plan_id: str | None) -> int:
        return await recovering.steer(self._scope, self._store, job_id, verb, reason=reason, plan_id=plan_id)

    async def plan(self, job_id: str, request: Request) -> JobPlan:
        """What a verb would keep and run again now. Changes nothing. Refused where the verb would be."""
        return await recovering.plan(self._scope, self._store, job_id, request)

    async def plan_steering(self, job_id: str, verb: SteeringVerb) -> SteeringPlan:
        """What a cancel, a pause or an unpause would do now. Changes nothing. Refused where the verb would be."""
        return await recovering.plan_steering(self._scope, self._store, job_id, verb)

    async def recover(self, job_id: str, request: Request, *, reason: str = "") -> int:
        """Ask the job's owner to apply a verb; returns the id of the signal that the owner answers."""
        return await recovering.recover(self._scope, self._store, job_id, request, reason=reason)

    async def answer(self, signal_id: int, *, seconds: float = recovering.ANSWER_SECONDS) -> SignalAnswer | None:
        """What the owner answers to a signal; None if it does not answer in that time."""
        return await recovering.answer(self._scope, self._store, signal_id, seconds=seconds)

    async def breakers(self) -> list[BreakerView]:
        """All breakers that workflows have declared, by name."""
        return await gates.breakers(self._store)

    async def change_breaker(self, name: str, verb: gates.BreakerVerb, *, reason: str = "") -> BreakerView:
        """Open a breaker until a person closes it, close it, or close it with an empty window. Who and why is kept."""
        return await gates.change_breaker(self._scope, self._store, name, verb, reason=reason)

    async def limits(self) -> list[LimitView]:
        """All limits: those that workflows have declared, and those that people have set."""
        return await gates.limits(self._store)

    async def set_limit(
        self,
        name: str,
        *,
        tenant: str | None = None,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        backlog: int | None = None,
    ) -> LimitView:
        """Limit a queue (`queue:NAME`), a tenant (`tenant`), or a node or a key otherwise than its workflow does.

        `rate` is how many tasks may begin in how many seconds; `backlog` is how many jobs of a tenant may be open.
        """
        return await gates.set_limit(
            self._scope, self._store, name, tenant=tenant, concurrency=concurrency, rate=rate, backlog=backlog
        )

    async def drop_limit(self, name: str, *, tenant: str | None = None) -> LimitView:
        """Remove a limit that a person has set; returns it as it was."""
        return await gates.drop_limit(self._scope, self._store, name, tenant=tenant)
