"""Work that keeps a processor busy: it runs beside the loop, so that the process answers others meanwhile.

One piece runs after the other, in the order in which they came: many at once would slow the process down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Beside:
    """What one process does beside its requests."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns, or raises."""
        async with self._turn:
            return await asyncio.to_thread(work)
