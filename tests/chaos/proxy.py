"""A TCP proxy in front of Postgres that cuts connections, delays bytes or drops them, separately in each direction."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from psycopg.conninfo import conninfo_to_dict

Direction = Literal["to_server", "to_client"]
BOTH: tuple[Direction, ...] = ("to_server", "to_client")
CHUNK_BYTES = 65536
_PREPARED_COMMIT = re.compile(rb"P.{4}(\w+)\0commit\0", re.S)
_COMMIT_DONE = b"COMMIT\0"


def port_of(url: str) -> int:
    port = conninfo_to_dict(url)["port"]
    assert port is not None
    return int(port)


class Proxy:
    """Listens on its own port. The fault that it injects may change at any time."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._pipes: set[_Pipe] = set()
        self.flows = {direction: asyncio.Event() for direction in BOTH}
        self.swallowed: set[Direction] = set()
        self.cut_at: Direction | None = None
        self.was_cut = asyncio.Event()
        self.refuses = False
        for flow in self.flows.values():
            flow.set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        self.heal()

    def cut(self) -> None:
        """Reset every connection."""
        for pipe in list(self._pipes):
            pipe.cut()

    def refuse(self) -> None:
        """Reset every connection and refuse new ones until `heal`, like a server that is down."""
        self.refuses = True
        self.cut()

    def hold(self, *directions: Direction) -> None:
        """Delay all bytes in these directions until `heal`, like a stalled network."""
        for direction in directions:
            self.flows[direction].clear()

    def swallow(self, *directions: Direction) -> None:
        """Drop all bytes in these directions. A connection that has lost bytes stays silent forever."""
        self.swallowed.update(directions)

    def cut_at_commit(self, direction: Direction) -> None:
        """Reset the next connection that commits: before the server gets the commit, or the client the answer."""
        self.cut_at = direction

    def heal(self) -> None:
        """Let all bytes through again, on connections that have lost none."""
        self.refuses = False
        self.swallowed.clear()
        for flow in self.flows.values():
            flow.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.refuses:
                raise ConnectionRefusedError
            server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        pipe = _Pipe(self, (reader, writer), server)
        self._pipes.add(pipe)
        try:
            await pipe.run()
        finally:
            self._pipes.discard(pipe)


class _Pipe:
    """One connection, in both directions."""

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._commit: bytes | None = None
        self._silent: set[Direction] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        self._tasks = [
            asyncio.create_task(self._pump("to_server", self._client[0], self._server[1], self._asks_to_commit)),
            asyncio.create_task(self._pump("to_client", self._server[0], self._client[1], self._has_committed)),
        ]
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.cut()

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()
        for _, writer in (self._client, self._server):
            # A reset instead of an orderly close: bytes that are still on their way do not arrive.
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _pump(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_commit: Callable[[bytes], bool],
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                commits = is_commit(chunk)
                if commits and self._proxy.cut_at == direction:
                    self._proxy.cut_at = None
                    self._proxy.was_cut.set()
                    return
                await self._proxy.flows[direction].wait()
                if direction in self._proxy.swallowed:
                    self._silent.add(direction)
                if direction not in self._silent:
                    writer.write(chunk)
                    await writer.drain()

    def _asks_to_commit(self, chunk: bytes) -> bool:
        """Whether the chunk has a commit. The client prepares the statement once, and later sends only its name."""
        if prepared := _PREPARED_COMMIT.search(chunk):
            self._commit = prepared[1]
        return self._commit is not None and b"\0" + self._commit + b"\0" in chunk

    def _has_committed(self, chunk: bytes) -> bool:
        return _COMMIT_DONE in chunk
