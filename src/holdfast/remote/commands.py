"""The part of the client over a URL that calls direct commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.remote.base import Remote, path_of
from holdfast.views.commands import DirectCommand


class RemoteCommands(Remote):
    """Operations of apps that run at once, in the process of the service."""

    async def commands(self) -> list[DirectCommand]:
        return await self._list(DirectCommand, "/commands")

    async def run_command(self, name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = await self._send("POST", path_of("commands", name), body=dict(given or {}))
        return answer
