"""The server of the application: listens, answers, and ends in order. It knows no signals; its process does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from holdfast.errors import Unusable
from holdfast.service.protocol import HEADER_BYTES, guarded_by
from holdfast.service.state import ServiceState

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75
SPARE_FILES = 256
"""Open files beside the connections: to the database, of uploads and of the log."""
START_SECONDS = 10.0
STALLED_MILLISECONDS = 60_000
YOUNG_OBJECTS = 10_000
"""How many new objects the process may have before it looks for garbage: more than a batch of submissions makes."""


class _Server(uvicorn.Server):
    """Leaves signals to the process, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """An application on a port, from `start` to `stop`."""

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        *,
        connections: int,
        grace_seconds: float,
        root_path: str = "",
        trusted_proxies: tuple[str, ...] = (),
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_stop` is called when the end begins: requests that have no end of their own must end now."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=True,
            backlog=BACKLOG,
            http=guarded_by(connections),
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
            h11_max_incomplete_event_size=HEADER_BYTES,
            root_path=root_path,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
        )
        self._server = _Server(config)
        self._connections = connections
        self._socket = _listening(host, port)
        self._running: asyncio.Task[None] | None = None
        self.host = host
        self.app = app
        self._on_stop = on_stop

    @property
    def has_ui(self) -> bool:
        """Whether it serves the web UI: the package may have been made without it."""
        state: ServiceState = self.app.state.service
        return state.ui.is_there

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        # Below that it writes a line for every request that is not HTTP.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        _allow_files(self._connections + SPARE_FILES)
        _tune_garbage_collection()
        self._running = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="holdfast api")
        async with asyncio.timeout(START_SECONDS):
            await self._server.is_listening.wait()

    async def wait(self) -> None:
        """Until the server ends: because it was asked to, or by our bug."""
        assert self._running is not None
        await asyncio.shield(self._running)

    def request_stop(self) -> None:
        """Take no more connections, and end when the running requests have ended."""
        self._server.should_exit = True
        self._on_stop()

    async def stop(self) -> None:
        self.request_stop()
        if self._running is not None:
            await self._running
        self._socket.close()

    async def __aenter__(self) -> WebServer:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


def _allow_files(number: int) -> None:
    """Let this process open so many files, as far as it may. With fewer it could not accept all its connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _tune_garbage_collection() -> None:
    """The application lives for ever. Looking for garbage in all of it takes 90 ms, and holds up every request."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                # Connections inherit it: one whose other side takes nothing is ended, and frees what waits for it.
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MILLISECONDS)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise Unusable(
            f"The service cannot listen on {host}:{port}: {error.strerror or error}.",
            remedy="Choose another port with --port, or any free one with --port 0.",
        ) from None
    listening.setblocking(False)
    return listening
