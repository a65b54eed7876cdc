"""An event loop on a thread of its own, for callers that have none or are inside another one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

Value = TypeVar("Value")


class PrivateLoop:
    """A private event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for a coroutine. If the wait is interrupted, for example by Ctrl-C, the coroutine is cancelled."""
        future = asyncio.run_coroutine_threadsafe(self._noted(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _noted(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Note a call while it runs."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await work
        finally:
            self._calls.discard(task)

    async def _end(self) -> None:
        """Wait for calls that were cancelled and still clean up."""
        await asyncio.gather(*(call for call in self._calls if call.cancelling()), return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def iterate(self, values: AsyncIterator[Value]) -> Iterator[Value]:
        """Each value when the caller asks for it. A caller that stops early closes the asynchronous iterator."""

        async def step() -> tuple[Value] | None:
            try:
                return (await anext(values),)
            except StopAsyncIteration:
                return None

        async def close() -> None:
            if hasattr(values, "aclose"):
                await values.aclose()

        try:
            while (found := self.run(step())) is not None:
                yield found[0]
        finally:
            # An iterator may outlive its client; then the loop has closed the inner one.
            if not self._loop.is_closed():
                self.run(close())

    def close(self) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
