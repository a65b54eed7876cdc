"""What operations on schedules need from a store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from holdfast.schedules.ports import TickStore
from holdfast.store.audit_rows import Origin
from holdfast.store.schedule_rows import ScheduleRow


class ScheduleStore(TickStore, Protocol):
    """The schedules of tenants, as people see and change them."""

    async def of_tenant(self, tenant: str) -> list[ScheduleRow]:
        """The schedules of a tenant, by name."""
        ...

    async def find(self, tenant: str, name: str) -> ScheduleRow | None: ...

    async def change(
        self,
        tenant: str,
        name: str,
        action: str,
        decide: Callable[[ScheduleRow | None, int, datetime], ScheduleRow | None],
        actor: str,
        reason: str = "",
    ) -> ScheduleRow | None:
        """Change a schedule under its lock; None: there is none any more.

        `decide` gets the schedule as it is, the number of those of its tenant, and the time. It may raise to change
        nothing.
        """
        ...


class HasSchedules(Protocol):
    """The part of a store that has schedules."""

    def schedules(self, origin: Origin = ...) -> ScheduleStore: ...
