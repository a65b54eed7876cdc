"""Waiting for the answers of owners: all who wait in one process share one reader of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from holdfast.operations.ports import OperationsStore

LOOK_SECONDS = 0.05

Waiting = asyncio.Future[bool]


async def is_answered(store: OperationsStore, signal_id: int, seconds: float | None) -> bool:
    """Whether the owner answers a signal within that time; None: however long it takes."""
    return await _readers.setdefault(store, _Reader()).wait(store, signal_id, seconds)


def end_waiting(store: OperationsStore) -> None:
    """Let all who wait answer now, also those who come later: their process ends."""
    _readers.setdefault(store, _Reader()).end()


def is_ending(store: OperationsStore) -> bool:
    """Whether the process ends: then no request waits any longer."""
    return store in _readers and _readers[store].is_ending


class _Reader:
    """Reads the answers to all signals for which a caller waits, with one statement; without a caller it rests.

    It knows the store only while it reads, so that a store that is not used any more can go.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[Waiting]] = {}
        self._running: asyncio.Task[None] | None = None
        self.is_ending = False

    def end(self) -> None:
        self.is_ending = True
        for waiting in self._waiting.values():
            _finish(waiting, is_answered=False)

    async def wait(self, store: OperationsStore, signal_id: int, seconds: float | None) -> bool:
        if self.is_ending:
            return False
        answered: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(signal_id, []).append(answered)
        if self._running is None:
            self._running = asyncio.create_task(self._read(store), name="holdfast answers")
        try:
            async with asyncio.timeout(seconds):
                return await answered
        except TimeoutError:
            return False
        finally:
            self._forget(signal_id, answered)

    async def _read(self, store: OperationsStore) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(LOOK_SECONDS)
                for signal_id in await store.answers(list(self._waiting)):
                    _finish(self._waiting.pop(signal_id, ()))
        except Exception as problem:
            # Each who waits gets it: what it means is for them to say.
            for waiting in self._waiting.values():
                _finish(waiting, problem=problem)
            self._waiting.clear()
        finally:
            self._running = None

    def _forget(self, signal_id: int, answered: Waiting) -> None:
        left = [one for one in self._waiting.get(signal_id, ()) if one is not answered]
        if left:
            self._waiting[signal_id] = left
        else:
            self._waiting.pop(signal_id, None)


def _finish(waiting: Iterable[Waiting], *, is_answered: bool = True, problem: Exception | None = None) -> None:
    for one in waiting:
        if one.done():
            continue
        if problem is None:
            one.set_result(is_answered)
        else:
            one.set_exception(problem)


_readers: WeakKeyDictionary[OperationsStore, _Reader] = WeakKeyDictionary()
