"""The data directory of an embedded Postgres: where it is, which account uses it, how it is created and started.

All callers must hold `home/lock`. A function with a parameter `server_lock` also needs that lock: each process that
touches the data inherits it.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.embedded import watchdog
from holdfast.embedded.binaries import Installation, find_installation
from holdfast.embedded.origin import ORIGIN, fingerprint
from holdfast.errors import Unreachable

OUTSIDE = Path("/var/lib/holdfast")
ATTEMPTS = 5

# Fatal errors after which another attempt may succeed: the port was lost, or a client connected too early.
_PASSING = ("could not create any TCP/IP sockets", "the database system is")

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "fsync": "on",
    "synchronous_commit": "on",
    "autovacuum_naptime": "5s",
    "jit": "off",
    # Parallel queries need shared memory that a container's /dev/shm does not have.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "max_logical_replication_workers": "0",
    "lc_messages": "C",
}


# These override the files in the data directory, so that no setting can run a program or load a library.
_GUARDS = {
    "archive_mode": "off",
    "archive_command": "",
    "archive_library": "",
    "archive_cleanup_command": "",
    "recovery_end_command": "",
    "restore_command": "",
    "shared_preload_libraries": "",
    "session_preload_libraries": "",
    "local_preload_libraries": "",
    "jit_provider": "llvmjit",
    "dynamic_library_path": "$libdir",
    "ssl": "off",
    "ssl_passphrase_command": "",
    "logging_collector": "off",
    "external_pid_file": "",
}
_RECOVERY = ("recovery.signal", "standby.signal")


@dataclass(frozen=True, slots=True)
class Account:
    """The account that Postgres runs as. Postgres refuses root, and accounts without a name."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def options(self, inherited_lock: int) -> dict[str, Any]:
        """Options for a process that Ctrl-C does not reach and that inherits nothing but the lock."""
        return {
            "cwd": "/",
            "env": {"PATH": os.defpath, "LC_ALL": "C"},
            "start_new_session": True,
            "pass_fds": (inherited_lock,),
            "user": self.uid,
            "group": self.gid,
            "extra_groups": None if self.uid is None else (),
        }

    def can(self, *command: str | Path) -> bool:
        options = self.options(0) | {"pass_fds": (), "capture_output": True}
        try:
            return subprocess.run([*self.prefix, *command], check=False, **options).returncode == 0
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data directory, with the binaries and the account for it."""

    home: Path
    data: Path
    account: Account
    installation: Installation
    last_port: int
    log_begins_at: int
    attempt: int = 1

    @classmethod
    def prepare(cls, home: Path, postgres_bin: Path | None, server_lock: int) -> Cluster:
        """The cluster of `home`, created if there is none, with a known password."""
        data, account = _choose_account(home)
        installation = _within_reach(find_installation(postgres_bin, data), account, _outside(home))
        _refuse_recovery(data)
        watchdog.shorten(home / "postgres.log")
        last_port = _forget_dead_server(home, data)
        cluster = cls(home, data, account, installation, last_port, (home / "postgres.log").stat().st_size)
        password, chosen = home / "postgres.password", secrets.token_urlsafe(32)
        set_password = [f"alter role holdfast password '{chosen}'"]
        if installation.major >= 16:
            # Iterations slow down an attacker who guesses passwords. Nothing guesses 256 random bits, and connects pay.
            set_password.insert(0, "set scram_iterations = 1")
        if not (data / "PG_VERSION").exists():
            password.unlink(missing_ok=True)
            cluster._create(server_lock, set_password)
        else:
            cluster._record_origin(data)
            if password.exists() and re.fullmatch(r"[\w-]{32,}", password.read_text(errors="replace")):
                return cluster
            cluster._execute(data, server_lock, *set_password)
        write_secret(password, chosen)
        return cluster

    def _create(self, server_lock: int, set_password: list[str]) -> None:
        """Create a cluster in a temporary directory and rename it, so that an incomplete one is never used."""
        draft = self.data.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        if self.account.uid is not None and self.account.gid is not None:
            os.chown(draft, self.account.uid, self.account.gid)
        options = ["--username=holdfast", "--encoding=UTF8", "--locale=C", "--data-checksums"]
        options += ["--auth-local=reject", "--auth-host=scram-sha-256"]
        if self.installation.major >= 17:
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self._run("initdb", ["-D", str(draft), *options], server_lock)
        self._execute(draft, server_lock, "create database holdfast", *set_password)
        (self.home / ORIGIN).unlink(missing_ok=True)
        self._record_origin(draft)
        draft.rename(self.data)
        parent = os.open(self.data.parent, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)

    def _record_origin(self, data: Path) -> None:
        """Record that the data directory was created here. An existing record stays: it exposes a swapped directory."""
        if not (self.home / ORIGIN).exists():
            write_secret(self.home / ORIGIN, fingerprint(data))

    def _execute(self, data: Path, server_lock: int, *statements: str) -> None:
        """Run statements on a cluster whose server is not running."""
        settings = [option for name, value in self._guards().items() for option in ("-c", f"{name}={value}")]
        options = ["--single", "-D", str(data), "-c", "exit_on_error=on", *settings, "postgres"]
        self._run("postgres", options, server_lock, "".join(f"{statement}\n" for statement in statements))

    def _run(self, program: str, options: list[str], server_lock: int, text: str = "") -> None:
        done = subprocess.run(
            [*self.account.prefix, self.installation.directory / program, *options],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            **self.account.options(server_lock),
        )
        if done.returncode != 0:
            with (self.home / "postgres.log").open("a") as log:
                log.write(done.stdout)
            raise self.failure(f"{program} failed")

    def launch(self, server_lock: int) -> None:
        """Start Postgres, which inherits the lock and writes its status to `postmaster.pid`."""
        port = _free_port(self.last_port)
        wanted = _SETTINGS | self._guards() | {"port": str(port)}
        settings = [f"--{name}={value}" for name, value in wanted.items()]
        log = os.open(self.home / "postgres.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            postgres = str(self.installation.directory / "postgres")
            launch_detached([postgres, "-D", str(self.data), *settings], self.account, server_lock, log)
        finally:
            os.close(log)

    def _guards(self) -> dict[str, str]:
        return _GUARDS | ({"oauth_validator_libraries": ""} if self.installation.major >= 18 else {})

    def for_another_attempt(self) -> Cluster:
        """The same cluster, if its server lost its port or was killed; otherwise raises the reason."""
        fatal = [line for line in self._logged().splitlines() if "FATAL" in line]
        is_final = any(all(words not in line for words in _PASSING) for line in fatal)
        if is_final or self.attempt == ATTEMPTS:
            raise self.failure("Postgres ended during its start")
        last_port = _forget_dead_server(self.home, self.data)
        return replace(self, last_port=last_port, attempt=self.attempt + 1)

    def failure(self, what: str) -> Unreachable:
        log = self.home / "postgres.log"
        return Unreachable(
            f"The embedded Postgres in {self.home} could not be started: {what}.{_last_lines(self._logged())}",
            remedy=f"Remove the cause (see {log}), or set HOLDFAST_DATABASE_URL to a running server.",
        )

    def _logged(self) -> str:
        """The log since `prepare`."""
        return (self.home / "postgres.log").read_bytes()[self.log_begins_at :].decode(errors="replace")


def launch_detached(command: list[str], account: Account, lock: int, output: int) -> None:
    """Start a process that is not our child, so that it leaves no zombie with a live pid when it ends."""
    detached = ["/bin/sh", "-c", '"$@" &', "sh", *account.prefix, *command]
    options = account.options(lock) | {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
    subprocess.run(detached, check=True, **options)


def _refuse_recovery(data: Path) -> None:
    """Refuse a data directory that asks for a recovery: a recovery runs the commands in its settings."""
    for name in _RECOVERY:
        if (data / name).exists():
            raise Unreachable(
                f"{data / name} asks for a recovery, which the embedded Postgres does not support.",
                remedy=f"Recover it with your own Postgres and set HOLDFAST_DATABASE_URL, or remove {name}.",
            )


def _outside(home: Path) -> Path:
    """The directory for the files of `home` that an unprivileged account must be able to read, if we are root."""
    return OUTSIDE / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def place_of_data(home: Path) -> Path:
    inside, outside = home / "postgres", _outside(home) / "postgres"
    is_outside = os.geteuid() == 0 and not (inside / "PG_VERSION").exists() and outside.exists()
    return outside if is_outside else inside


def _choose_account(home: Path) -> tuple[Path, Account]:
    """The data directory and the account for it. If data exist, their owner decides."""
    data, is_root = place_of_data(home), os.geteuid() == 0
    exists = (data / "PG_VERSION").exists()
    if is_root and exists and data.stat().st_uid != 0:
        return data, Account(uid=data.stat().st_uid, gid=data.stat().st_gid)
    if not is_root and _has_a_name(os.geteuid()):
        return data, Account()
    # In a user namespace, root or an account without a name appears as this unprivileged account, and keeps its access
    # to its files. The account must exist: Postgres looks up its name.
    unprivileged = pwd.getpwnam("nobody")
    ids = (f"--map-user={unprivileged.pw_uid}", f"--map-group={unprivileged.pw_gid}")
    namespaced = Account(prefix=("unshare", "--user", *ids))
    if namespaced.can("test", "-w", home):
        return data, namespaced
    if is_root and not exists:
        _make_public_directory(_outside(home))
        return _outside(home) / "postgres", Account(uid=unprivileged.pw_uid, gid=unprivileged.pw_gid)
    raise Unreachable(
        f"Postgres cannot run as user {os.geteuid()}, and a user namespace is not available for {home}.",
        remedy="Run as an ordinary user, or set HOLDFAST_DATABASE_URL to a running server.",
    )


def _has_a_name(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _within_reach(installation: Installation, account: Account, outside: Path) -> Installation:
    """The installation, or a copy of it if the account cannot read its directory."""
    if account.can(installation.directory / "postgres", "-V"):
        return installation
    package = installation.package
    if package is None or os.geteuid() != 0:
        raise Unreachable(
            f"The account that Postgres must run as cannot run {installation.directory / 'postgres'}.",
            remedy="Install Postgres where all accounts can read it, or set HOLDFAST_DATABASE_URL to a running server.",
        )
    copy = outside / installation.version
    if not copy.exists():
        draft = outside / "binaries.new"
        shutil.rmtree(draft, ignore_errors=True)
        _make_public_directory(draft)
        libraries = package.with_name(package.name + ".libs")  # the binaries look for them beside the package
        for tree in (tree for tree in (package, libraries) if tree.is_dir()):
            shutil.copytree(tree, draft / tree.name, symlinks=True)
        for path in (path for path in draft.rglob("*") if not path.is_symlink()):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        draft.rename(copy)
    return replace(installation, directory=copy / package.name / installation.directory.relative_to(package))


def _forget_dead_server(home: Path, data: Path) -> int:
    """Remove the pid file of an ended server, and return its port, so that the next server uses the same one.

    The pid may meanwhile belong to another process, which would keep Postgres from starting.
    """
    dead = watchdog.read_postmaster(data)
    if dead is not None and watchdog.may_serve(dead.pid, data):
        return 0  # somebody started it by hand: a second Postgres refuses to start
    (data / "postmaster.pid").unlink(missing_ok=True)
    return dead.port if dead is not None else _published_port(home)


def _published_port(home: Path) -> int:
    """The port of the last server. A server that was stopped leaves no pid file, only `postgres.json`."""
    try:
        return int(json.loads((home / "postgres.json").read_bytes())["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _make_public_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for directory in (path, *path.parents):
        if directory.is_relative_to(OUTSIDE):
            directory.chmod(0o755)


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise Unreachable(
        "There is no free port on 127.0.0.1 for the embedded Postgres.",
        remedy="Close programs that use ports, or set HOLDFAST_DATABASE_URL to a running server.",
    )


def write_secret(path: Path, text: str) -> None:
    """Replace the file in one step by one that only its owner can read."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with open(draft, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _last_lines(text: str) -> str:
    return "".join(f"\n  {line}" for line in text.strip().splitlines()[-8:])
