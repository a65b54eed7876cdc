"""Set-up and tear-down of one command: its settings, its database, and how Ctrl-C and SIGTERM end it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import importlib.util
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast import failpoint, tracing
from holdfast.cli.logs import configure_logging
from holdfast.cli.options import LAST
from holdfast.cli.problems import Interrupted
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.define.importing import add_to_path
from holdfast.define.named_file import shown_name
from holdfast.define.registry import Registry, discover
from holdfast.embedded.cluster import place_of_data
from holdfast.errors import Bug, ExitCode, NotFound, Unusable
from holdfast.service_address import is_service_url, refuse_service
from holdfast.settings import Settings, load_settings
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.client import Client

AT_THE_DATABASE = {"api", "bootstrap", "doctor", "migrate", "orchestrator", "prune", "run", "up"}
"""Commands that a service does not carry out."""
OF_ALL_TENANTS = {"breakers", "doctor", "janitor", "migrate", "orchestrator", "prune", "tenants", "up", "worker"}
"""Commands that take no tenant: they are about the whole database."""


@dataclass(frozen=True, slots=True)
class Target:
    """The database, or the service, and the tenant that the flags of a command name."""

    database_url: str | None = None
    """The address that --database-url or --url names."""
    tenant: str | None = None

    @property
    def url(self) -> str | None:
        """The address of the service, if it is one."""
        return self.database_url if self.database_url is not None and is_service_url(self.database_url) else None

    def command(self, text: str) -> str:
        """A command to type next. It must name again what flags have named; a URL may hold a password."""
        command = text.partition(" ")[0]
        url = " --database-url …" if self.database_url is not None else ""
        if self.url is not None:
            url = f" --url {shlex.quote(self.url)}" if command not in AT_THE_DATABASE else ""
        names_tenant = self.tenant is not None and command not in OF_ALL_TENANTS
        tenant = f" --tenant {shlex.quote(self.tenant or '')}" if names_tenant else ""
        return f"holdfast {text}{tenant}{url}"


def begin(
    target: Target = Target(),  # noqa: B008
    *,
    is_service: bool = False,
    needs_database: bool = False,
    takes_service: bool = False,
    **overrides: Any,
) -> Settings:
    """The settings of this command: its flags win over the environment and the project file. Logging follows them.

    A command that is a service itself, or `needs_database`, is refused where the settings name a service, unless it
    `takes_service`.
    """
    if not gc.isenabled():
        # What was imported stays for as long as the process.
        gc.freeze()
        gc.enable()
    database_url = target.database_url if target.url is None else None
    settings = load_settings(url=target.url, database_url=database_url, tenant=target.tenant, **overrides)
    if (is_service or needs_database) and not takes_service:
        refuse_service(settings.url)
    configure_logging(settings, is_service=is_service)
    _check_home(settings)
    failpoint.arm(settings.failpoint, settings.failpoint_once)
    return settings


def begin_traces(settings: Settings) -> None:
    """Send traces from now on, if the settings name a collector. What waits at the end of the process is sent then."""
    if settings.traces_url is None:
        return
    try:
        missing = [name for name in tracing.LIBRARIES if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError:
        missing = list(tracing.LIBRARIES)
    if missing:
        raise Unusable(
            "Traces need libraries that are not installed.", remedy="Install them with: pip install 'holdfast[tracing]'"
        )
    tracing.start(settings.traces_url, version=__version__, instance=f"{socket.gethostname()}:{os.getpid()}")


def _check_home(settings: Settings) -> None:
    """Refuse a home that no path leads to, before anything is made there."""
    try:
        settings.home.resolve()
    except RuntimeError:
        # Python reports a loop of links by this, and not by an error of the system.
        raise Unusable(
            f"The directory {shown_name(settings.home)} cannot be used: its links form a loop.",
            remedy="Remove the link, or set HOLDFAST_HOME to another directory.",
        ) from None


def known_handlers(settings: Settings) -> Registry:
    """The handlers of installed packages, and of the modules that a flag, a variable or the project file names."""
    if settings.project is not None:
        add_to_path(settings.project.folder)
    return discover(settings.handlers, folder=settings.handlers_folder if settings.handlers else None)


def drive(work: Coroutine[Any, Any, int]) -> int:
    """Run a command to its end. The first Ctrl-C ends it in order, a second one at once."""
    try:
        return asyncio.run(_driven(work))
    except SystemExit as left:
        # Its code would be read as how the job ended.
        raise Bug(f"SystemExit: {left} reached the event loop, perhaps from a callback of a handler") from left


class _Threads(ThreadPoolExecutor):
    """For `asyncio.to_thread`: a command does not wait for threads that a handler has left running."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


async def _driven(work: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(_Threads())
    task = asyncio.ensure_future(work)
    presses = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            os._exit(ExitCode.INTERRUPTED)
        loop.call_soon_threadsafe(task.cancel)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return await task
    except asyncio.CancelledError:
        if presses:
            raise Interrupted from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@asynccontextmanager
async def draining(stop: Callable[[], None], left_behind: Callable[[], str]) -> AsyncIterator[Drain]:
    """Inside, the first SIGTERM or Ctrl-C calls `stop` and the service drains; a second one ends it at once."""
    loop = asyncio.get_running_loop()
    # A signal may come while a handler runs. In the handler's context, what `stop` says would go to the handler's log.
    own_context = contextvars.copy_context()
    drain = Drain()

    def signalled(number: int, frame: FrameType | None) -> None:
        if drain.asked_by is None:
            drain.asked_by = number
            loop.call_soon_threadsafe(stop, context=own_context)
            return
        # Not by sys.stderr: a handler that runs right now would get the line into its own log.
        with suppress(OSError):
            os.write(2, left_behind().encode())
        os._exit(ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.TERMINATED)

    before = {number: signal.signal(number, signalled) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield drain
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class Drain:
    """The signal that asked a service to end, if one did."""

    asked_by: int | None = None


def has_database(settings: Settings) -> bool:
    """Whether there is anything to look at: looking must not set up a Postgres."""
    is_named = settings.database_url is not None or settings.url is not None
    return is_named or (place_of_data(settings.home.resolve()) / "PG_VERSION").exists()


def begin_on(job: str, target: Target, **overrides: Any) -> Settings:
    """The settings of a command about a job. Without a database there is no job."""
    settings = begin(target, **overrides)
    if not has_database(settings):
        raise no_job(job, settings)
    return settings


async def find_job(client: Client, job: str, settings: Settings) -> str:
    """The id of the job that was typed; if there is none, the message says which database was searched."""
    try:
        return await client.find_job(job)
    except NotFound:
        raise no_job(job, settings) from None


def no_job(job: str, settings: Settings) -> NotFound:
    what = "no job yet" if job == LAST else f"no job '{job}'"
    remedy = "List the jobs with: holdfast status"
    return NotFound(f"There is {what}{where(settings)}.", remedy=remedy, instance=job)


def where(settings: Settings) -> str:
    """Which database a command looks at, without user and password: the wrong one has other jobs."""
    tenant = f" for tenant {settings.tenant}" if settings.tenant != DEFAULT_TENANT else ""
    if settings.url is not None:
        return f"{tenant} at {settings.url}"
    if settings.database_url is None:
        home = shown_name(settings.home.resolve())
        return f"{tenant} in the embedded database in {home}" if has_database(settings) else f": {home} has no database"
    address = urlsplit(settings.database_url)
    host = address.netloc.rpartition("@")[2] or "".join(parse_qs(address.query).get("host", [])[:1]) or "localhost"
    name = unquote(address.path.lstrip("/"))
    return f"{tenant} in the database {f'{name} ' if name else ''}on {host}"
