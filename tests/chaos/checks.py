"""Judges the end of a case: what was lost, doubled, stuck or rejected, from the rows and from the handlers' lines."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from holdfast.core.states import JOB_TERMINAL
from holdfast.store.records import NewJob, NodeRow
from tests.chaos.workload import expected
from tests.simulation.checkers import Checkers
from tests.simulation.database import Database, with_failure

Key = tuple[str, str, int]
Spell = tuple[float, float]
CLAIM_SECONDS = 1.0
"""The longest time between the claim of a task and its start."""
LATE_SECONDS = 0.1
"""The largest apparent difference between the clocks of a handler and of the database on one machine."""


@dataclass
class Verdict:
    """One line for each error; and the number of reports that were rightly rejected."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    rejected: int = 0
    executions: int = 0

    @property
    def wrongs(self) -> list[str]:
        return [
            *(f"lost: {what}" for what in self.lost),
            *(f"doubled: {what}" for what in self.doubled),
            *(f"stuck: {what}" for what in self.stuck),
        ]


def judge(url: str, jobs: Sequence[NewJob], effects: Path, lost: Sequence[Spell] = ()) -> Verdict:
    """Compare the rows with the expected results. `lost` lists the periods whose commits the database has lost."""
    verdict = Verdict()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast -c timezone=UTC") as connection:
        database, ended = _read(connection), _ended_leases(connection)
    ids = {(row["tenant"], row["identity"]): job_id for job_id, row in database.jobs.items()}
    if len(ids) < len(database.jobs):
        verdict.doubled.append(f"{len(database.jobs)} jobs for {len(ids)} submissions")
    executed = _executions(effects, verdict, lost)
    verdict.doubled += _began_late(effects, ended)
    for job in jobs:
        job_id = ids.get((job.tenant, job.identity))
        if job_id is None:
            verdict.lost.append(f"{job.workflow_id} {job.inputs}: there is no such job")
        elif database.jobs[job_id]["status"] not in JOB_TERMINAL:
            verdict.stuck.append(f"{job.workflow_id} {job_id} is {database.jobs[job_id]['status']}")
        else:
            _judge_job(verdict, database, job_id, job, executed)
    verdict.rejected = sum(event[1] == "report_rejected" for events in database.events.values() for event in events)
    return verdict


def _judge_job(verdict: Verdict, database: Database, job_id: str, job: NewJob, executed: Counter[Key]) -> None:
    row, expectation = database.jobs[job_id], expected(job)
    name = f"{job.workflow_id} {job_id}"
    has_result = expectation.result is None or row["result"] == expectation.result
    if row["status"] != expectation.status or not has_result:
        verdict.lost.append(f"{name} is {row['status']} with {row['result']}, not {expectation} ({row['error']})")
    for (node, item), task in database.tasks[job_id].items():
        if task["status"] == "completed" and not executed[(job_id, node, item)]:
            verdict.lost.append(f"{name}/{node}/{item} completed and was never executed")
        elif task["status"] == "ready":
            verdict.lost.append(f"{name}/{node}/{item} is open although its job has ended")
        if executed[(job_id, node, item)] > task["epoch"]:
            verdict.doubled.append(f"{name}/{node}/{item} was executed more often than it was queued")
    try:
        Checkers(database).check_ended_job(job_id)
    except AssertionError as broken:
        verdict.doubled.append(f"{name}: {broken}")


def _ended_leases(connection: psycopg.Connection[Any]) -> dict[tuple[str, str, int, int], float]:
    """When the owners recorded the end of leases, by task and attempt."""
    rows = connection.execute(
        "select job_id::text, node, coalesce(item, -1), attempt, extract(epoch from at)::float8 from events"
        " where event = 'worker_lost'"
    )
    return {(job_id, node, item, attempt): at for job_id, node, item, attempt, at in rows}


def _began_late(effects: Path, ended: dict[tuple[str, str, int, int], float]) -> list[str]:
    """Invariant 3: attempts whose handler started although their lease had ended."""
    return [
        f"{line['job']}/{line['node']}/{line['item']} began {line['at'] - over:.1f} s after its lease had ended"
        for line in _lines(effects)
        if (over := ended.get((line["job"], line["node"], line["item"], line["attempt"]))) is not None
        and line["at"] > over + LATE_SECONDS
    ]


def _lines(effects: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in effects.read_text().splitlines()] if effects.exists() else []


def _executions(effects: Path, verdict: Verdict, lost: Sequence[Spell]) -> Counter[Key]:
    """How often each task was executed. A second execution is allowed only in a new epoch, after a lost lease.

    If the database has lost the commit of a claim, its execution does not count when there is another one.
    """
    lines = _lines(effects)
    began: defaultdict[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for line in lines:
        began[line["job"], line["node"], line["item"], line["epoch"]].append(line["at"])
    executed: Counter[Key] = Counter()
    for (job_id, node, item, epoch), moments in began.items():
        known = [at for at in moments if not any(first <= at <= last + CLAIM_SECONDS for first, last in lost)]
        executed[job_id, node, item] += max(1, len(known))
        if len(known) > 1:
            verdict.doubled.append(f"{job_id}/{node}/{item} was executed {len(known)} times in epoch {epoch}")
    verdict.executions = len(lines)
    return executed


def _read(connection: psycopg.Connection[Any]) -> Database:
    """The tables in the form that the simulator's checkers use."""
    database = Database()
    cursor = connection.cursor(row_factory=dict_row)

    def rows(statement: str) -> list[dict[str, Any]]:
        return [
            {
                name: value.timestamp() if isinstance(value, datetime) else value
                for name, value in with_failure(row).items()
            }
            for row in cursor.execute(statement.encode())
        ]

    for row in rows("select definition_hash, definition::text from workflows"):
        database.definitions[row["definition_hash"]] = row["definition"].encode()
    for row in rows("select *, job_id::text as id from jobs"):
        database.jobs[row["id"]] = row
    for row in rows("select *, job_id::text as id from nodes"):
        names = {"expanded": "expanded_count", "enqueued": "enqueued_count", "waiting": "waiting_count"}
        names |= {status: f"{status}_count" for status in ("completed", "failed", "skipped", "cancelled")}
        node = NodeRow._make(row["id"] if f == "job_id" else row[names.get(f, f)] for f in NodeRow._fields)
        database.nodes[row["id"]][row["node"]] = node
    for row in rows("select *, job_id::text as id from tasks"):
        key = row["item_key"].hex if row["item_key"] is not None else None
        row |= {"item_key": key, "is_given": row["params_given"]}
        database.tasks[row["id"]][(row["node"], row["item"])] = row
    for row in rows("select *, job_id::text as id from queue"):
        database.queue[(row["id"], row["node"], row["item"])] = row
    for row in rows("select *, job_id::text as id from events order by job_id, seq"):
        event = (row["seq"], row["event"], row["node"], row["item"], row["attempt"], row["data"])
        database.events[row["id"]].append(event)
    return database
