"""Schedules: the transaction of a tick, and what people see and change."""

from __future__ import annotations

from typing import Any

from holdfast import failpoint
from holdfast.errors import LostRace, Refused
from holdfast.store.audit import Change, audit_of_verb, write_change
from holdfast.store.audit_rows import NOWHERE, Origin
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Connection, answer_of
from holdfast.store.queries import query
from holdfast.store.records import ANYBODY, NewJob
from holdfast.store.schedule_changes import ROLE, change_schedule
from holdfast.store.schedule_rows import Decide, Move, ScheduleRow
from holdfast.store.submissions import PostgresSubmissions, insertion


class PostgresSchedules:
    """Keeps the promises of `operations.schedule_ports.ScheduleStore` and of `schedules.ports.TickStore`."""

    def __init__(self, store: PostgresSubmissions, origin: Origin = NOWHERE) -> None:
        self._store = store
        self._origin = origin

    # What people see and change

    async def of_tenant(self, tenant: str) -> list[ScheduleRow]:
        return records(ScheduleRow, await self._ask("read_schedules", tenant=tenant))

    async def find(self, tenant: str, name: str) -> ScheduleRow | None:
        found = records(ScheduleRow, await self._ask("read_schedule", tenant=tenant, name=name))
        return found[0] if found else None

    async def change(
        self, tenant: str, name: str, action: str, decide: Decide, actor: str, reason: str = ""
    ) -> ScheduleRow | None:
        """Change a schedule under its lock; None: there is none any more. `decide` may raise to change nothing."""
        async with self._store.connections.use(ROLE) as connection, connection.transaction():
            return await change_schedule(connection, tenant, name, action, decide, actor, self._origin, reason)

    # Ticks

    async def lead(self, holder: str, lease_seconds: float) -> bool:
        """Take or keep the lead; False while another process has it."""
        return (await self._ask("lead", role=ROLE, me=holder, lease=lease_seconds)).row_count == 1

    async def resign(self, holder: str) -> None:
        await self._ask("resign", role=ROLE, me=holder)

    async def due(self, limit: int) -> list[ScheduleRow]:
        """Schedules with something to do now."""
        return records(ScheduleRow, await self._ask("due_schedules", limit=limit))

    async def seconds_to_next(self) -> float | None:
        """How long until the next tick of any schedule; None: there is none."""
        (row,) = by_name(await self._ask("seconds_to_next_tick"))
        seconds: float | None = row["seconds"]
        return seconds

    async def alert(self, row: ScheduleRow, reason: str) -> bool:
        """Note that a person must look at a schedule; False: the same was noted within the last hour."""
        return (await self._ask("write_schedule_alert", **_key(row), reason=reason)).row_count == 1

    async def move(
        self, row: ScheduleRow, move: Move, job: NewJob | None, by: tuple[str, str] | None = None
    ) -> tuple[bool, bool]:
        """Move a schedule and insert the job of its tick, in one transaction; False: another process was first.

        The second answer is whether an alert is new. Raises BacklogFull if the tenant may have no more jobs, Refused
        if the tick has its job, and LostRace if it must be tried again: then nothing has changed. `by` is the person
        who asks for it, and why.
        """
        owners, is_new_alert = [], False
        async with self._store.connections.use(ROLE) as connection, connection.transaction():
            if not await self._moved(connection, row, move, job):
                return False, False
            await failpoint.hit("tick.moved")
            if job is not None:
                await self._insert(connection, job)
                owners.append(ANYBODY)
            if move.cancels and row.last_job is not None:
                owners += await self._cancel(connection, row)
            if move.alert is not None:
                cursor = await connection.execute(query("write_schedule_alert"), {**_key(row), "reason": move.alert})
                is_new_alert = cursor.rowcount == 1
            if by is not None:
                actor, reason = by
                after = {"job_id": job.job_id if job is not None else None, "answer": move.last_answer}
                line = Change("schedule.trigger", row.tenant, row.name, after=after)
                await write_change(connection, line, actor, self._origin, reason)
            await failpoint.hit("tick.written")
        await failpoint.hit("tick.after_commit")
        if owners:
            # Polling covers a wake-up that is lost.
            await self._store.wake(owners)
        return True, is_new_alert

    async def _moved(self, connection: Connection, row: ScheduleRow, move: Move, job: NewJob | None) -> bool:
        parameters = {
            **_key(row),
            "schedule_id": row.schedule_id,
            "revision": row.revision,
            "tick": row.next_at,
            "next_at": move.next_at,
            "waiting": move.waiting,
            "last_tick": move.last_tick,
            "last_answer": move.last_answer,
            "problem": move.problem,
            "job": job.job_id if job is not None else None,
        }
        return (await connection.execute(query("move_schedule"), parameters)).rowcount == 1

    async def _insert(self, connection: Connection, job: NewJob) -> None:
        statements, place = insertion([job])
        made: list[str | None] = []
        for number, (statement, parameters) in enumerate(statements):
            answered = await connection.execute(statement, parameters)
            if number == place:
                made = [row["job_id"] for row in by_name(await answer_of(answered))]
        if None in made:
            await self._store.learn_defaults([job])
            raise LostRace("the defaults have changed since the definition was resolved")
        if not made:
            for refusal in await self._store.full_backlog(job.tenant):
                raise refusal
            for known in (await self._store.jobs_by_identity([job])).values():
                # The clock was set back, and the schedule was unpaused or changed since.
                raise Refused(f"job {known['job_id']} is the job of this tick already", instance=known["job_id"])
            raise LostRace("the backlog of the tenant has just become free")

    async def _cancel(self, connection: Connection, row: ScheduleRow) -> list[int]:
        """Ask the owner of the last job to cancel it; returns the owner."""
        parameters = {
            "job": row.last_job,
            "kind": "cancel",
            "reason": "the next tick replaces it",
            "data": None,
            "tenant": row.tenant,
            **audit_of_verb("cancel", None),
            **NOWHERE.signed(f"schedule {row.name}"),
        }
        answer = await answer_of(await connection.execute(query("send_signal"), parameters))
        return [sent["owner"] for sent in by_name(answer)]

    async def _ask(self, statement: str, /, **parameters: Any) -> Answer:
        async with self._store.connections.use(ROLE) as connection:
            cursor = await connection.execute(query(statement), parameters)
            return await answer_of(cursor) if cursor.description else Answer([], cursor.rowcount)


def _key(row: ScheduleRow) -> dict[str, str]:
    return {"tenant": row.tenant, "name": row.name}
