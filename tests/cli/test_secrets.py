"""No command shows a secret: not in an answer, not in an error, not as JSON, not in what it stores."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from holdfast.cli.app import add_apps, app
from tests.cli.conftest import Command

SECRET = "S3cr3t-of-mine"
ARGUMENTS = {
    "JOB": "abcdef123456",
    "NODE": "first",
    "FILE": "flow.yaml",
    "FILE|WORKFLOW": "flow.yaml",
    "DIR": "new",
    "COLLECTION": "maps",
    "ITEM": "one",
    "test|domains|rotate": "test",
}
OPTIONS = {"from_node": ["--from", "first"], "output": ["--output", "flow.yaml"]}
EXTRAS = {
    "stac find": ["--job", "abcdef123456"], "submit": ["flow.yaml"], "pause": ["--all"], "unpause": ["--all"],
    "notify test": ["--webhook", "catalog"],
}  # fmt: skip


def commands() -> list[list[str]]:
    """Every command that takes --database-url and uses it, with the arguments that it needs."""
    add_apps([])
    return list(_under(typer.main.get_command(app), []))


def _under(one: Any, words: list[str]) -> Iterator[list[str]]:
    for name, inner in getattr(one, "commands", {}).items():
        yield from _under(inner, [*words, name])
    used = [parameter for parameter in one.params if parameter.name == "database_url" and not parameter.hidden]
    if used and words[0] != "doctor":
        needed = [parameter for parameter in one.params if parameter.required]
        for parameter in needed:
            if parameter.param_type_name == "argument":
                words = [*words, ARGUMENTS[parameter.metavar]]
            else:
                words = [*words, *OPTIONS[parameter.name]]
        words = [*words, *EXTRAS.get(" ".join(words), [])]
        asks = any(parameter.name == "yes" for parameter in one.params)
        yield [*words, "--yes"] if asks else words


COMMANDS = commands()
everywhere = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


class _Echo(socketserver.BaseRequestHandler):
    """A server that asks for the password in clear text, and repeats it in its refusal."""

    def handle(self) -> None:
        while True:
            (size,) = struct.unpack("!I", self._exactly(4))
            if struct.unpack("!I", self._exactly(size - 4)[:4])[0] == 196608:
                break
            self.request.sendall(b"N")
        self.request.sendall(b"R" + struct.pack("!II", 8, 3))
        self._exactly(1)
        (size,) = struct.unpack("!I", self._exactly(4))
        password = self._exactly(size - 4).rstrip(b"\0")
        fields = b"SFATAL\0VFATAL\0C28P01\0Mthe password " + password + b" is wrong\0\0"
        self.request.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.request.recv(size - len(data))
            if not received:
                raise ConnectionError
            data += received
        return data


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_commands_are_those_that_use_a_database() -> None:
    assert {"run", "submit", "status", "up", "worker", "orchestrator", "migrate", "limits", "stac"} <= {
        words[0] for words in COMMANDS
    }


@everywhere
def test_a_password_with_an_open_slash_is_refused_and_no_part_of_it_is_shown(
    command: Command, words: list[str]
) -> None:
    ended = command(*words, "--json", "--database-url", f"postgresql://somebody:{SECRET}/ending@127.0.0.1:1/db")
    assert ended.code == 2
    assert "Percent-encode" in ended.problem["remedy"]
    assert not any(part in ended.out + ended.err for part in (SECRET, "ending", "somebody"))


@everywhere
def test_a_server_that_repeats_the_password_is_quoted_without_it(command: Command, words: list[str], echo: int) -> None:
    url = f"postgresql://somebody:{SECRET}%2Fending@127.0.0.1:{echo}/db"
    ended = command(*words, "--database-url", url)
    assert ended.code == 6, ended
    assert "the password *** is wrong" in ended.err
    assert SECRET not in ended.out + ended.err


def test_the_doctor_shows_no_password(command: Command, echo: int) -> None:
    for url in (f"postgresql://u:{SECRET}/ending@127.0.0.1:1/db", f"postgresql://u:{SECRET}@127.0.0.1:{echo}/db"):
        ended = command("doctor", "--database-url", url)
        assert SECRET not in ended.out + ended.err
