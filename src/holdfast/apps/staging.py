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

from holdfast import HoldfastError
from holdfast.apps.tether import release, tethered
from holdfast.extend.commands import say
from holdfast.extend.settings import everything

STOP_SECONDS = 20.0


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

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{words[0]}-{len(self.processes)}.log"
        with log.open("wb") as output:
            process = tethered(
                list(words),
                env={**everything(), **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

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

    def keep(self) -> None:
        """Let the processes keep running after the demo, and say how to stop them."""
        alive = self.alive
        for process in alive:
            release(process)
        pids = " ".join(str(process.pid) for process in alive)
        say(f"\nThe orchestrator and the workers keep running. Try: holdfast status. Stop them with: kill {pids}")


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
