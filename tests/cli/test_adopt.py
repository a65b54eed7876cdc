"""In the folder of a stranger no command starts or changes anything, until its owner says that he trusts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Command

JOB = "01a1df7b-51b3-73ef-828b-d6c0fd9487eb"
READING = (
    "status", f"status {JOB}", f"watch {JOB}", f"events {JOB}", f"logs {JOB}", f"why {JOB}", f"plan {JOB} resume",
    "breakers", "limits", "janitor", "prune --dry-run", "stac list", "doctor",
)  # fmt: skip
WRITING = ("submit flow.yaml", "run flow.yaml", "migrate", f"cancel {JOB}")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """As much of a project from an archive as anybody looks at."""
    data = tmp_path / ".holdfast/postgres"
    data.mkdir(parents=True, mode=0o700)
    (data / "PG_VERSION").write_text("18\n")
    (data / "recovery.signal").touch()
    (data / "postgresql.auto.conf").write_text(f"restore_command = 'touch {tmp_path}/ran'\n")
    os.utime(data / "PG_VERSION", (1_700_000_000, 1_700_000_000))
    return tmp_path


def contents(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("words", [*READING, *WRITING])
def test_a_command_in_a_project_that_was_unpacked_starts_and_changes_nothing(
    command: Command, unpacked: Path, words: str
) -> None:
    before = contents(unpacked)
    answer = command(*words.split())
    assert answer.code == 6
    assert "holdfast adopt" in answer.err + answer.out
    assert contents(unpacked) == before


@pytest.mark.parametrize("words", READING)
def test_a_command_that_only_reads_makes_nothing_in_an_empty_folder(
    command: Command, tmp_path: Path, words: str
) -> None:
    before = contents(tmp_path)
    assert command(*words.split()).code in (0, 5)
    assert contents(tmp_path) == before


def test_what_is_adopted_is_trusted_from_then_on(command: Command, unpacked: Path) -> None:
    answer = command("adopt", "--json")
    assert (answer.code, answer.json) == (0, {"adopted": str(unpacked / ".holdfast/postgres")})
    assert "recovery.signal" in command("status").err


def test_there_must_be_something_to_adopt(command: Command, tmp_path: Path) -> None:
    answer = command("adopt")
    assert answer.code == 5
    assert not (tmp_path / ".holdfast").exists()
