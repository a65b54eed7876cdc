"""Reading server-sent events in tests, and a listener that comes again whenever its stream breaks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import httpx2

from tests.service.serving import API


class Message(NamedTuple):
    """One block of a stream. An event of a job has no name."""

    event: str
    id: str | None
    data: Any


async def messages(answer: httpx2.Response) -> AsyncIterator[Message]:
    """The blocks of a stream that are more than a comment."""
    event, place, data = "", None, None
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        match name:
            case "event":
                event = value
            case "id":
                place = value
            case "data":
                data = json.loads(value)
            case "" if line == "" and (event or place is not None):
                yield Message(event, place, data)
                event, place, data = "", None, None


@asynccontextmanager
async def stream(
    client: httpx2.AsyncClient, path: str, *, last: str | None = None, **params: Any
) -> AsyncIterator[AsyncIterator[Message]]:
    headers = {"Last-Event-ID": last} if last is not None else {}
    async with client.stream("GET", f"{API}/{path}", params=params, headers=headers) as answer:
        if answer.status_code != 200:
            await answer.aread()
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield messages(answer)


async def first_place(found: AsyncIterator[Message]) -> str:
    """Until a stream of the tenant has joined: what is committed from now on comes."""
    async for one in found:
        assert one == Message("", one.id, None)
        assert one.id is not None
        return one.id
    raise AssertionError("the stream ended at once")


class Follower:
    """Follows a stream whatever happens to it, as a browser does, and notes each event that it gets."""

    def __init__(self, url: Callable[[], str], key: str, path: str, place: str | None = None) -> None:
        self._url, self._key, self._path = url, key, path
        self.place = place
        self.seen: Counter[tuple[str, int]] = Counter()
        self.order: dict[str, list[int]] = {}
        self.others: Counter[str] = Counter()
        """The messages that were no events, by name."""
        self.is_over = False

    async def follow(self) -> None:
        """Until the stream says `end`; without an end for a tenant."""
        while not self.is_over:
            with suppress(httpx2.HTTPError):
                await self._once()
            await asyncio.sleep(0.02)

    async def _once(self) -> None:
        headers = {"Authorization": f"Bearer {self._key}"}
        headers |= {"Last-Event-ID": self.place} if self.place is not None else {}
        async with (
            httpx2.AsyncClient(base_url=self._url(), headers=headers, timeout=30) as client,
            client.stream("GET", f"{API}/{self._path}") as answer,
        ):
            if answer.status_code != 200:
                assert answer.status_code == 503, await answer.aread()
                return
            async for one in messages(answer):
                if one.data is not None and not one.event:
                    job, seq = one.data["job_id"], one.data["seq"]
                    self.seen[job, seq] += 1
                    self.order.setdefault(job, []).append(seq)
                elif one.event:
                    self.others[one.event] += 1
                    self.is_over = one.event == "end"
                if one.id is not None:
                    self.place = one.id
