"""Commands without their start-up: a process that has imported everything forks for each of them.

A page runs a dozen commands, and a command spends most of its time on imports. Services, and commands that are killed
or that start other processes, are real processes from their beginning.
"""

from __future__ import annotations

import array
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

FORKED = (
    "acknowledge", "artifacts", "breakers", "checkpoints", "events", "graph", "limits", "logs", "output", "params",
    "plan", "queues", "results", "schema", "stats", "status", "submit", "tasks", "validate", "watch", "why",
    "workflows",
)  # fmt: skip
WRAPPER = """#!/bin/sh
case "$1" in
    {forked}) exec '{python}' -I -S '{client}' '{place}' "$@" ;;
    *) exec '{real}' "$@" ;;
esac
"""
CLIENT = """
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect(sys.argv[1])
    streams = array.array("i", [0, 1, 2])
    request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode() + b"\\n"
    door.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    code = door.recv(16)
sys.exit(int(code) if code else 70)
"""


@contextmanager
def forked_commands(folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """A folder with a `holdfast` that forks where it can."""
    real, place, client = Path(sys.executable).with_name("holdfast"), folder / "door", folder / "client.py"
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "holdfast"
    wrapper.write_text(
        WRAPPER.format(forked="|".join(FORKED), python=sys.executable, client=client, place=place, real=real)
    )
    wrapper.chmod(0o755)
    client.write_text(CLIENT)
    command = [sys.executable, "-m", "tests.docs.forking", str(place)]
    server = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield wrapper.parent
    finally:
        server.terminate()
        server.communicate()


def serve(place: str) -> NoReturn:
    """Fork for each request; the answer is the exit code of the command."""
    from holdfast import cli

    for module in pkgutil.walk_packages(cli.__path__, "holdfast.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # The children of this process wait for the commands; they need no help to end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door = socket.socket(socket.AF_UNIX)
    door.bind(place)
    door.listen()
    print("ready", flush=True)
    while True:
        caller, _ = door.accept()
        if os.fork() == 0:
            door.close()
            _answer(caller)
        caller.close()


def _answer(caller: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    streams = array.array("i")
    request, ancillary, _, _ = caller.recvmsg(1 << 20, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    while not request.endswith(b"\n"):
        request += caller.recv(1 << 20)
    arguments, folder, environment = json.loads(request)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        caller.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _run(arguments)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    caller.send(str(os.waitstatus_to_exitcode(status) & 0xFF).encode())
    os._exit(0)


def _run(arguments: list[str]) -> NoReturn:
    from holdfast.cli.app import main

    sys.argv = ["holdfast", *arguments]
    try:
        main(arguments)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    os._exit(70)


if __name__ == "__main__":
    serve(sys.argv[1])
