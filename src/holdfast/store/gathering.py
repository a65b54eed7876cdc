"""Submissions that arrive at the same time share a transaction: one commit makes all of them durable.

While one transaction is under way the next submissions gather, so no submission waits for the sake of others. Each is
answered after the commit that has it. An error of one is no error of the others: then each goes alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from holdfast.errors import BacklogFull, LostRace, Unreachable
from holdfast.store.records import NewJob, SubmitAnswer

MOST = 100
"""How many submissions share a transaction at most."""
Answers = list[SubmitAnswer | BacklogFull]


class _Waiting(NamedTuple):
    jobs: Sequence[NewJob]
    answers: asyncio.Future[Answers]


class SharedCommits:
    """Brings submissions together. Safe within one event loop."""

    def __init__(self, submit: Callable[[Sequence[NewJob]], Awaitable[Answers]]) -> None:
        self._submit = submit
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, jobs: Sequence[NewJob]) -> Answers:
        """The same as the store's own, in a transaction with what others submit now."""
        if len(jobs) >= MOST:
            return await self._submit(jobs)
        answers: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(jobs, answers))
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="holdfast submissions")
        return await answers

    async def close(self) -> None:
        """When what has been submitted is answered."""
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        try:
            while self._waiting:
                # Once through the loop: what is ready to be submitted comes, too.
                await asyncio.sleep(0)
                await self._settle(self._next())
        finally:
            self._running = None
            for left in self._waiting:
                left.answers.cancel()
            self._waiting.clear()

    def _next(self) -> list[_Waiting]:
        group = [self._waiting.popleft()]
        size = len(group[0].jobs)
        while self._waiting and size + len(self._waiting[0].jobs) <= MOST:
            group.append(self._waiting.popleft())
            size += len(group[-1].jobs)
        return group

    async def _settle(self, group: list[_Waiting]) -> None:
        try:
            answers = await self._submit([job for one in group for job in one.jobs])
        except (Unreachable, LostRace) as error:
            # It is not known which of them were made; or none was, and each has to be made again.
            for one in group:
                _fail(one, error)
        except Exception as error:
            if len(group) == 1:
                _fail(group[0], error)
                return
            # Nothing of it was committed.
            for one in group:
                await self._settle([one])
        else:
            for one in group:
                if not one.answers.done():
                    one.answers.set_result(answers[: len(one.jobs)])
                answers = answers[len(one.jobs) :]


def _fail(one: _Waiting, error: Exception) -> None:
    if not one.answers.done():
        one.answers.set_exception(error)
