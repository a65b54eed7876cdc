"""What all requests of one process share: the store, the settings, and the identities that it has seen lately."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from holdfast.errors import Unauthenticated, Unreachable
from holdfast.operations import keys
from holdfast.operations.identity import Identity
from holdfast.operations.ports import Installation, OperationsStore

REMEMBERED_SECONDS = 4.0
"""How long an identity is not read again: a key that is revoked ends within five seconds."""
MOST_REMEMBERED = 10_000


BODIES_BYTES = 128 << 20
"""How much memory the bodies of all requests together may take."""


class TooManyBodies(Unreachable):
    code = "TOO_MANY_BODIES"
    title = "The service reads as many large bodies as it can hold"


@dataclass
class ServiceState:
    """One process of the service."""

    store: OperationsStore
    public_url: str | None = None
    body_limit_bytes: int = 8 << 20
    body_seconds: float = 30.0
    bodies_bytes: int = BODIES_BYTES
    allow_bootstrap: bool = False
    open_installation: Callable[[], AbstractAsyncContextManager[Installation]] | None = None
    """Opens the database itself, for those who set it up."""
    _held_bytes: int = 0
    _known: dict[str, tuple[float, Identity]] = field(default_factory=dict)

    async def identity_of(self, authorization: str | None) -> Identity:
        """Whose credential this is. One that is not valid is refused, whatever is wrong with it."""
        scheme, _, key = (authorization or "").partition(" ")
        if not authorization:
            raise Unauthenticated(
                "This needs a credential.",
                remedy="Send `Authorization: Bearer KEY`; make a key with: holdfast keys add",
            )
        if scheme.lower() != "bearer":
            raise Unauthenticated("The credential is not a bearer token.", remedy="Send `Authorization: Bearer KEY`.")
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        found = await keys.identity_of_key(self.store, key.strip())
        if found is None:
            self._known.pop(key, None)
            raise Unauthenticated("The credential is not valid.", remedy="Make a key with: holdfast keys add")
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = (time.monotonic() + REMEMBERED_SECONDS, found)
        return found

    def hold(self, number: int) -> None:
        """Take memory for a part of a body, until the request releases it."""
        if self._held_bytes + number > max(self.bodies_bytes, self.body_limit_bytes):
            raise TooManyBodies("Other requests bring large bodies now.", remedy="Send the same request again.")
        self._held_bytes += number

    def release(self, number: int) -> None:
        self._held_bytes -= number

    def forget_identities(self) -> None:
        """Read every identity again."""
        self._known.clear()
