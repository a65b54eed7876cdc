"""Tenants see and change their own jobs alone."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from holdfast.store.queries import _all_queries, query
from tests.cli.conftest import Command

SQL = resources.files("holdfast.store.sql")
OF_SERVICES = {
    "bound_workers.sql": "workers over HTTP: fenced by their leases, and a claim takes the tenant of its worker",
    "cycle.sql": "the cycle of an owner",
    "janitor.sql": "duties of the janitor",
    "notify.sql": "processes that send what is due",
    "output.sql": "attempts save what they print",
    "ownership.sql": "orchestrators take and keep jobs",
    "pruning.sql": "deletes the jobs of an installation",
    "work.sql": "leases and reports of workers",
}
"""Run for no person, whatever they touch. What people read in these files takes the tenant all the same."""
READ_BY_PEOPLE = {"read_janitor_actions", "running_output", "ended_attempts"}
BESIDE_THE_JOB = {
    "read_nodes", "read_queue", "read_deliverables", "read_by_hand", "read_corrected", "unserved_nodes", "why_job",
    "why_windows", "why_queue", "why_locks", "why_errors", "read_holds",
}  # fmt: skip
"""Read in one transaction with read_job, which finds nothing of another tenant; then the rest is not shown."""
BEHIND_A_CHECK = {
    "revoke_key": "only a key that read_keys has found",
    "add_sign_in_code": "the holder of the key asks for it",
    "send_request": "only if this transaction has taken the key of the request: take_request takes the tenant",
    "keep_plan": "the plan was made from a job that read_job has found",
    "answers": "the signals that the same call has sent",
    "extend_audit": "the line that the same call has written",
    "statistics_of_nodes": "the jobs that the statement before it has picked",
}
OF_THE_INSTALLATION = {
    # Shown to operators of the installation alone.
    "unread_signals", "long_transactions", "lock_holders", "server_facts", "read_audit_of_all",
    # No tenant's: the time, how far history has come, when the janitor was here last.
    "clock", "place", "has_many_new", "last_pass", "all_lanes", "notify",
    # Queues and tenants are the installation's: only its administrators change them.
    "pause_queue", "unpause_queue", "read_tenants", "keep_tenant",
    # They answer who it is that asks, so nothing is known of the tenant yet.
    "use_key", "read_session", "end_session", "use_sign_in_code", "living_credentials",
    # Of all tenants, by processes that serve all.
    "roll_up", "due_schedules", "seconds_to_next_tick",
    # Definitions are found by the hash of their content; external ids follow the jobs of the same transaction.
    "definition", "store_resolved", "write_external_ids",
}  # fmt: skip


def statements(file: str) -> set[str]:
    """The names of the statements in a file that are run; the others are parts of them."""
    names = set(re.findall(r"^-- name: (\w+)\s*$", SQL.joinpath(file).read_text(), flags=re.MULTILINE))
    everything = b"".join(_all_queries().values())
    return {name for name in names if f"{{{{{name}}}}}".encode() not in everything}


def takes_the_tenant(name: str) -> bool:
    return re.search(rb"%\(tenants?\)s", query(name)) is not None


FILES = sorted(file.name for file in SQL.iterdir() if file.name.endswith(".sql") and file.name != "schema.sql")


@pytest.mark.parametrize("file", FILES)
def test_every_statement_that_is_run_for_a_person_takes_the_tenant(file: str) -> None:
    run = statements(file) if file not in OF_SERVICES else statements(file) & READ_BY_PEOPLE
    without = {name for name in run if not takes_the_tenant(name)}
    assert without <= BESIDE_THE_JOB | BEHIND_A_CHECK.keys() | OF_THE_INSTALLATION


def test_the_exceptions_are_needed() -> None:
    everything = {name for file in FILES for name in statements(file)}
    excepted = BESIDE_THE_JOB | BEHIND_A_CHECK.keys() | OF_THE_INSTALLATION
    assert excepted | READ_BY_PEOPLE <= everything
    assert [name for name in sorted(excepted) if takes_the_tenant(name)] == []


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
