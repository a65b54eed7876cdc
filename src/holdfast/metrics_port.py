"""A port of its own for metrics and health checks, in processes without the HTTP service. Needs no web server.

It asks for no credential: by default only this machine reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus

from holdfast.errors import Unusable
from holdfast.log_events import EventLog
from holdfast.operations.metrics import MEDIA_TYPE, MetricsPage

HEADER_BYTES = 8192
REQUEST_SECONDS = 5.0
CONNECTIONS = 32
PLAIN = "text/plain; charset=utf-8"
Answer = tuple[HTTPStatus, str, bytes]

log = EventLog("holdfast.metrics")


class MetricsPort:
    """Answers `GET /metrics`, `/livez` and `/readyz`, each on a connection of its own."""

    def __init__(self, page: MetricsPage, host: str, port: int, is_ready: Callable[[], bool]) -> None:
        """`is_ready`: whether the services of the process have begun their work."""
        self._page = page
        self._host, self._port = host, port
        self._is_ready = is_ready
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://[{self._host}]:{port}" if ":" in self._host else f"http://{self._host}:{port}"

    async def __aenter__(self) -> MetricsPort:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=HEADER_BYTES)
        except OSError as error:
            raise Unusable(
                f"The metrics cannot be served on {self._host}:{self._port}: {error.strerror or error}.",
                remedy="Choose another port with --metrics-port, or any free one with --metrics-port 0.",
            ) from None
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._open):
            connection.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            writer.close()
            return
        connection = asyncio.create_task(self._serve(reader, writer), name="holdfast metrics")
        self._open.add(connection)
        connection.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request. What is no request, or does not come or go in time, ends the connection."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
            status, kind, body = await self._answer_or_say_why(method, rest.partition(" ")[0].partition("?")[0])
            lines = [
                f"HTTP/1.1 {status.value} {status.phrase}",
                f"Content-Type: {kind}",
                f"Content-Length: {len(body)}",
                "Cache-Control: no-store",
                "X-Content-Type-Options: nosniff",
                *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
                "Connection: close",
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
            async with asyncio.timeout(REQUEST_SECONDS):
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_or_say_why(self, method: str, path: str) -> Answer:
        try:
            return await self._answer(method, path)
        except Exception as error:
            log.write("metrics_failed", error=error, path=path)
            return HTTPStatus.INTERNAL_SERVER_ERROR, PLAIN, b"The figures of the database cannot be read.\n"

    async def _answer(self, method: str, path: str) -> Answer:
        if path not in ("/metrics", "/livez", "/readyz"):
            return HTTPStatus.NOT_FOUND, PLAIN, b"Here are /metrics, /livez and /readyz.\n"
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, b"Only GET and HEAD are allowed here.\n"
        if path == "/metrics":
            return HTTPStatus.OK, MEDIA_TYPE, await self._page.whole()
        if path == "/livez":
            return HTTPStatus.OK, PLAIN, b"alive\n"
        if not self._is_ready():
            return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"The services have not begun their work.\n"
        if not await self._page.is_database_up():
            return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"The database does not answer.\n"
        return HTTPStatus.OK, PLAIN, b"ready\n"
