"""Schedules: making, changing and removing them, pausing them, and letting one tick now."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from holdfast import tracing
from holdfast.define.bounds import MAX_NAME_LENGTH
from holdfast.define.source import did_you_mean
from holdfast.define.timing import check_timing
from holdfast.errors import InvalidInput, NotFound, Refused, cut
from holdfast.operations.defaults import resolved
from holdfast.operations.marks import Marks
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.operations.submitting import new_job, newest_definition, of_tick
from holdfast.operations.tenants import refusals
from holdfast.remedies import Remedy
from holdfast.schedules.deciding import Answer, CatchUp, Overlap, decide_trigger
from holdfast.schedules.moving import carry_out
from holdfast.store.records import NewJob
from holdfast.store.schedule_rows import FILE, LEFT_FILE, MOST_WAITING, PERSON, Decide, ScheduleRow, Wanted
from holdfast.views.schedules import Schedule, Triggered, schedule_view, triggered_view

MOST_SCHEDULES = 1000
"""Of a tenant."""
SHOWN_NAMES = 5
TRIES = 20
"""How often a person's tick is decided again because another change was first."""
LABEL = "schedule"
"""The label of the jobs of a schedule; its value is the name."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
Choice = TypeVar("Choice", bound=StrEnum)


async def schedules(scope: Scope, store: OperationsStore) -> list[Schedule]:
    """The schedules of the tenant, by name."""
    return [schedule_view(row) for row in await store.schedules().of_tenant(scope.tenant)]


async def schedule(scope: Scope, store: OperationsStore, name: str) -> Schedule:
    return schedule_view(await _found(scope, store, name))


async def add_schedule(
    scope: Scope,
    store: OperationsStore,
    name: str,
    workflow_id: str,
    *,
    cron: str | None = None,
    every_seconds: int | None = None,
    time_zone: str = "UTC",
    inputs: Mapping[str, Any] | None = None,
    overlap: str = Overlap.SKIP,
    catch_up: str = CatchUp.LAST,
    replace: bool = False,
    reason: str = "",
) -> Schedule:
    """Make a schedule, or with `replace` change one. Its workflow must be registered, and take these inputs now."""
    check_name(name)
    wanted = check_wanted(workflow_id, cron, every_seconds, time_zone, inputs, overlap, catch_up)
    now = datetime.fromtimestamp(await store.reads().now(), UTC)
    row = new_row(scope, name, wanted, PERSON, now)
    # Refused now, and not at two in the morning.
    await prepare(store, row, now)

    def decide(known: ScheduleRow | None, number: int, now: datetime) -> ScheduleRow:
        if known is None:
            refuse_more(scope.tenant, number)
            return row
        if not replace:
            raise Refused(
                f"There is a schedule '{name}' already.",
                remedy="Use another name; or change this one: with --replace, or by PUT.",
                instance=name,
            )
        if known.source == FILE:
            raise Refused(
                f"Schedule '{name}' was not changed: the file of workflow {known.workflow_id} has it.",
                remedy="Change `schedule` in the file, and register the file.",
                instance=name,
            )
        return changed(known._replace(source=PERSON), wanted, now)

    action = "schedule.change" if replace else "schedule.add"
    return await _changed(scope, store, name, action, decide, reason)


async def remove_schedule(scope: Scope, store: OperationsStore, name: str, *, reason: str = "") -> Schedule:
    """Remove a schedule; returns it as it was. Its jobs stay."""
    before: list[ScheduleRow] = []

    def decide(known: ScheduleRow | None, number: int, now: datetime) -> None:
        if known is not None:
            before.append(known)

    await store.schedules(scope.origin).change(scope.tenant, name, "schedule.remove", decide, scope.actor, reason)
    if not before:
        raise await _missing(scope, store, name)
    return schedule_view(before[0])


async def pause_schedule(scope: Scope, store: OperationsStore, name: str, *, reason: str = "") -> Schedule:
    """Let a schedule tick no more until it is unpaused. Ticks of that time are not caught up."""

    def decide(known: ScheduleRow | None, number: int, now: datetime) -> ScheduleRow | None:
        if known is None:
            return None
        if known.paused_at is not None:
            raise Refused(f"Schedule '{name}' is paused already, by {known.paused_by}.", instance=name)
        return paused(known, now, scope.actor, reason or None)

    return await _changed(scope, store, name, "schedule.pause", decide, reason)


async def unpause_schedule(scope: Scope, store: OperationsStore, name: str, *, reason: str = "") -> Schedule:
    """Let a paused schedule tick again, from its next time on. One that has left its file is a person's then."""

    def decide(known: ScheduleRow | None, number: int, now: datetime) -> ScheduleRow | None:
        if known is None:
            return None
        if known.paused_at is None:
            raise Refused(f"Schedule '{name}' is not paused.", instance=name)
        source = PERSON if known.source == LEFT_FILE else known.source
        return unpaused(known._replace(source=source), now)

    return await _changed(scope, store, name, "schedule.unpause", decide, reason)


async def trigger_schedule(scope: Scope, store: OperationsStore, name: str, *, reason: str = "") -> Triggered:
    """Let a schedule tick now, paused or not. While the job before it has not ended, its overlap decides."""
    for _ in range(TRIES):
        row = await _found(scope, store, name)
        move = decide_trigger(row)
        if move.last_answer == Answer.SKIPPED:
            raise _still_at_it(row)
        if row.paused_at is not None and move.start is None:
            raise Refused(
                f"Schedule '{name}' was not triggered: it is paused, and its job {row.last_job} has not ended.",
                remedy=Remedy("Wait for the job, or let it tick again with", "schedules", flags=("unpause", name)),
                instance=name,
            )
        if move.last_answer == Answer.LEFT_OUT:
            raise Refused(
                f"Schedule '{name}' was not triggered: {MOST_WAITING} of its ticks wait already.", instance=name
            )

        async def ready(row: ScheduleRow, tick: datetime) -> NewJob:
            return await begin(store, row, tick, scope.traceparent)

        done = await carry_out(store.schedules(scope.origin), row, move, ready, (scope.actor, reason))
        if done is not None:
            return triggered_view(row, move, done.job_id)
    raise Refused(f"Schedule '{name}' was not triggered: it changes all the time.", remedy="Try again.", instance=name)


async def begin(store: OperationsStore, row: ScheduleRow, tick: datetime, traceparent: str | None = None) -> NewJob:
    """The job of a tick that is to start now, and its place in a trace."""
    named = {"holdfast.workflow_id": row.workflow_id, "holdfast.tenant": row.tenant, "holdfast.schedule": row.name}
    with tracing.submitting(traceparent, named) as place:
        return await prepare(store, row, tick, place)


async def prepare(store: OperationsStore, row: ScheduleRow, tick: datetime, traceparent: str | None = None) -> NewJob:
    """The job of a tick, by the current definition of the workflow. It is another one for each tick."""
    definition = await newest_definition(Scope(row.tenant, row.created_by), store, row.workflow_id)
    job = new_job(
        definition,
        row.inputs,
        tenant=row.tenant,
        labels={LABEL: row.name},
        marks=Marks(f"{row.name}@{tick:%Y-%m-%dT%H:%M:%SZ}"),
        limit_bytes=store.payload_limit_bytes,
        traceparent=traceparent,
    )
    job = of_tick(job, row.schedule_id, tick)
    for refusal in (await refusals(store, [job])).values():
        raise refusal
    (ready,) = resolved(store, [job])
    return ready


async def _changed(
    scope: Scope, store: OperationsStore, name: str, action: str, decide: Decide, reason: str
) -> Schedule:
    row = await store.schedules(scope.origin).change(scope.tenant, name, action, decide, scope.actor, reason)
    if row is None:
        raise await _missing(scope, store, name)
    return schedule_view(row)


async def _found(scope: Scope, store: OperationsStore, name: str) -> ScheduleRow:
    row = await store.schedules().find(scope.tenant, name)
    if row is None:
        raise await _missing(scope, store, name)
    return row


async def _missing(scope: Scope, store: OperationsStore, name: str) -> NotFound:
    known = [row.name for row in await store.schedules().of_tenant(scope.tenant)]
    shown = f"Known: {', '.join(known[:SHOWN_NAMES])}{', …' if len(known) > SHOWN_NAMES else ''}." if known else None
    remedy = " ".join(part for part in (did_you_mean(name, known), shown or "There are none.") if part)
    return NotFound(f"There is no schedule '{cut(name)}'.", remedy=remedy, instance=cut(name))


def _still_at_it(row: ScheduleRow) -> Refused:
    if not row.is_busy:
        return Refused(f"Schedule '{row.name}' was not triggered: ticks of it wait already.", instance=row.name)
    return Refused(
        f"Schedule '{row.name}' was not triggered: its job {row.last_job} has not ended.",
        remedy=Remedy("Wait for the job, or stop it with", "cancel", row.last_job),
        instance=row.name,
    )


def refuse_more(tenant: str, number: int) -> None:
    if number >= MOST_SCHEDULES:
        raise Refused(
            f"Tenant {tenant} has {number:,} schedules, and may have no more.",
            remedy=Remedy("Remove one with", "schedules", flags=("remove", "NAME")),
            instance=tenant,
        )


def check_name(name: str) -> str:
    if len(name) > MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"'{cut(name)}' is not the name of a schedule.",
            remedy=f"Use letters, digits, '_', '.' and '-', at most {MAX_NAME_LENGTH} characters.",
        )
    return name


def check_wanted(
    workflow_id: str,
    cron: str | None,
    every_seconds: int | None,
    time_zone: str,
    inputs: Mapping[str, Any] | None,
    overlap: str,
    catch_up: str,
) -> Wanted:
    """What a person says of a schedule; refused if a value is not what it should be."""
    timing = check_timing(cron, every_seconds, time_zone)
    return Wanted(
        workflow_id, timing, dict(inputs or {}), str(_choice(Overlap, overlap)), str(_choice(CatchUp, catch_up))
    )


def _choice(kind: type[Choice], value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        what = "overlap" if kind is Overlap else "catch-up"
        raise InvalidInput(f"'{cut(value)}' is no {what}.", remedy=f"Use one of: {', '.join(kind)}") from None


def new_row(scope: Scope, name: str, wanted: Wanted, source: str, now: datetime) -> ScheduleRow:
    """A schedule that begins now."""
    row = ScheduleRow(
        tenant=scope.tenant,
        name=name,
        schedule_id=str(uuid.uuid4()),
        workflow_id=wanted.workflow_id,
        cron=wanted.timing.cron,
        every_seconds=wanted.timing.every_seconds,
        time_zone=wanted.timing.time_zone,
        anchored_at=now,
        inputs=wanted.inputs,
        overlap=wanted.overlap,
        catch_up=wanted.catch_up,
        source=source,
        created_at=now,
        created_by=scope.actor,
        changed_at=now,
        changed_by=scope.actor,
        now=now,
    )
    return row._replace(next_at=row.next_tick(now))


def changed(row: ScheduleRow, wanted: Wanted, now: datetime) -> ScheduleRow:
    """The schedule as it is wanted from now on. A paused one stays paused. Times that stay keep their next tick."""
    after = row._replace(
        workflow_id=wanted.workflow_id,
        cron=wanted.timing.cron,
        every_seconds=wanted.timing.every_seconds,
        time_zone=wanted.timing.time_zone,
        inputs=wanted.inputs,
        overlap=wanted.overlap,
        catch_up=wanted.catch_up,
        problem=None,
    )
    if after.timing != row.timing:
        after = after._replace(anchored_at=now)
        after = after._replace(next_at=after.next_tick(now) if row.paused_at is None else None)
    return after


def paused(row: ScheduleRow, now: datetime, actor: str, reason: str | None) -> ScheduleRow:
    return row._replace(next_at=None, paused_at=now, paused_by=actor, pause_reason=reason)


def unpaused(row: ScheduleRow, now: datetime) -> ScheduleRow:
    return row._replace(paused_at=None, paused_by=None, pause_reason=None, next_at=row.next_tick(now))
