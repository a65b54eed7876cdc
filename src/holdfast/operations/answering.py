"""Waiting for the answers of owners: all who wait in one process share one reader of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from holdfast.operations.ports import OperationsStore

LOOK_SECONDS = 0.05

Waiting = asyncio.Future[None]


async def is_answered(store: OperationsStore, signal_id: int, seconds: float | None) -> bool:
    """Whether the owner answers a signal within that time; None: however long it takes."""
    return await _readers.setdefault(store, _Reader()).wait(store, signal_id, seconds)


class _Reader:
    """Reads the answers to all signals for which a caller waits, with one statement; without a caller it rests.

    It knows the store only while it reads, so that a store that is not used any more can go.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[Waiting]] = {}
        self._running: asyncio.Task[None] | None = None

    async def wait(self, store: OperationsStore, signal_id: int, seconds: float | None) -> bool:
        answered: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(signal_id, []).append(answered)
        if self._running is None:
            self._running = asyncio.create_task(self._read(store), name="holdfast answers")
        try:
            async with asyncio.timeout(seconds):
                await answered
        except TimeoutError:
            return False
        finally:
            self._forget(signal_id, answered)
        return True

    async def _read(self, store: OperationsStore) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(LOOK_SECONDS)
                for signal_id in await store.answers(list(self._waiting)):
                    _finish(self._waiting.pop(signal_id, ()))
        except Exception as problem:
            # Each who waits gets it: what it means is for them to say.
            for waiting in self._waiting.values():
                _finish(waiting, problem)
            self._waiting.clear()
        finally:
            self._running = None

    def _forget(self, signal_id: int, answered: Waiting) -> None:
        left = [one for one in self._waiting.get(signal_id, ()) if one is not answered]
        if left:
            self._waiting[signal_id] = left
        else:
            self._waiting.pop(signal_id, None)


def _finish(waiting: Iterable[Waiting], problem: Exception | None = None) -> None:
    for one in waiting:
        if one.done():
            continue
        if problem is None:
            one.set_result(None)
        else:
            one.set_exception(problem)


_readers: WeakKeyDictionary[OperationsStore, _Reader] = WeakKeyDictionary()
