"""Files that are no files, streams that are closed or full, directories that are gone: one clear error each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import HOLDFAST, Answer, Command

COMMANDS = [["validate"], ["graph"], ["run"], ["run", "flow.yaml", "--inputs"]]


def shell(line: str, seconds: float = 60.0) -> Answer:
    """A line of bash in the current directory, with our command as $H."""
    ended = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "H": HOLDFAST[0]}, capture_output=True, text=True, timeout=seconds
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "loop", "long name", "long path"])
def test_what_is_no_file_is_refused_at_once(command: Command, tmp_path: Path, words: list[str], kind: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    given = {
        "pipe": "pipe.yaml",
        "device": "/dev/zero",
        "directory": ".",
        "loop": "loop.yaml",
        "long name": "x" * 300,
        "long path": "x/" * 50_000,
    }[kind]
    ended = command(*words, given)
    assert ended.code == 2
    assert len(ended.err) < 1000, "a name is shown, not repeated"
    assert not Path(".holdfast").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux")
def test_a_file_of_the_kernel_that_waits_for_news_is_refused_at_once(command: Command) -> None:
    assert command("validate", "/proc/kmsg").code == 2


def test_streams_that_a_shell_passes_are_read() -> None:
    assert shell('"$H" validate <(cat flow.yaml)').code == 0
    assert shell('cat flow.yaml | "$H" graph /dev/stdin').code == 0


@pytest.mark.parametrize("source", ["<&-", "</dev/zero"])
def test_a_stdin_that_is_closed_or_never_ends_is_refused(source: str) -> None:
    ended = shell(f'"$H" run flow.yaml --inputs - {source}')
    assert ended.code == 2
    assert "error: The inputs file stdin" in ended.err


def test_json_on_stdin_may_be_as_large_as_in_a_file(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("large.json").write_text('{"name": "' + "x" * 2_000_000 + '"}')
    with Path("large.json").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert database("submit", "flow.yaml", "--inputs", "-").code == 0


@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
def test_an_answer_that_cannot_be_written_is_reported_on_stderr(stdout: str) -> None:
    ended = shell(f'"$H" validate flow.yaml {stdout}; echo "code $?" >&2')
    assert "error: The answer cannot be written to stdout" in ended.err
    assert ended.err.splitlines()[-1] == "code 6"
    assert "Exception ignored" not in ended.err


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(stderr: str) -> None:
    assert shell(f'"$H" validate nothing.yaml {stderr}').code == 2
    assert shell(f'"$H" validate flow.yaml {stderr}').code == 0


def test_a_job_that_completed_behind_a_closed_stdout_has_completed(database_url: str, command: Command) -> None:
    ended = shell(f'"$H" run flow.yaml --database-url {database_url} >&-')
    assert ended.code == 6
    assert "The answer cannot be written" in ended.err and "Traceback" not in ended.err
    (job,) = command("status", "--json", "--database-url", database_url).json["jobs"]
    assert job["status"] == "completed"


def test_a_working_directory_that_is_gone_is_said_to_be_gone(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ended = command("status")
    monkeypatch.chdir(tmp_path)
    assert ended.code == 6
    assert "The working directory is gone." in ended.err


def test_a_home_whose_links_form_a_loop_is_refused(command: Command) -> None:
    Path(".holdfast").symlink_to(".holdfast")
    for words in (["status"], ["run", "flow.yaml"], ["stac", "list"]):
        ended = command(*words)
        assert ended.code == 6
        assert "form a loop" in ended.err


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 5000])
def test_a_project_is_not_written_under_a_name_that_no_directory_can_have(command: Command, name: str) -> None:
    ended = command("init", name)
    assert ended.code == 2
    assert "File name too long" in ended.err and len(ended.err) < 1000


def test_a_name_that_is_too_long_for_a_file_is_no_workflow_either(database: Command) -> None:
    assert database("submit", "x" * 300).code == 5


def test_a_catalog_is_not_exported_to_where_nothing_can_be_written(database: Command) -> None:
    ended = database("stac", "export", "/proc/x")
    assert ended.code == 2
    assert "/proc/x" in ended.err
