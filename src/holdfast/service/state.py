"""What all requests of one process share: the store, the settings, and the door that lets requests in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.operations.identity import Identity
from holdfast.operations.ports import Installation, OperationsStore
from holdfast.service.identity.door import Door
from holdfast.service.live import Live

if TYPE_CHECKING:
    from holdfast.service.identity.code_flow import CodeFlow


@dataclass
class ServiceState:
    """One process of the service."""

    store: OperationsStore
    door: Door
    body_limit_bytes: int = 8 << 20
    body_seconds: float = 30.0
    allow_bootstrap: bool = False
    open_installation: Callable[[], AbstractAsyncContextManager[Installation]] | None = None
    """Opens the database itself, for those who set it up."""
    code_flow: CodeFlow | None = field(default=None)
    """Signs browsers in at an identity provider, if there is one."""

    @cached_property
    def live(self) -> Live:
        """The streams of this process."""
        return Live(self.store)

    async def is_still_valid(self, identity: Identity) -> bool:
        """Whether the credential of a request that is still open holds. Cheap: ask each few seconds."""
        return await self.door.is_still_valid(identity)

    def forget_identities(self) -> None:
        """Read every identity again."""
        self.door.forget()
