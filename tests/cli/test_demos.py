"""`holdfast demo` as a new user types it, in a folder that may have files of any name."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.apps.demos import _answer_words
from holdfast.embedded import watchdog
from tests.cli.conftest import Command, finished, spawn
from tests.embedded.test_server import wait_until


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person who has set nothing."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_the_demo_breaks_a_job_of_real_files_and_continues_it(at_home: Path) -> None:
    (at_home / "random.py").write_text("1 / 0\n")
    texts = at_home / ".holdfast/demo/words/texts"
    texts.mkdir(parents=True)
    (texts / "left-by-an-earlier-demo.txt").touch()
    answer = finished(spawn("demo", "--json"), seconds=240)
    assert answer.code == 0, answer.err
    report = answer.json
    assert (report["status"], report["generation"]) == ("completed", 2)
    assert (report["files"], report["counted_twice"]) == (40, 0)
    assert report["attempts_lost"] >= 1
    lines = (at_home / report["report"]).read_text().splitlines()
    assert len(lines) == 41 and lines[-1].split() == [f"{report['words']:,}", "in", "40", "files"]
    assert len(list(texts.iterdir())) == 40
    assert sum(json.loads(one.read_text())["words"] for one in (texts.parent / "counts").iterdir()) == report["words"]
    job = report["job_id"][-8:]
    for command in ("worker --queue demo", f"status {job}", f"plan {job}", f"resume {job}", f"watch {job}"):
        assert f"$ holdfast {command}" in answer.err
    for text in ("$ kill -9", "39/40, 1 failed", "NOT_TEXT in count[22]"):
        assert text in answer.err, answer.err
    wait_until(lambda: watchdog.is_free(at_home / ".holdfast" / "server.lock"))
    wait_until(lambda: not others_in(at_home))


def others_in(folder: Path) -> list[int]:
    """The other processes whose working directory is the folder."""
    found = [one.pid for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(folder)]
    return [pid for pid in found if pid != os.getpid()]


def test_a_demo_leaves_other_databases_and_other_demos_alone(
    at_home: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://127.0.0.1:1/other")
    refused = command("demo")
    assert (refused.code, refused.out) == (2, "")
    assert "names another database" in refused.err
    monkeypatch.delenv("HOLDFAST_DATABASE_URL")
    (at_home / ".holdfast/demo").mkdir(parents=True)
    with (at_home / ".holdfast/demo/words.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = command("demo")
    assert refused.code == 4
    assert "Another demo is running in .holdfast/demo/words" in refused.err
    misplaced = command("demo", "--keep", "flood")
    assert misplaced.code == 2
    assert "Put --keep behind it" in misplaced.err


def test_the_flood_demo_without_its_libraries_names_the_extra(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("holdfast.apps.flood")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rasterio", None)
    answer = command("demo", "flood")
    assert (answer.code, answer.out) == (2, "")
    assert "needs libraries for rasters, which are not installed: rasterio" in answer.err
    assert "pip install 'holdfast[geo]'" in answer.err


def test_one_lost_attempt_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"job_id": "0" * 32, "status": "completed", "files": 40, "words": 9, "report": "report.txt", "seconds": 1}
    _answer_words({**report, "attempts_lost": 1, "counted_twice": 1})
    assert "lost 1 attempt, which ran again. 1 file was counted twice." in capsys.readouterr().out
    _answer_words({**report, "attempts_lost": 2, "counted_twice": 0})
    assert "lost 2 attempts, which ran again. 0 files were counted twice." in capsys.readouterr().out
