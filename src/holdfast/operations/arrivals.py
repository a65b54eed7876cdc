"""Claims that wait until work comes. They ask the database nothing meanwhile: it announces what has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Listening(Protocol):
    """Passes the announcements of the database on."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


OpenListener = Callable[[Callable[[str], None]], Listening]
"""Makes what calls the function for every announcement of work, and once when it begins to listen."""


class Arrivals:
    """The waiting claims of one process. It listens from the first of them on."""

    def __init__(self, open_listener: OpenListener | None = None) -> None:
        """Without a listener a claim looks again when its time is over."""
        self._open_listener = open_listener
        self._listening: Listening | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Event] = set()
        self.is_over = False
        """Whether this process ends: then nothing waits any more."""

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """An event that is set when work has come, and at the end."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def listen(self) -> None:
        """Begin to listen, if that has not happened yet."""
        if self._listening is None and self._open_listener is not None and not self.is_over:
            self._listening = self._open_listener(lambda _: self._tell())
            await self._listening.start()

    def _tell(self) -> None:
        for event in self._waiting:
            event.set()

    def end(self) -> None:
        """Let every claim answer now."""
        self.is_over = True
        self._tell()
        if self._listening is not None:
            self._stopping = asyncio.create_task(self._listening.stop(), name="holdfast end of arrivals")
            self._listening = None
