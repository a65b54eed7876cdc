"""A terminal for one page: runs its commands in order in one shell, and compares their output with the page."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from threading import Timer
from typing import IO

from tests.docs.pages import Step

SECONDS = 60.0
_END = "@@ the command has ended @@"
_JOB = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SHORT_JOB = re.compile(r"\b[0-9a-f]{8}\b")
_VARYING = (
    (_JOB, "JOB"),
    (_SHORT_JOB, "JOB"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?"), "TIME"),
    (re.compile(r"^ *\d+ +TIME"), "EVENT"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min|h|d)\b( \d+ (s|min|h)\b)?"), "DURATION"),
    (re.compile(r",? waited DURATION"), ""),
    (re.compile(r"\bin \d+\.\d+s\b"), "in DURATION"),
    (re.compile(r"\b[\w.-]+:\d{2,}\b"), "PROCESS"),
    (re.compile(r"\s+"), " "),
)


def normalised(line: str) -> str:
    """A line without the parts that vary: ids, times, durations, processes, the width of gaps."""
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return line.strip()


class Shell:
    """One bash in the page's directory. Replaces the ids on the page by the real ones."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = {**os.environ, **environment}
        self._ids: dict[str, str] = {}
        self._background: list[subprocess.Popen[str]] = []
        self._bash = self._start(["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        for process in [*self._background, self._bash]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def run(self, step: Step, *, may_fail: bool) -> None:
        """Run a command. It must print the shown output, and succeed unless the page asks for its exit code next."""
        command = self._with_ids(step.command)
        code, lines = self._answer(command)
        shown = "\n".join(lines)
        assert may_fail or code == 0, f"{step.block.place}: `{command}` ended with {code}:\n{shown}"
        self._compare(step, lines)

    def run_in_background(self, step: Step) -> None:
        """Start a service and wait until it has printed the shown output."""
        output = self._directory / f".service-{len(self._background)}.log"
        with output.open("w") as stream:
            self._background.append(self._start(["bash", "-c", f"exec {self._with_ids(step.command)}"], stdout=stream))
        until = time.monotonic() + SECONDS
        while True:
            lines = output.read_text().splitlines()
            missing = self._missing(step.expected, lines)
            if missing is None:
                return
            assert self._background[-1].poll() is None, f"{step.block.place}: the service ended: {lines}"
            assert time.monotonic() < until, f"{step.block.place}: the service did not print '{missing}', but: {lines}"
            time.sleep(0.02)

    def _start(
        self, command: list[str], stdout: int | IO[str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self._directory,
            env=self._environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _answer(self, command: str) -> tuple[int, list[str]]:
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{{ {command}\n}} < /dev/null\ncode=$?; printf '\\n%s %d\\n' '{_END}' $code; (exit $code)\n")
        stdin.flush()
        lines: list[str] = []
        timeout = Timer(SECONDS, lambda: os.killpg(self._bash.pid, signal.SIGKILL))
        timeout.start()
        try:
            for line in stdout:
                if line.startswith(_END):
                    return int(line.removeprefix(_END)), lines
                lines.append(line.rstrip("\n"))
        finally:
            timeout.cancel()
        raise AssertionError(f"`{command}` did not end within {SECONDS} s: {lines}")

    def _compare(self, step: Step, lines: list[str]) -> None:
        missing = self._missing(step.expected, lines)
        printed = "\n".join(lines)
        assert missing is None, f"{step.block.place}: `{step.command}` does not print\n{missing}\nbut\n{printed}"

    def _missing(self, expected: list[str], lines: list[str]) -> str | None:
        """The first shown line that was not printed, in order. `…` stands for any text; alone, for any lines."""
        position = 0
        for wanted in expected:
            if not wanted.strip(" …"):
                continue
            pattern = re.compile(re.escape(normalised(wanted)).replace("…", ".*"))
            for index in range(position, len(lines)):
                if pattern.fullmatch(normalised(lines[index])):
                    self._learn(wanted, lines[index])
                    position = index + 1
                    break
            else:
                return wanted
        return None

    def _learn(self, shown: str, printed: str) -> None:
        """Remember which real job corresponds to an id on the page."""
        for pattern in (_JOB, _SHORT_JOB):
            for one, other in zip(pattern.findall(shown), pattern.findall(printed), strict=False):
                self._ids |= {one: other, one[-8:]: other[-8:]}

    def _with_ids(self, command: str) -> str:
        for pattern in (_JOB, _SHORT_JOB):
            command = pattern.sub(lambda match: self._ids.get(match[0], match[0]), command)
        return command
