"""Who may read now: as many at once as the pool has connections; the others wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

READING = "reading"
"""The role of those who only look."""


class ReaderPool:
    """Lends the roles under which reads connect, each to one read at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.waiting = 0
        """How many reads wait for a connection."""
        self._idle = [f"{READING} {number}" if number else READING for number in reversed(range(size))]
        self._free = asyncio.Semaphore(size)

    @property
    def busy(self) -> int:
        return self.size - len(self._idle)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[str]:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        role = self._idle.pop()
        try:
            yield role
        finally:
            self._idle.append(role)
            self._free.release()
