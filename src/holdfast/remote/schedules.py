"""The part of the client over a URL about what starts by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.remote.base import Remote, path_of, query_of
from holdfast.views.schedules import Schedule, Triggered


class RemoteSchedules(Remote):
    """Schedules."""

    async def schedules(self) -> list[Schedule]:
        return await self._list(Schedule, "/schedules")

    async def schedule(self, name: str) -> Schedule:
        return await self._get(Schedule, path_of("schedules", name))

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
        body = {
            "workflow": workflow_id,
            "cron": cron,
            "every_seconds": every_seconds,
            "time_zone": time_zone,
            "inputs": dict(inputs or {}),
            "overlap": overlap,
            "catch_up": catch_up,
            "reason": reason,
        }
        if replace:
            answer = await self._send("PUT", path_of("schedules", name), body=body, is_repeatable=True)
        else:
            answer = await self._send("POST", "/schedules", body={"name": name, **body})
        return self._read(Schedule, answer)

    async def remove_schedule(self, name: str, *, reason: str = "") -> Schedule:
        query = query_of(reason=reason or None)
        return self._read(Schedule, await self._send("DELETE", path_of("schedules", name), query=query))

    async def pause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._read(Schedule, await self._post(name, "pause", reason))

    async def unpause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._read(Schedule, await self._post(name, "unpause", reason))

    async def trigger_schedule(self, name: str, *, reason: str = "") -> Triggered:
        return self._read(Triggered, await self._post(name, "trigger", reason))

    async def _post(self, name: str, verb: str, reason: str) -> Any:
        return await self._send("POST", path_of("schedules", name, verb), body={"reason": reason})
