"""A receiver of webhooks on a socket of its own, which can fail in every way that a real one can."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson


class Request(NamedTuple):
    """What has come in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = orjson.loads(self.body)
        return content


class Receiver:
    """Records each request, and then behaves as `mode` says: a status, or one of the names below."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.mode: str | int | Callable[[Request], str | int] = 200
        self.headers: dict[str, str] = {}
        self.port = 0
        self.sent_bytes = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await _read(reader)
            self.requests.append(request)
            mode = self.mode(request) if callable(self.mode) else self.mode
            await self._answer(mode, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, mode: str | int, writer: asyncio.StreamWriter) -> None:
        match mode:
            case "hangs":
                await asyncio.Event().wait()
            case "closes":
                return
            case "dribbles":
                # A header that never ends, one byte at a time.
                writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            case "hangs in the body":
                writer.write(b"HTTP/1.1 500 Broken\r\ncontent-length: 10\r\n\r\nhalf")
                await writer.drain()
                await asyncio.Event().wait()
            case "closes after the headers":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
                await writer.drain()
            case "sends gigabytes":
                writer.write(b"HTTP/1.1 500 Broken\r\ncontent-length: 4000000000\r\n\r\n")
                while True:
                    writer.write(b"y" * 65_536)
                    await writer.drain()
                    self.sent_bytes += 65_536
            case "talks nonsense":
                writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
                await writer.drain()
            case status:
                head = [
                    f"HTTP/1.1 {status} Answer",
                    "content-length: 5",
                    *(f"{k}: {v}" for k, v in self.headers.items()),
                ]
                writer.write("\r\n".join(head).encode() + b"\r\n\r\nwell?")
                await writer.drain()

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Request(head[0].split(" ")[1], headers, await reader.readexactly(int(headers["content-length"])))


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)
