"""Runs the private Postgres of a working directory for as long as some process uses it.

Owns `home/postgres`, its password, its start and its end; knows nothing of what is stored in it.

File locks say which processes are there, because the kernel releases them however a process dies. Every user shares
`users.lock`. Every process that touches the data (initdb, Postgres and all its children) has inherited `server.lock`.
The watchdog has `watchdog.lock`. Only the holder of `lock` may check or take these three.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg import pq

from holdfast.embedded import origin, watchdog
from holdfast.embedded.cluster import Account, Cluster, launch_detached, place_of_data, write_secret
from holdfast.errors import NotFound, Unreachable

LOCK_SECONDS = 180.0
START_SECONDS = 120.0
STOP_PATIENCE_SECONDS = 10.0
ORPHAN_SECONDS = 3.0
# A program that takes over the port of a dead server must not get the password. Older libraries lack the option.
_INSIST = "?require_auth=scram-sha-256" if pq.version() >= 160_000 else ""


@contextmanager
def use_embedded(home: Path, *, postgres_bin: Path | None = None) -> Iterator[str]:
    """Use the Postgres in `home`; yields its URL. The first user starts it, the last one stops it."""
    postgres = EmbeddedPostgres(home, postgres_bin)
    url = postgres.enter()
    try:
        yield url
    finally:
        postgres.leave()


def adopt(home: Path) -> Path:
    """Trust the database in `home` from now on, although it was created elsewhere; returns its directory."""
    home = home.resolve()
    data = place_of_data(home)
    if not (data / "PG_VERSION").exists():
        raise NotFound(
            f"There is no database in {home}.", remedy="Change to the directory that has it, or set HOLDFAST_HOME."
        )
    origin.check_owners(home)
    write_secret(home / origin.ORIGIN, origin.fingerprint(data))
    return data


class EmbeddedPostgres:
    """One use of the Postgres in `home`, from `enter` to `leave`."""

    def __init__(self, home: Path, postgres_bin: Path | None = None) -> None:
        self._home = home.resolve()
        self._postgres_bin = postgres_bin
        self._user_lock: int | None = None
        self._user_pid = 0

    def enter(self) -> str:
        """Return the URL of a ready server, which runs at least until `leave`."""
        try:
            origin.check(self._home, place_of_data(self._home))
            self._home.mkdir(parents=True, exist_ok=True)
            with watchdog.locked(self._home / "lock", LOCK_SECONDS):
                users = self._home / "users.lock"
                self._user_lock = watchdog.wait_for_lock(users, fcntl.LOCK_SH, LOCK_SECONDS)
                self._user_pid = os.getpid()
                try:
                    return self._ensure_running()
                except BaseException:
                    self._release()
                    self._stop_if_unused()
                    raise
        except TimeoutError:
            raise Unreachable(
                f"Another process has held {self._home / 'lock'} for {LOCK_SECONDS:g} seconds.",
                remedy="Find a stopped or hanging holdfast process and end it.",
            ) from None
        except OSError as error:
            raise Unreachable(
                f"The embedded Postgres cannot use {error.filename or self._home}: {error.strerror}.",
                remedy=f"Make {self._home} a writable directory with free space, use another one with HOLDFAST_HOME,"
                " or set HOLDFAST_DATABASE_URL to a running server.",
            ) from error

    def leave(self) -> None:
        """Stop using the server; the last user stops it. Does nothing in a forked child."""
        if self._user_lock is None or self._user_pid != os.getpid():
            return
        self._release()
        # If this fails, the watchdog stops the server.
        with suppress(OSError), watchdog.locked(self._home / "lock", LOCK_SECONDS):
            self._stop_if_unused()

    def _release(self) -> None:
        if self._user_lock is not None:
            watchdog.release(self._user_lock)
            self._user_lock = None

    def _stop_if_unused(self) -> None:
        if watchdog.is_free(self._home / "users.lock"):
            watchdog.stop(self._home, place_of_data(self._home), STOP_PATIENCE_SECONDS)

    def _ensure_running(self) -> str:
        """Start the server unless it is ready. Waits for a server that is starting or stopping."""
        deadline = time.monotonic() + START_SECONDS
        last_alive = time.monotonic()
        launched: Cluster | None = None
        while time.monotonic() < deadline:
            # If this lock is free, no process touches the data.
            server_lock = watchdog.try_lock(self._home / "server.lock")
            if server_lock is not None:
                try:
                    launched = self._launch(launched, server_lock)
                finally:
                    watchdog.release(server_lock)
                last_alive = time.monotonic()
            data = place_of_data(self._home)
            server = watchdog.read_postmaster(data)
            if server is not None and watchdog.may_serve(server.pid, data):
                if server.status == "ready" and _answers(server.port):
                    self._ensure_watchdog(data)
                    return self._publish(server)
                if server.status == "stopping":
                    # A Postgres that is asked to stop during its recovery may hang, so it is stopped by force.
                    watchdog.stop(self._home, data, STOP_PATIENCE_SECONDS)
                last_alive = time.monotonic()
            elif time.monotonic() - last_alive > ORPHAN_SECONDS:
                watchdog.kill_orphans(self._home, data)
            time.sleep(0.01)
        raise Unreachable(
            f"The embedded Postgres in {self._home} is not ready after {START_SECONDS:g} seconds.",
            remedy=f"See {self._home / 'postgres.log'}. End hanging Postgres processes, then try again.",
        )

    def _launch(self, launched: Cluster | None, server_lock: int) -> Cluster:
        """Start the server, or start it again if it died for a temporary reason."""
        if launched is None:
            cluster = Cluster.prepare(self._home, self._postgres_bin, server_lock)
        else:
            cluster = launched.for_another_attempt()
        self._ensure_watchdog(cluster.data)
        cluster.launch(server_lock)
        return cluster

    def _ensure_watchdog(self, data: Path) -> None:
        """Start a watchdog unless one is running: before the server starts, and again if somebody killed it."""
        lock = watchdog.try_lock(self._home / "watchdog.lock")
        if lock is not None:
            script = [sys.executable, "-I", "-S", watchdog.__file__]
            launch_detached([*script, str(self._home), str(data), str(lock)], Account(), lock, subprocess.DEVNULL)
            watchdog.release(lock)

    def _publish(self, server: watchdog.Postmaster) -> str:
        """Write `postgres.json` for people who want to connect to the database; Holdfast itself never relies on it."""
        password = (self._home / "postgres.password").read_text()
        url = f"postgresql://holdfast:{password}@127.0.0.1:{server.port}/holdfast{_INSIST}"
        text = json.dumps({"url": url, "pid": server.pid, "port": server.port})
        public = self._home / "postgres.json"
        if not public.exists() or public.read_bytes() != text.encode():
            write_secret(public, text)
        return url


def _answers(port: int) -> bool:
    """Whether the server accepts connections now. It does not while it recovers from a crash."""
    place = f"hostaddr=127.0.0.1 port={port} user=holdfast dbname=holdfast"
    options = "sslmode=disable gssencmode=disable connect_timeout=5"
    return pq.PGconn.ping(f"{place} {options}".encode()) == pq.Ping.OK
