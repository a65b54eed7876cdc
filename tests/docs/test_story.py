"""The tutorial's example with real processes: killed half-way and continued; no finished task runs again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
SECONDS = 60.0


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the tutorial. Leases are short, so that a dead process is noticed soon."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("LEASE", "OWNER_LEASE"):
        monkeypatch.setenv(f"HOLDFAST_{name}_SECONDS", "2")
    for name in ("RENEW", "OWNER_RENEW", "OWNER_SCAN", "POLL"):
        monkeypatch.setenv(f"HOLDFAST_{name}_SECONDS", "0.5")
    for block in blocks(ROOT / "docs" / "tutorial.md"):
        if "file" in block.marks:
            (tmp_path / Path(block.marks["file"]).name).write_text(block.body, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([HOLDFAST, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def answers(*arguments: str) -> Any:
    ran = subprocess.run([HOLDFAST, *arguments, "--json"], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def diary(project: Path) -> Counter[str]:
    path = project / "diary.txt"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def test_a_killed_job_continues_where_it_was(project: Path) -> None:
    slowly = ("--concurrency", "2", "--input", "pause_seconds=0.3")
    with started("run", "workflow.yaml", "--handlers", "handlers", *slowly) as running:
        wait_until(lambda: diary(project).total() >= 6)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    (job,) = answers("status")[0]["jobs"]
    assert job["status"] == "running"
    kept = {event["index"] for event in answers("events", job["job_id"]) if event["event"] == "task_completed"}
    assert kept, "the kill came before the first task had completed"
    with started("up", "--handlers", "handlers"):
        assert answers("watch", job["job_id"])[-1]["status"] == "completed"
    written = diary(project)
    assert len(written) == 20
    # A task that was running at the kill may have run twice; a completed task never does.
    assert {written[f"station-{index + 1:02}"] for index in kept} == {1}
    names = [event["event"] for event in answers("events", job["job_id"])]
    assert "owner_changed" in names
    assert names.count("job_completed") == 1
