"""The parts of a demo: steps, commands that are shown as they run, and services that end with the demo.

A demo speaks on stderr: only its summary is an answer.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from holdfast import HoldfastError, SyncClient
from holdfast.apps.tether import tethered
from holdfast.extend.commands import say
from holdfast.extend.settings import everything

STOP_SECONDS = 20.0
READY_SECONDS = 30.0
LOOK_SECONDS = 0.05
KEY_PREFIX = len("hf_12345678")
"""The part of an API key that names it."""


class DemoFailed(HoldfastError):
    """The demo did not go as planned."""


@dataclass
class Services:
    """The services that a demo has started, each with a log in `folder`. They end with the demo unless it keeps them.

    Each is a session of its own, so that a demo can kill one with everything that it runs.
    """

    folder: Path
    environment: Mapping[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """What each process runs, such as `worker`."""

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = self._log(len(self.processes), words[0])
        with log.open("wb") as output:
            process = tethered(
                list(words),
                env={**everything(), **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        self.commands.append(words[0])
        return process

    def running(self, command: str) -> list[subprocess.Popen[bytes]]:
        """The processes that were started with this command."""
        return [process for process, one in zip(self.processes, self.commands, strict=True) if one == command]

    def _log(self, number: int, command: str) -> Path:
        return self.folder / f"{command}-{number}.log"

    def open_ui(self) -> str | None:
        """Start the HTTP service. The address of its web UI; None, and a line that says why, if there is none."""
        number = len(self.processes)
        process, deadline = self.start("api", "--json"), time.monotonic() + READY_SECONDS
        log = self._log(number, "api")
        while time.monotonic() < deadline:
            has_ended = process.poll() is not None
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith('{"service"') and line.endswith("}"):
                    address: str | None = json.loads(line)["web_ui"]
                    if address is None:
                        say("    There is no web UI here: npm could not be reached when Holdfast was built")
                    return address
            if has_ended:
                break
            time.sleep(LOOK_SECONDS)
        say(f"    There is no web UI: the HTTP service did not start. See {log}")
        return None

    @property
    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.processes if process.poll() is None]

    def stop(self) -> None:
        """Stop the processes, workers first, so that they can give their tasks back."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in reversed(self.processes):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def keep(self) -> None:
        """Keep the processes running until Ctrl-C, and stop them then."""
        say("\nEverything keeps running. Ctrl-C stops it.")
        try:
            for process in self.alive:
                process.wait()
        except KeyboardInterrupt:
            say("Stopping.")
        finally:
            self.stop()


def step(text: str) -> None:
    say(f"==> {text}")


def typed(words: list[str], *, in_background: bool = False) -> None:
    """Show a command as a person would type it."""
    say(f"\n$ holdfast {shlex.join(words)}{' &' if in_background else ''}")


def run_shown(words: list[str], expected: int = 0) -> None:
    """Show a command as a person would type it, and run it."""
    typed(words)
    with tethered(words, stdout=sys.stderr.fileno()) as process:
        # Wait inside the block: leaving it would close the command's stdin first.
        code = process.wait()
    if code != expected:
        raise DemoFailed(f"`holdfast {shlex.join(words)}` ended with exit code {code}, expected {expected}.")


def answer_of(words: list[str]) -> dict[str, Any]:
    """What a command answers with --json."""
    answer: dict[str, Any] = json.loads(output_of(words))
    return answer


def lines_of(words: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output_of(words).splitlines()]


def output_of(words: list[str]) -> bytes:
    holdfast = [sys.executable, "-P", "-c", "from holdfast.cli import main; main()"]
    done = subprocess.run([*holdfast, *words, "--json"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise DemoFailed(f"`holdfast {shlex.join(words)}` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def sign_in_link(client: SyncClient, ui: str, home: Path, page: str) -> str:
    """An address that signs a browser in, once and within a minute, and leads to a page of the web UI."""
    key = (home / "admin.key").read_text(encoding="ascii")
    code = client.sign_in_code(key[:KEY_PREFIX])
    return f"{ui}sign-in?{urlencode({'code': code, 'return_to': f'/{page}'})}"
