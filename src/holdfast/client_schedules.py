"""The part of `Client` about what starts by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.client_gates import Bound
from holdfast.operations import schedules
from holdfast.views.schedules import Schedule, Triggered


class Schedules(Bound):
    """Schedules."""

    async def schedules(self) -> list[Schedule]:
        """The schedules of the tenant, by name."""
        return await schedules.schedules(self._scope, self._store)

    async def schedule(self, name: str) -> Schedule:
        """One schedule, with its next five runs."""
        return await schedules.schedule(self._scope, self._store, name)

    async def add_schedule(
        self,
        name: str,
        workflow_id: str,
        *,
        cron: str | None = None,
        every_seconds: int | None = None,
        time_zone: str = "UTC",
        inputs: Mapping[str, Any] | None = None,
        overlap: str = "skip",
        catch_up: str = "last",
        replace: bool = False,
        reason: str = "",
    ) -> Schedule:
        """Submit the current version of a workflow by the clock: by a cron expression, or every so many seconds.

        `overlap` is what a tick does while the job before it has not ended: `skip`, `queue` or `replace`. `catch_up` is
        which ticks count of those that were missed: `none`, `last` or `all`. With `replace` a schedule is changed.
        """
        return await schedules.add_schedule(
            self._scope,
            self._store,
            name,
            workflow_id,
            cron=cron,
            every_seconds=every_seconds,
            time_zone=time_zone,
            inputs=inputs,
            overlap=overlap,
            catch_up=catch_up,
            replace=replace,
            reason=reason,
        )

    async def remove_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Remove a schedule; returns it as it was. Its jobs stay."""
        return await schedules.remove_schedule(self._scope, self._store, name, reason=reason)

    async def pause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Let a schedule tick no more until it is unpaused. Ticks of that time are not caught up."""
        return await schedules.pause_schedule(self._scope, self._store, name, reason=reason)

    async def unpause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Let a paused schedule tick again, from its next time on."""
        return await schedules.unpause_schedule(self._scope, self._store, name, reason=reason)

    async def trigger_schedule(self, name: str, *, reason: str = "") -> Triggered:
        """Let a schedule tick now, paused or not. While the job before it has not ended, its overlap decides."""
        return await schedules.trigger_schedule(self._scope, self._store, name, reason=reason)
