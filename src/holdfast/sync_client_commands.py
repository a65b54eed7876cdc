"""The part of `SyncClient` that calls direct commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.sync_client_gates import Face
from holdfast.views.commands import DirectCommand


class SyncCommands(Face):
    """Operations of apps that run at once."""

    def commands(self) -> list[DirectCommand]:
        """The direct commands that installed packages bring, by name, with what they take and answer."""
        return self._loop.run(self._client.commands())

    def run_command(self, name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a direct command with this input, and return what it answers.

        It runs once, in this process or in that of the service, and is never queued or tried again.
        """
        return self._loop.run(self._client.run_command(name, given))
