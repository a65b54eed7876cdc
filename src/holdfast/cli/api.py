"""`holdfast api`, and the HTTP service of `holdfast up`: opening it, and the key of the person who starts it."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.assembly import new_web_server, process_name, serving_metrics
from holdfast.bootstrap import KEY_FILE, open_client
from holdfast.cli.problems import Interrupted
from holdfast.cli.session import Target, begin, begin_traces, draining, drive
from holdfast.cli.streams import answer_json, say
from holdfast.client import Client
from holdfast.define.named_file import shown_name
from holdfast.errors import Code, ExitCode, Refused, Unusable
from holdfast.meters import Meters
from holdfast.operations.identity import EVERY_TENANT, Role
from holdfast.operations.keys import PREFIX_LENGTH
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.service.server import WebServer

PRIVATE = 0o600
LIBRARIES = ("fastapi", "uvicorn")


def serve_api(
    *,
    host: str | None,
    port: int | None,
    allow_bootstrap: bool | None,
    metrics_port: int | None,
    as_json: bool,
    target: Target,
) -> int:
    settings = begin(
        target, is_service=True, host=host, port=port, allow_bootstrap=allow_bootstrap, metrics_port=metrics_port
    )
    begin_traces(settings)
    return drive(_serve_api(settings, as_json=as_json))


async def _serve_api(settings: Settings, *, as_json: bool) -> int:
    async with open_client(settings) as client:
        meters = Meters(Code)
        web = await open_web(client, settings, as_json=as_json, meters=meters)
        if web is None:
            raise Unusable(
                "The HTTP service needs libraries that are not installed.",
                remedy="Install them with: pip install 'holdfast[service]'",
            )
        measuring = serving_metrics(client.database_url, settings, meters)
        async with draining(web.request_stop, lambda: "") as drain, measuring as metrics, web:
            measured = f"{metrics.url}/metrics" if metrics is not None else None
            _say_ready(web, measured, as_json=as_json)
            await web.wait()
    farewell = "" if as_json else "api has stopped."
    if drain.asked_by == signal.SIGINT:
        raise Interrupted(farewell)
    if farewell:
        say(farewell)
    return ExitCode.DONE


def _say_ready(web: Web, metrics_url: str | None, *, as_json: bool) -> None:
    if as_json:
        more = {"metrics": metrics_url} if metrics_url is not None else {}
        answer_json({"service": "api", "name": process_name(), "url": web.url, "web_ui": web.ui, **more})
        return
    measured = f". Metrics are at {metrics_url}" if metrics_url is not None else ""
    say(f"api is running as {process_name()}, at {web.url}{measured}. Ctrl-C stops it.")
    if web.ui is not None:
        say(f"  → The web UI: {web.ui}")


class Web:
    """The HTTP service and the store that is its own, from `async with` to its end."""

    def __init__(self, server: WebServer, closing: AsyncExitStack, links_to: str, client: Client, key: str) -> None:
        self._server = server
        self._closing = closing
        self.ui = f"{links_to}/" if server.has_ui else None
        """Where people open the web UI; None if the package was made without it."""
        self._links_to, self._client, self._key = links_to, client, key
        self.url = server.url
        self.request_stop = server.request_stop
        self.wait = server.wait

    async def sign_in_link(self) -> str:
        """A page on which the person who starts the service signs in: once, within a minute."""
        code = await self._client.sign_in_code(self._key[: len("hf_") + PREFIX_LENGTH])
        return f"{self._links_to}/sign-in?code={code}"

    async def __aenter__(self) -> Web:
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._server.stop()
        finally:
            await self._closing.aclose()


async def open_web(client: Client, settings: Settings, *, as_json: bool, meters: Meters | None = None) -> Web | None:
    """The HTTP service, which listens but does not answer yet; None if its libraries are not installed."""
    if any(importlib.util.find_spec(name) is None for name in LIBRARIES):
        if not as_json:
            say("The HTTP service is not installed; add it with: pip install 'holdfast[service]'")
        return None
    if not _is_loopback(settings.host) and not any(key.valid for key in await _of_all(client).keys()):
        raise Refused(
            f"The HTTP service does not listen on {settings.host} while there is no key.",
            remedy="Make one with: holdfast keys add NAME --role admin --tenant '*'",
        )
    async with AsyncExitStack() as stack:
        server, store = new_web_server(client.database_url, _with_free_port(settings, as_json=as_json), meters)
        stack.push_async_callback(store.close)
        key = await _keep_key(client, settings)
        links_to = (settings.public_url or _reachable(server.url)).rstrip("/")
        return Web(server, stack.pop_all(), links_to, client, key)
    raise AssertionError


def _of_all(client: Client) -> Client:
    return client.for_tenant(EVERY_TENANT)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _with_free_port(settings: Settings, *, as_json: bool) -> Settings:
    """Any free port if the usual one is in use and no person has chosen it."""
    if "port" in settings.model_fields_set:
        return settings
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError:
            if not as_json:
                say(f"Port {settings.port} is in use; the HTTP service takes another one.")
            return settings.model_copy(update={"port": 0})
    return settings


def _reachable(url: str) -> str:
    """An address that a browser on this machine can open: a service that listens everywhere listens here, too."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


async def _keep_key(client: Client, settings: Settings) -> str:
    """A key for the person who starts the service, in a file that only they can read."""
    path = settings.home / KEY_FILE
    try:
        key = path.read_text(encoding="ascii").strip()
        if await client.knows_key(key):
            path.chmod(PRIVATE)
            return key
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    made = await _of_all(client).add_key("local administrator", roles=[Role.ADMIN])
    settings.home.mkdir(parents=True, exist_ok=True)
    _write_private(path, made.key)
    return made.key


def _write_private(path: Path, text: str) -> None:
    """At once, and never readable for others."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(PRIVATE, exist_ok=False)
        draft.write_text(f"{text}\n", encoding="ascii")
        draft.replace(path)
    except OSError as error:
        raise Unusable(f"The key file {shown_name(path)} cannot be written: {error.strerror}.") from None
