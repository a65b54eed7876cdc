"""A Postgres that can lose its last commits: a standby that lacks them, or a copy, replaces it on the same port."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from holdfast.embedded import watchdog
from holdfast.embedded.cluster import Cluster
from tests.chaos.fleet import Server
from tests.ports import free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "fsync": "off",
    "max_parallel_workers_per_gather": "0",
    "log_min_messages": "warning",
}
START_SECONDS = 60.0
REPLICATION_SECONDS = 1.0
"""How far a standby or a new copy may be behind."""


class ReplicatedServer(Server):
    """Runs the binaries of the embedded Postgres, but allows several servers for one home."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._copies = 0
        self._kept_until = 0.0
        self._standby: tuple[Path, subprocess.Popen[bytes]] | None = None

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        lock = watchdog.try_lock(self.home / "server.lock")
        assert lock is not None, "another process uses this Postgres"
        self._lock = lock
        self._cluster = Cluster.prepare(self.home, None, lock)
        self._password = (self.home / "postgres.password").read_text()
        port = free_port()
        self.url = f"postgresql://holdfast:{self._password}@127.0.0.1:{port}/holdfast"
        self._data = self._cluster.data
        self._primary = self._launch(self._data, port)
        self._await(port)

    def __exit__(self, *error: object) -> None:
        for process in (self._primary, *([self._standby[1]] if self._standby is not None else [])):
            _stop_at_once(process)
        watchdog.release(self._lock)

    def copy(self, *options: str) -> Path:
        """Make a backup while the server works; returns its directory."""
        self._copies += 1
        folder = self._cluster.data.with_name(f"copy-{self._copies}")
        folder.mkdir(mode=0o700)
        account = self._cluster.account
        if account.uid is not None and account.gid is not None:
            os.chown(folder, account.uid, account.gid)
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "holdfast", "-D", str(folder)]
        how = account.options(self._lock)
        began = time.time()
        subprocess.run(
            [
                *account.prefix,
                self._program("pg_basebackup"),
                *where,
                "-X",
                "stream",
                "-c",
                "fast",
                "--no-sync",
                *options,
            ],
            check=True,
            **(how | {"env": how["env"] | {"PGPASSWORD": self._password}}),
        )
        # Commits during the backup may be in it or not: after its last WAL it still writes files.
        self._kept_until = began - REPLICATION_SECONDS
        return folder

    def restart_at_once(self) -> None:
        """Restart like `pg_ctl restart -m immediate`: without a last checkpoint."""
        self.restore(self._data)

    def restore(self, copy: Path) -> None:
        """Replace the server by the copy. All later commits are lost."""
        _stop_at_once(self._primary)
        if copy != self._data:
            self.lost.append((self._kept_until, time.time()))
        self._data = copy
        self._primary = self._launch(copy, self.port)
        self._await(self.port)

    def add_standby(self) -> None:
        """Start a standby with asynchronous replication."""
        folder, port = self.copy("-R"), free_port()
        self._standby = (folder, self._launch(folder, port))
        self._await(port)

    def cut_off_standby(self) -> None:
        """Stop the standby, so that it lacks all later commits."""
        assert self._standby is not None
        self._kept_until = time.time() - REPLICATION_SECONDS
        _stop_at_once(self._standby[1])

    def fail_over(self) -> None:
        """Stop the server and promote its standby. For a moment clients find a read-only database."""
        assert self._standby is not None
        _stop_at_once(self._primary)
        self.lost.append((self._kept_until, time.time()))
        (folder, _), self._standby = self._standby, None
        self._data = folder
        self._primary = self._launch(folder, self.port)
        self._await(self.port)
        with self.connect() as connection:
            connection.execute("select pg_promote()")
            # The copy may have been made while a fault had changed the settings of the first server.
            connection.execute("alter system reset all")
            connection.execute("select pg_reload_conf()")

    def _launch(self, data: Path, port: int) -> subprocess.Popen[bytes]:
        settings = [f"--{name}={value}" for name, value in (SETTINGS | {"port": str(port)}).items()]
        account = self._cluster.account
        with (self.home / "postgres.log").open("ab") as log:
            return subprocess.Popen(
                [*account.prefix, self._program("postgres"), "-D", str(data), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **account.options(self._lock),
            )

    def _program(self, name: str) -> str:
        return str(self._cluster.installation.directory / name)

    def _await(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                url = f"postgresql://holdfast:{self._password}@127.0.0.1:{port}/postgres?connect_timeout=5"
                psycopg.connect(url).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _stop_at_once(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)
    process.wait()
