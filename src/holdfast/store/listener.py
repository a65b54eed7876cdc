"""Wake-ups: one connection that listens, and whom it tells. A lost one is covered by polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psycopg

from holdfast.errors import Unreachable
from holdfast.store.connection import connect

SIGNAL = "holdfast_signal"
"""Signals have come. The payload: the owners that they wait for, separated by commas; nothing: any of them."""
TASK = "holdfast_task"
"""Work has come."""


class Listener:
    """Tells each channel's listener what was announced on it; an empty payload means: look at everything."""

    def __init__(self, url: str, channels: dict[str, Callable[[str], None]]) -> None:
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
            # Whatever it is, also a standby that refuses LISTEN: polling goes on, and we try again.
            with contextlib.suppress(psycopg.Error, Unreachable):
                async with await connect(self._url, "holdfast listener") as connection:
                    for channel in self._channels:
                        await connection.execute(f"listen {channel}".encode())
                    # What was announced before we listened: look once.
                    self._tell_all()
                    async for notify in connection.notifies():
                        self._channels[notify.channel](notify.payload)
            self._tell_all()
            await asyncio.sleep(1.0)

    def _tell_all(self) -> None:
        for notify in self._channels.values():
            notify("")
