"""How long a job and its nodes worked: not the time in the queue, and not the days between two generations."""

from __future__ import annotations

import re

import psycopg

from tests.cli.conftest import Command

TIMES = {
    "jobs": ("created_at", "started_at", "finished_at", "recovered_at"),
    "nodes": ("started_at", "finished_at"),
    "tasks": ("started_at", "finished_at"),
    "attempts": ("started_at", "finished_at"),
}


def shift(url: str, seconds: int, **columns: tuple[str, ...]) -> None:
    """Let the rows of all jobs tell times that are so much earlier."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path to holdfast")
        for table, names in columns.items():
            changes = ", ".join(f"{name} = {name} - interval '{seconds} s'" for name in names)
            connection.execute(f"update {table} set {changes}".encode())


def test_a_recovered_job_took_the_time_of_its_present_generation(database: Command, database_url: str) -> None:
    job_id = database("run", "failing.yaml", "--json").json["job_id"]
    shift(database_url, 86_400, **TIMES)
    again = database("resume", job_id)
    assert re.search(r"^✘ failing failed in \d\.\d s \(generation 2\)   job", again.out)
    assert re.search(r" \d\.\d s \(generation 2\)$", database("status").out, re.MULTILINE)
    assert re.search(r"failed after \d\.\d s\.", database("why", job_id).out)
    status = database("status", job_id, "--json").json
    assert status["started_at"] < status["nodes"][1]["started_at"], "the first start of the job, as ever"


def test_time_in_the_queue_is_shown_apart(database: Command, database_url: str) -> None:
    job_id = database("run", "flow.yaml", "--json").json["job_id"]
    assert "waited" not in database("status", job_id).out
    shift(database_url, 31, jobs=("created_at", "started_at"))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update holdfast.nodes set started_at = started_at - interval '31 s',"
            " finished_at = case when node = 'start' then finished_at - interval '31 s' else finished_at end"
            " where node in ('start', 'read')"
        )
    card = database("status", job_id).out
    assert re.search(r"^✔ flow completed in \d\.\d s   job", card)
    assert re.search(r"^Queued +waited 3[12] s before the first task began$", card, re.MULTILINE)
    assert re.search(r"✔ read +completed +waited 3[12] s +\d\.\d s\n", card)
    assert re.search(r"✔ long +completed +\d\.\d s\n", card)
    assert re.search(r" \d\.\d s, waited 3[12] s$", database("status").out, re.MULTILINE)
