"""Requests byte by byte, over a socket of their own, to a server with limits of the test's choice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from holdfast.service.app import build_app
from holdfast.service.identity.door import Door
from holdfast.service.server import WebServer
from holdfast.service.state import ServiceState
from holdfast.store.postgres import PostgresStore
from tests.service.serving import Service, service_of

PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def serving_raw(url: str, *, connections: int = 100, **state: Any) -> AsyncIterator[Service]:
    """The service with these limits."""
    store = PostgresStore(url, "holdfast api")
    app = build_app(ServiceState(store, Door(store), **state))
    server = WebServer(app, "127.0.0.1", 0, connections=connections, grace_seconds=1.0)
    async with service_of(server, store) as service:
        yield service


@dataclass
class Answer:
    """What came back until the server closed the connection, or until the answer was whole."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def code(self) -> str:
        """The code of a problem; fails if this is none."""
        assert self.headers["content-type"] == "application/problem+json", self
        return str(json.loads(self.body)["code"])


CUT = Answer(0)
"""The server has closed the connection without an answer."""


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, has_body: bool = True) -> Answer:
        """The next answer."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = await self.reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:])
                    if name
                }
                length = int(headers.get("content-length", "0")) if has_body else 0
                return Answer(int(lines[0].split()[1]), headers, await self.reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return CUT

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def wire(url: str, **options: Any) -> AsyncIterator[Wire]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, **options)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


async def ask(url: str, data: bytes, *, has_body: bool = True) -> Answer:
    """Send these bytes on a new connection, and return the first answer."""
    async with wire(url) as line:
        try:
            await line.send(data)
        except ConnectionError:
            return CUT
        return await line.answer(has_body=has_body)


def request(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of a request; nothing in it is checked."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers]
    if body and not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
