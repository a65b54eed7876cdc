"""Tenants see and change their own jobs alone."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from tests.cli.conftest import Command

BESIDE_THE_JOB = {
    "read_nodes", "read_queue", "read_deliverables", "read_by_hand", "read_corrected", "unserved_nodes", "why_job",
    "why_windows", "why_queue", "why_locks", "why_errors",
}  # fmt: skip
"""Read in one transaction with read_job, which finds nothing of another tenant; then the rest is not shown."""
OF_THE_INSTALLATION = {"unread_signals", "long_transactions", "lock_holders", "server_facts"}
"""They are about the database; operators look at them."""
LISTS_OF_COLUMNS = {
    "event_of_pin", "external_ids_of_job", "job_fits", "pause_of_job", "session_columns", "unserved_columns",
    "work_began",
}  # fmt: skip
"""Parts of the statements above; none of them is run."""


@pytest.mark.parametrize("file", ["list.sql", "read.sql", "why.sql"])
def test_every_statement_that_is_run_for_a_person_takes_the_tenant(file: str) -> None:
    text = resources.files("holdfast.store.sql").joinpath(file).read_text()
    parts = re.split(r"^-- name: (\w+)\s*$", text, flags=re.MULTILINE)
    without = {name for name, body in zip(parts[1::2], parts[2::2], strict=True) if "%(tenant)s" not in body}
    assert without <= BESIDE_THE_JOB | OF_THE_INSTALLATION | LISTS_OF_COLUMNS


def test_commands_find_the_jobs_of_their_tenant_alone(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = database("run", "failing.yaml", "--json").json["job_id"]
    monkeypatch.setenv("HOLDFAST_TENANT", "acme")
    theirs = database("run", "flow.yaml", "--json").json
    assert theirs["tenant"] == "acme"
    assert [job["job_id"] for job in database("status", "--json").json["jobs"]] == [theirs["job_id"]]
    for line in ("status", "watch", "events", "logs", "why", "definition", "resume", "pause", "plan resume"):
        verb, *more = line.split()
        assert database(verb, ours, *more, "--json").code == 5, line
        assert database(verb, ours[-8:], *more, "--json").code == 5, line
    assert database("cancel", ours, "--yes", "--json").code == 5
    monkeypatch.delenv("HOLDFAST_TENANT")
    assert [job["job_id"] for job in database("status", "--json").json["jobs"]] == [ours]


def test_a_limit_without_a_tenant_is_that_of_the_commands_tenant(
    database: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "acme")
    assert database("limits", "set", "tenant", "--backlog", "3", "--json").json["limit"]["tenant"] == "acme"
    assert (
        database("limits", "set", "tenant", "--backlog", "3", "--tenant", "x", "--json").json["limit"]["tenant"] == "x"
    )
    assert database("limits", "drop", "tenant", "--json").json["limit"]["tenant"] == "acme"


def test_a_tenant_without_a_name_is_refused(database: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "a\x1bb")
    answer = database("status", "--json")
    assert (answer.code, answer.problem["code"]) == (2, "INVALID_INPUT")


def test_the_flag_names_the_tenant_and_wins_over_the_variable(
    database: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "other")
    job = database("run", "failing.yaml", "--tenant", "acme", "--json").json
    assert job["tenant"] == "acme"
    submitted = database("submit", "flow.yaml", "--tenant", "acme")
    assert "--tenant acme" in submitted.err and "holdfast up --tenant" not in submitted.err
    assert len(database("status", "--tenant", "acme", "--json").json["jobs"]) == 2
    assert database("status", "--json").json["jobs"] == []
    for line in ("status JOB", "watch JOB", "events JOB", "logs JOB", "why JOB", "plan JOB", "resume JOB --detach"):
        words = [job["job_id"] if word == "JOB" else word for word in line.split()]
        assert database(*words).code == 5, line
        assert database(*words, "--tenant", "acme").code in (0, 1), line
    assert "holdfast resume" in (card := database("status", job["job_id"], "--tenant", "acme").out)
    assert "--tenant acme" in card
    for verb in ("cancel", "pause", "unpause", "retry", "clear", "rerun", "skip", "set"):
        assert "--tenant" in database(verb, "--help").out, verb
