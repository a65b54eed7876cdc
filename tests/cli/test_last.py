"""`--last` stands for the newest job on every command that takes JOB."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import typer.main

from holdfast.cli.app import app
from tests.cli.conftest import Answer, Command

GROUP: Any = typer.main.get_command(app)
TAKING_JOB = sorted(
    name
    for name, command in GROUP.commands.items()
    if any(one.param_type_name == "argument" and one.metavar == "JOB" for one in command.params)
)
MORE = {
    "acknowledge": ["--reason", "known"],
    "cancel": ["--yes", "--plan"],
    "checkpoints": ["first"],
    "clear": ["second", "--plan"],
    "output": ["first"],
    "params": ["first"],
    "rerun": ["--from", "first", "--plan"],
    "results": ["first"],
    "retry": ["second", "--plan"],
    "retry-stage": ["2", "--plan"],
    "set": ["second", "--output", "output.json", "--plan"],
    "skip": ["second", "--plan"],
    "tasks": ["first"],
    "plan": ["retry", "second"],
    "pause": ["--plan"],
    "resume": ["--plan"],
    "unpause": ["--plan"],
}

WITHOUT_ID = ("artifacts", "checkpoints", "logs", "results", "tasks")
"""Their answers do not repeat the id of the job."""


def test_the_commands_that_take_a_job_are_known() -> None:
    expected = {"status", "watch", "why", "events", "logs", "plan", "resume", "cancel", "pause", "unpause"}
    assert expected <= set(TAKING_JOB)
    assert set(MORE) <= set(TAKING_JOB)


@pytest.mark.parametrize("name", TAKING_JOB)
def test_last_gives_the_answer_for_the_newest_job(database: Command, name: str, tmp_path: Any) -> None:
    (tmp_path / "output.json").write_text("{}")
    database("run", "flow.yaml")
    job_id = database("run", "failing.yaml", "--json").json["job_id"]
    more = [*MORE.get(name, []), "--json"]
    named = without_times(database(name, job_id, *more))
    assert without_times(database(name, "--last", *more)) == named
    assert without_times(database(name, *more, "--last")) == named
    assert job_id in named.out + named.err or name in WITHOUT_ID


def without_times(answer: Answer) -> Answer:
    """A plan and an acknowledgement say when they were made."""
    return replace(answer, out=re.sub(r'"(made_at|at)": "[^"]*"', "", answer.out))


@pytest.mark.parametrize("name", ["watch", "why", "events", "logs"])
def test_a_command_that_only_looks_takes_the_newest_job_by_itself(database: Command, name: str) -> None:
    job_id = database("run", "failing.yaml", "--json").json["job_id"]
    assert database(name, "--json") == database(name, job_id, "--json")


@pytest.mark.parametrize("name", sorted(set(TAKING_JOB) - {"status", "watch", "why", "events", "logs"}))
def test_a_command_that_changes_a_job_must_name_it_and_offers_last(command: Command, name: str) -> None:
    answer = command(name)
    assert answer.code == 2
    assert f"Name the job, or take the newest: holdfast {name} --last" in answer.err


def test_last_is_the_newest_job_of_the_tenant(database: Command) -> None:
    ours = database("submit", "slow.yaml", "--json").json["job_id"]
    database("submit", "slow.yaml", "--tenant", "maps", "--json")
    assert database("status", "--last", "--json").json["job_id"] == ours


def test_a_job_and_last_do_not_go_together(database: Command) -> None:
    answer = database("status", "1a2b3c4d", "--last")
    assert answer.code == 2
    assert "1a2b3c4d" in answer.err
