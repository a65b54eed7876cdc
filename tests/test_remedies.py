"""Remedies are data: only edges know how people type a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import holdfast
from holdfast.cli.app import app
from holdfast.errors import NotFound
from holdfast.remedies import Remedy

SOURCE = Path(holdfast.__file__).parent


@pytest.mark.parametrize("package", ["core", "store", "orchestrator"])
def test_no_command_and_no_path_of_a_service_is_spelled_in(package: str) -> None:
    group: Any = get_command(app)
    commands = re.compile(rf"holdfast ({'|'.join(map(re.escape, group.commands))})\b[^'\"]* ?|/v1/|/api/")
    spelled = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if commands.search(line) and "connect(" not in line and "application_name" not in line
    ]
    assert spelled == []


def test_a_remedy_is_a_sentence_and_a_command() -> None:
    remedy = Remedy("Leave it as it is", "retry", "8f2c", "stack", ("--only",))
    assert str(remedy) == "Leave it as it is: holdfast retry 8f2c stack --only"
    assert str(Remedy("Wait until it is reached.")) == "Wait until it is reached."
    assert Remedy.from_json(remedy.to_json()) == remedy


def test_a_remedy_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert Remedy.from_json({"text": "Wait.", "urgency": "high"}) == Remedy("Wait.")


def test_an_error_shows_its_remedy_as_a_command() -> None:
    error = NotFound("There is no job 8f2c.", remedy=Remedy("List the jobs with", "status"))
    assert error.to_problem()["remedy"] == "List the jobs with: holdfast status"
