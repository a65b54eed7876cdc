"""Keeps a handler's code apart from the worker's: says which attempt runs, and protects the loop from its tasks.

asyncio passes a SystemExit or a KeyboardInterrupt of any task on to the caller of the loop. That is right for a program
and wrong for a worker: a library that calls `sys.exit` inside `asyncio.gather` would end the worker and all attempts.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.worker.context import Attempt

current: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("holdfast_attempt", default=None)
"""The attempt whose handler runs here; tasks and threads that the handler starts inherit it."""


class Exited(Exception):
    """A task that a handler started called `sys.exit`, or raised KeyboardInterrupt; the cause says which."""


def contain_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on a task that a handler starts on this loop can end only itself. A second call changes nothing."""
    factory = loop.get_task_factory()
    if not isinstance(factory, _TaskFactory):
        loop.set_task_factory(_TaskFactory(factory))


class _TaskFactory:
    def __init__(self, before: Callable[..., asyncio.Future[Any]] | None) -> None:
        self._make = before or (lambda loop, work, **options: asyncio.Task(work, loop=loop, **options))

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
        return self._make(loop, _Contained(work) if current.get() is not None else work, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that cannot end the loop. No `async def`: one that never begins would cause a warning."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Exited(f"{type(error).__name__}: {error}") from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except (SystemExit, KeyboardInterrupt) as error:
            raise Exited(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        """Libraries read the state of a task's coroutine."""
        return getattr(self._work, name)
