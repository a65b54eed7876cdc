"""A home from elsewhere is not trusted: nothing in it runs, nothing in it changes, no link is followed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.embedded import origin, server
from holdfast.embedded.server import use_embedded
from holdfast.errors import NotFound, Unreachable
from tests.embedded.test_server import value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was used once."""
    home = tmp_path_factory.mktemp("made") / ".holdfast"
    with use_embedded(home):
        pass
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A home that counts as created here, for this test alone."""
    copy = Path(shutil.copytree(made, tmp_path / ".holdfast"))
    server.adopt(copy)
    return copy


@pytest.fixture
def unpacked(made: Path, tmp_path: Path) -> Path:
    """A home as if unpacked from an archive."""
    return Path(shutil.copytree(made, tmp_path / "unpacked"))


def contents(home: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in (home, *home.rglob("*"))}


def refusal(home: Path) -> Unreachable:
    before = contents(home)
    with pytest.raises(Unreachable) as caught, use_embedded(home):
        pass
    assert contents(home) == before, "the check should change nothing"
    return caught.value


def test_a_home_that_was_unpacked_is_refused_until_it_is_adopted(unpacked: Path) -> None:
    refused = refusal(unpacked)
    assert "was not created there" in refused.message
    assert "holdfast adopt" in str(refused.remedy)
    server.adopt(unpacked)
    with use_embedded(unpacked) as url:
        assert value(url, "select 1") == 1


def test_an_archive_without_an_origin_or_with_a_false_one_is_refused(unpacked: Path) -> None:
    (unpacked / origin.ORIGIN).write_text("born 1700000000000000000\n")
    refusal(unpacked)
    (unpacked / origin.ORIGIN).unlink()
    os.utime(unpacked / "postgres/PG_VERSION", (1_700_000_000, 1_700_000_000))
    refusal(unpacked)


def test_a_moved_home_is_accepted(made: Path, tmp_path: Path) -> None:
    origin.check(made, made / "postgres")
    moved = made.rename(made.with_name("moved"))
    try:
        origin.check(moved, moved / "postgres")
    finally:
        moved.rename(made)


def test_without_birth_times_a_copy_is_refused_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "_birth_ns", lambda file: None)
    server.adopt(home)
    origin.check(home, home / "postgres")
    refusal(Path(shutil.copytree(home, tmp_path / "copied")))


def test_a_home_of_an_older_version_is_accepted_and_recorded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / origin.ORIGIN).unlink()
    (home / "postgres/PG_VERSION").touch()
    monkeypatch.setattr(origin, "NONE_BEFORE", 1)
    refusal(home)
    monkeypatch.setattr(origin, "NONE_BEFORE", 1 << 40)
    with use_embedded(home):
        pass
    monkeypatch.setattr(origin, "NONE_BEFORE", 1)
    origin.check(home, home / "postgres")


def test_adopting_a_home_without_a_database_fails(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        server.adopt(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_setting_in_the_data_directory_runs_a_program(home: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "ran"
    with (home / "postgres/postgresql.auto.conf").open("a") as settings:
        for name in ("archive_command", "restore_command", "recovery_end_command", "ssl_passphrase_command"):
            settings.write(f"{name} = 'touch {evidence}'\n")
        settings.write("archive_mode = on\nwal_level = replica\nshared_preload_libraries = 'nowhere'\n")
        settings.write("session_preload_libraries = 'nowhere'\nlocal_preload_libraries = 'nowhere'\n")
    with use_embedded(home) as url:
        names = ("archive_mode", "archive_command", "restore_command", "session_preload_libraries")
        assert [value(url, f"show {name}") for name in names] == ["off", "(disabled)", "", ""]
    # A Postgres in single-user mode sets the password again: its settings must be safe too.
    (home / "postgres.password").unlink()
    with use_embedded(home) as url:
        assert value(url, "select 1") == 1
    for name in ("recovery.signal", "standby.signal"):
        (home / "postgres" / name).touch()
        with pytest.raises(Unreachable, match=name), use_embedded(home):
            pass
        (home / "postgres" / name).unlink()
    assert not evidence.exists()


@pytest.mark.parametrize("name", ["postgres.log", "lock", "server.lock", "postgres.password", "postgres"])
def test_no_link_in_a_home_is_followed(home: Path, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    if name == "postgres":
        (home / name).rename(precious)
    else:
        precious.write_bytes(b"x" * 5_000_000)
        (home / name).unlink(missing_ok=True)
    (home / name).symlink_to(precious)
    assert "symbolic link" in refusal(home).message
    assert name == "postgres" or precious.stat().st_size == 5_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")
@pytest.mark.parametrize("name", [".", "postgres", "postgres.password"])
def test_root_too_refuses_files_of_another_user(home: Path, name: str) -> None:
    other = pwd.getpwnam("nobody")
    os.chown(home / name, other.pw_uid, -1)
    refused = refusal(home)
    assert f"belongs to {other.pw_name}," in refused.message
    with pytest.raises(Unreachable):
        server.adopt(home)


class Impostor:
    """Listens on a server's port, and asks clients for the password in clear text."""

    def __init__(self) -> None:
        self.received = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        caller, _ = self._listening.accept()
        with caller:
            while not self.received.count(b"user\0"):
                self.received += caller.recv(4096)
                if self.received == b"\0\0\0\x08\x04\xd2\x16\x2f":
                    # The client asks for TLS first: answer that there is none.
                    self.received = b""
                    caller.sendall(b"N")
            caller.sendall(b"R\0\0\0\x08\0\0\0\x03")
            self.received += caller.recv(4096)

    def close(self) -> None:
        self._thread.join(30)
        self._listening.close()


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    made = Impostor()
    yield made
    made.close()


def test_a_program_that_takes_over_the_port_gets_no_password(home: Path, impostor: Impostor) -> None:
    with use_embedded(home) as url:
        port = psycopg.conninfo.conninfo_to_dict(url)["port"]
    password = str(psycopg.conninfo.conninfo_to_dict(url)["password"])
    with pytest.raises(psycopg.OperationalError, match="authentication"):
        psycopg.connect(url.replace(f":{port}/", f":{impostor.port}/"), sslmode="disable", gssencmode="disable")
    impostor.close()
    assert b"user\0holdfast" in impostor.received
    assert password.encode() not in impostor.received
