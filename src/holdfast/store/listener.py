"""Wake-ups: one connection that listens, and the events that it sets. A lost one is covered by polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import psycopg

from holdfast.errors import Unreachable
from holdfast.store.connection import connect

SIGNAL = "holdfast_signal"
TASK = "holdfast_task"


class Listener:
    """Sets each channel's events when something was announced on it."""

    def __init__(self, url: str, channels: dict[str, Sequence[asyncio.Event]]) -> None:
        self._url = url
        self._channels = channels
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._listen(), name="holdfast listener")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(psycopg.OperationalError, Unreachable):
                async with await connect(self._url, "holdfast listener") as connection:
                    for channel in self._channels:
                        await connection.execute(f"listen {channel}".encode())
                    # What was announced before we listened: look once.
                    self._wake_all()
                    async for notify in connection.notifies():
                        for event in self._channels[notify.channel]:
                            event.set()
            self._wake_all()
            await asyncio.sleep(1.0)

    def _wake_all(self) -> None:
        for events in self._channels.values():
            for event in events:
                event.set()
