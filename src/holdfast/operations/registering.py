"""Registering a definition, with the schedule that its file has."""

from __future__ import annotations

from datetime import datetime

from holdfast.define.definition import Definition
from holdfast.errors import Refused
from holdfast.operations.ports import OperationsStore
from holdfast.operations.schedules import changed, new_row, paused, refuse_more, unpaused
from holdfast.operations.scope import Scope
from holdfast.operations.tenants import refuse_other_queues
from holdfast.remedies import Remedy
from holdfast.store.schedule_rows import FILE, LEFT_FILE, PERSON, ScheduleRow, Wanted
from holdfast.views.overview import Registration
from holdfast.views.schedules import applied_view

LEFT = "the file of the workflow no longer has `schedule`"


async def register(scope: Scope, store: OperationsStore, definition: Definition) -> Registration:
    """Make a definition the one that a submission by its id takes, without a job.

    The schedule of its file is made, changed or paused in the same transaction. A definition that was read from a
    database is no file, and leaves the schedule as it is.
    """
    await refuse_other_queues(store, scope.tenant, definition)
    applied = _Applied(scope, definition) if definition.document is not None else None
    done = await store.register(scope.tenant, definition, scope.actor, scope.origin, applied)
    return Registration(
        definition.workflow_id,
        definition.version,
        definition.hash(),
        done.registered_at,
        "registered" if done.is_new else "already_current",
        applied_view(applied.before, done.schedule) if applied is not None else None,
    )


class _Applied:
    """What a file makes of the schedule with the id of its workflow as name."""

    def __init__(self, scope: Scope, definition: Definition) -> None:
        self._scope, self._name, self._file = scope, definition.workflow_id, definition.schedule
        self.before: ScheduleRow | None = None

    def __call__(self, known: ScheduleRow | None, number: int, now: datetime) -> ScheduleRow | None:
        self.before = known
        if self._file is None:
            return self._left(known, now)
        one = self._file
        wanted = Wanted(self._name, one.timing, one.inputs, one.overlap, one.catch_up)
        if known is None:
            refuse_more(self._scope.tenant, number)
            return new_row(self._scope, self._name, wanted, FILE, now)
        if known.source == PERSON:
            raise Refused(
                f"Workflow {self._name} was not registered: a person keeps the schedule '{self._name}',"
                " and the file has one, too.",
                remedy=Remedy(
                    "Leave one of them out: `schedule` in the file, or", "schedules", flags=("remove", self._name)
                ),
                instance=self._name,
            )
        after = changed(known._replace(source=FILE), wanted, now)
        if known.source == LEFT_FILE and known.pause_reason == LEFT:
            after = unpaused(after, now)
        return after if after != known else known

    def _left(self, known: ScheduleRow | None, now: datetime) -> ScheduleRow | None:
        """A schedule whose key has left the file is paused, unless it is already; it says so."""
        if known is None or known.source != FILE:
            return known
        left = known._replace(source=LEFT_FILE)
        return left if known.paused_at is not None else paused(left, now, self._scope.actor, LEFT)
