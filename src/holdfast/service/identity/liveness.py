"""Whether the credentials behind open streams still hold. All that are asked for are read together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.operations.identity import Identity
from holdfast.operations.ports import OperationsStore

CHECKED_SECONDS = 2.0
"""How old an answer may be."""
ASKED_SECONDS = 60.0
"""A credential for which no stream has asked for so long is forgotten."""


class Liveness:
    """Cheap to ask, however often and for however many: one statement each two seconds at most for each new one."""

    def __init__(self, store: OperationsStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}
        self._asked_at: dict[tuple[str, str], float] = {}
        self._reading = asyncio.Lock()

    async def is_still_valid(self, identity: Identity) -> bool:
        """Whether the credential with which a request came holds now, or did two seconds ago."""
        if identity.expires_at is not None and identity.expires_at <= datetime.now(UTC):
            return False
        credential = identity.credential
        if credential[0] == "token":
            return True
        self._asked_at[credential] = self._clock()
        if not self._is_fresh(credential):
            async with self._reading:
                if not self._is_fresh(credential):
                    await self._read()
        return self._known[credential][1]

    def _is_fresh(self, credential: tuple[str, str]) -> bool:
        known = self._known.get(credential)
        return known is not None and self._clock() - known[0] < CHECKED_SECONDS

    async def _read(self) -> None:
        now = self._clock()
        for credential in [one for one, at in self._asked_at.items() if now - at > ASKED_SECONDS]:
            del self._asked_at[credential]
            self._known.pop(credential, None)
        # Those that are about to be asked for again come along.
        due = [
            one for one in self._asked_at if one not in self._known or now - self._known[one][0] > CHECKED_SECONDS / 2
        ]
        keys = [which for kind, which in due if kind == "key"]
        sessions = [which for kind, which in due if kind == "session"]
        living = await self._store.identities().living(keys, sessions)
        self._known.update({one: (now, one in living) for one in due})
