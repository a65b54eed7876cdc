"""The part of `SyncClient` about what starts by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.sync_client_gates import Face
from holdfast.views.schedules import Schedule, Triggered


class SyncSchedules(Face):
    """Schedules."""

    def schedules(self) -> list[Schedule]:
        """The schedules of the tenant, by name."""
        return self._loop.run(self._client.schedules())

    def schedule(self, name: str) -> Schedule:
        """One schedule, with its next five runs."""
        return self._loop.run(self._client.schedule(name))

    def add_schedule(
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
        return self._loop.run(
            self._client.add_schedule(
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
        )

    def remove_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Remove a schedule; returns it as it was. Its jobs stay."""
        return self._loop.run(self._client.remove_schedule(name, reason=reason))

    def pause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Let a schedule tick no more until it is unpaused. Ticks of that time are not caught up."""
        return self._loop.run(self._client.pause_schedule(name, reason=reason))

    def unpause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        """Let a paused schedule tick again, from its next time on."""
        return self._loop.run(self._client.unpause_schedule(name, reason=reason))

    def trigger_schedule(self, name: str, *, reason: str = "") -> Triggered:
        """Let a schedule tick now, paused or not. While the job before it has not ended, its overlap decides."""
        return self._loop.run(self._client.trigger_schedule(name, reason=reason))
