"""Real processes on a real Postgres, which a fault test can start, stop and kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg
from psycopg import sql

from holdfast.embedded import watchdog
from holdfast.embedded.cluster import place_of_data
from holdfast.embedded.server import use_embedded
from holdfast.store.migrate import apply_missing
from tests.chaos.handlers import EFFECTS, HOLD_SECONDS
from tests.chaos.proxy import port_of

Answer = TypeVar("Answer")
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
ROOT = Path(__file__).parent.parent.parent
LEASE_SECONDS = 2.0
SETTINGS = {
    "HOLDFAST_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "HOLDFAST_RENEW_SECONDS": "0.5",
    "HOLDFAST_OWNER_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "HOLDFAST_OWNER_RENEW_SECONDS": "0.5",
    "HOLDFAST_OWNER_SCAN_SECONDS": "0.5",
    "HOLDFAST_POLL_SECONDS": "1",
    "HOLDFAST_GRACE_SECONDS": "1",
    "HOLDFAST_CONCURRENCY": "4",
    "HOLDFAST_CLAIM_BATCH": "6",
    "HOLDFAST_PAYLOAD_INLINE_BYTES": "100",
}


READY_SECONDS = 90.0
"""How long a process may take to start while all cores are busy."""


class OutOfTime(Exception):
    """A condition did not become true in time."""


async def until(what: str, look: Callable[[], Awaitable[Answer]], seconds: float = 30.0) -> Answer:
    """Call `look` until its answer is true, and return the answer."""
    deadline = time.monotonic() + seconds
    while not (answer := await look()):
        if time.monotonic() > deadline:
            raise OutOfTime(f"{what}: not within {seconds:g} s")
        await asyncio.sleep(0.02)
    return answer


class Server:
    """A separate embedded Postgres that a fault may break."""

    def __init__(self, home: Path, *, durable: bool = True) -> None:
        self.home = home.resolve()
        self._durable = durable
        self._uses = ExitStack()
        self.url = ""
        self.lost: list[tuple[float, float]] = []
        """The periods whose commits are lost, by the clock of this machine."""

    def __enter__(self) -> Self:
        self.start()
        with self.connect() as connection:
            if not self._durable:
                connection.execute("alter system set fsync = off")
                connection.execute("select pg_reload_conf()")
            connection.execute("create database chaos_template")
        asyncio.run(apply_missing(self._url_of("chaos_template")))
        return self

    def __exit__(self, *error: object) -> None:
        self._uses.close()

    @property
    def port(self) -> int:
        return port_of(self.url)

    def start(self) -> None:
        """Start the server, or start it again on the same port."""
        url = self._uses.enter_context(use_embedded(self.home))
        assert self.url in ("", url), "Postgres has another port after its restart"
        self.url = url

    def stop_at_once(self) -> None:
        """Stop like `pg_ctl stop -m immediate`: without a last checkpoint."""
        postmaster = watchdog.read_postmaster(place_of_data(self.home))
        assert postmaster is not None
        with suppress(ProcessLookupError):
            os.kill(postmaster.pid, signal.SIGQUIT)
        while watchdog.may_serve(postmaster.pid, place_of_data(self.home)):
            time.sleep(0.01)

    def restart_at_once(self) -> None:
        self.stop_at_once()
        self.start()

    def connect(self, database: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._url_of(database) if database else self.url, autocommit=True)

    def new_database(self) -> str:
        name = f"chaos_{uuid.uuid4().hex[:12]}"
        statement = sql.SQL("create database {} template chaos_template").format(sql.Identifier(name))
        with self.connect() as connection:
            connection.execute(statement)
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        with self.connect() as connection:
            name = sql.Identifier(url.rsplit("/", 1)[1])
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(name))

    def _url_of(self, database: str) -> str:
        return self.url.rsplit("/", 1)[0] + "/" + database


class Process:
    """One `holdfast orchestrator` or `holdfast worker`, or a command of a person, with its output in a file."""

    def __init__(
        self, service: str, url: str, scratch: Path, environment: dict[str, str], words: Sequence[str] = ()
    ) -> None:
        self.service = service
        self.environment = environment
        self.log = scratch / f"{service}-{uuid.uuid4().hex[:6]}.log"
        arguments = ["--handlers", "tests.chaos.handlers"] if service == "worker" else words
        place = {} if "HOLDFAST_URL" in environment else {"HOLDFAST_DATABASE_URL": url}
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [HOLDFAST, service, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **{name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")},
                    "HOLDFAST_API": "0",
                    **SETTINGS,
                    **place,
                    "HOLDFAST_HOME": str(scratch / "home"),
                    EFFECTS: str(scratch / "effects"),
                    HOLD_SECONDS: f"{1.5 * LEASE_SECONDS:g}",
                    **environment,
                },
            )

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    async def ready(self) -> None:
        async def says_so() -> bool:
            return "is running as" in self.log.read_text() or not self.is_alive

        await until(f"{self.service} {self.popen.pid} is ready", says_so, READY_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    async def ended(self, seconds: float = 20.0) -> int:
        async def has_ended() -> bool:
            return not self.is_alive

        await until(f"the end of {self.service} {self.popen.pid}", has_ended, seconds)
        return int(self.popen.returncode)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


class Fleet:
    """The processes of one case. `replace_the_dead` restarts those in `kept` that have ended, as a supervisor does."""

    def __init__(self, url: str, scratch: Path) -> None:
        self.url = url
        self.scratch = scratch
        self.processes: list[Process] = []
        self.kept: list[Process] = []

    def start(self, service: str, url: str | None = None, **environment: str) -> Process:
        process = Process(service, url or self.url, self.scratch, environment)
        self.processes.append(process)
        return process

    async def up(self, *services: str, **environment: str) -> list[Process]:
        """Start processes that `replace_the_dead` restarts when they end."""
        started = [self.start(service, **environment) for service in services]
        self.kept += started
        await asyncio.gather(*(process.ready() for process in started))
        return started

    def start_command(self, *words: str) -> Process:
        """Run a command as a person does."""
        process = Process(words[0], self.url, self.scratch, {}, words[1:])
        self.processes.append(process)
        return process

    def replace_the_dead(self) -> int:
        dead = [process for process in self.kept if not process.is_alive]
        for process in dead:
            self.kept.remove(process)
            self.kept.append(self.start(process.service, **process.environment))
        return len(dead)

    def end(self) -> None:
        for process in self.processes:
            if process.is_alive:
                process.kill()

    def complaints(self) -> str:
        """The last lines of every log, to diagnose a failure."""
        return "\n".join(f"--- {p.log.name} ({p.popen.poll()})\n{p.log.read_text()[-1500:]}" for p in self.processes)
