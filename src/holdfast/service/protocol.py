"""HTTP on one connection, with an end to everything that a client could draw out: heads, unread bodies, unread answers.

Errors that the library would answer in plain text are problems here. It knows neither routes nor identities.
"""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import Any

import h11
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from holdfast.errors import HoldfastError, Unreachable
from holdfast.log_events import EventLog
from holdfast.service.answers import PROBLEM, RETRY_AFTER_SECONDS

HEADER_BYTES = 64 * 1024
"""How large the headers of a request may be."""
HEAD_SECONDS = 10.0
"""How long the headers of a request may take to arrive, and how long a new connection may say nothing."""
UNREAD_SECONDS = 2.0
"""How long what is left of a body is still taken after the answer. A client reads no answer while it sends."""
STALLED_SECONDS = 60.0
"""How long a client may read nothing of its answer."""

_log = EventLog("holdfast.service")


class Malformed(HoldfastError):
    code = "MALFORMED_REQUEST"
    title = "The request is not valid HTTP"
    http_status = 400


class HeadersTooLarge(HoldfastError):
    code = "HEADERS_TOO_LARGE"
    title = "The headers of the request are too large"
    http_status = 431


class TooSlow(HoldfastError):
    code = "TOO_SLOW"
    title = "The request did not arrive in time"
    http_status = 408


class Crowded(Unreachable):
    code = "TOO_MANY_CONNECTIONS"
    title = "The service has as many connections as it takes"


class GuardedProtocol(H11Protocol):
    """One connection of a server that takes at most `most_connections` of them."""

    most_connections: int

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._is_refused = False
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse()
        else:
            self._start("head", HEAD_SECONDS, self._head_is_late)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.conn.their_state is not h11.IDLE:
            self._stop("head")
        elif self.conn.trailing_data[0]:
            self._start("head", HEAD_SECONDS, self._head_is_late)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._start("unread", UNREAD_SECONDS, self.transport.close)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.SEND_BODY:
            self._stop("unread")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("stalled", STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("stalled")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            # The connection has met an error, and is about to end.
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The endpoint waits for a body that will not come.
            cycle.disconnected = True
            cycle.message_event.set()
        if len(self.conn.trailing_data[0]) > HEADER_BYTES:
            self._end_with(HeadersTooLarge(f"The headers have more than {HEADER_BYTES:,} bytes."))
        else:
            self._end_with(Malformed("This is not a request of HTTP/1.1."))

    def _head_is_late(self) -> None:
        if self.conn.trailing_data[0]:
            self._end_with(TooSlow(f"The headers did not arrive within {HEAD_SECONDS:g} s."))
        else:
            self.transport.close()

    def _refuse(self) -> None:
        """Say so at once. The answer gets lost if the connection is closed while the request arrives."""
        self._is_refused = True
        self.connections.discard(self)
        self._write(
            Crowded(f"There are {self.most_connections:,} connections.", remedy="Keep connections open, and try again.")
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._start("unread", UNREAD_SECONDS, self.transport.abort)

    def _end_with(self, problem: HoldfastError) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._write(problem)
        self.transport.close()

    def _write(self, problem: HoldfastError) -> None:
        """An answer that no endpoint gives: the connection ends with it."""
        request_id = secrets.token_hex(8)
        content = orjson.dumps(problem.to_problem() | {"request_id": request_id})
        lines = [
            f"HTTP/1.1 {problem.http_status} {HTTPStatus(problem.http_status).phrase}",
            f"Content-Type: {PROBLEM}",
            f"Content-Length: {len(content)}",
            f"X-Request-Id: {request_id}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
            *([f"Retry-After: {RETRY_AFTER_SECONDS}"] if isinstance(problem, Crowded) else []),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + content)
        _log.write("request_answered", request=request_id, status=problem.http_status)

    def _start(self, name: str, seconds: float, then: Any) -> None:
        """Start a timer, unless it runs already: data that trickles in does not put it off."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def guarded_by(most_connections: int) -> type[GuardedProtocol]:
    """The protocol of a server that takes so many connections."""
    return type("GuardedProtocol", (GuardedProtocol,), {"most_connections": most_connections})
