"""The part of `Client` that calls direct commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from holdfast.client_gates import Bound
from holdfast.operations import commands
from holdfast.operations.identity import EVERY_TENANT, Identity, Role
from holdfast.views.commands import DirectCommand

if TYPE_CHECKING:
    from holdfast.client import Client


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a direct command gets beside its input."""

    client: Client
    """A client that acts for the caller, on the caller's tenant."""
    identity: Identity
    """Who calls."""

    @property
    def tenant(self) -> str:
        return self.client.scope.tenant

    @property
    def database_url(self) -> str:
        """The engine's database, for an app that keeps tables of its own in it: in another schema than the engine's."""
        return self.client.database_url


class Commands(Bound):
    """Operations of apps that run at once."""

    async def commands(self) -> list[DirectCommand]:
        """The direct commands that installed packages bring, by name, with what they take and answer."""
        return commands.commands()

    async def run_command(self, name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a direct command with this input, and return what it answers.

        It runs once, in this process or in that of the service, and is never queued or tried again.
        """
        scope = self._scope
        identity = Identity(scope.actor, EVERY_TENANT if scope.administers else scope.tenant, (Role.ADMIN,))
        context = CommandContext(cast("Client", self), identity)
        return await commands.run_command(scope, self._store, identity, name, given or {}, context)
