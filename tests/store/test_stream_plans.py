"""What streams read ten times a second costs as much as has happened since, however many events there are."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.plans import Planner, own_database, planner
from tests.store.test_plans import JOBS, empty, fill

NEW = 30
"""How many events follow the place of the reader."""
OLD = 10_000
RUNNING = "{}"


class Crowd:
    """A database with many events, of which a reader has not seen the last ones."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.old = self.new = ""

    def fill(self) -> None:
        fill(self.planner.connection)
        connection = self.planner.connection
        for number in range(OLD // 1000):
            connection.execute(
                "insert into events (job_id, seq, event) select %s::uuid, i, 'task_completed'"
                " from generate_series(10000 + 1000 * %s::int, 10999 + 1000 * %s::int) i",
                (JOBS[1], number, number),
            )
        self.wait_for_older_transactions()
        self.old = self.place()
        for number in range(NEW):
            connection.execute(
                "insert into events (job_id, seq, event) values (%s::uuid, 50000 + %s, 'task_completed')",
                (JOBS[number % len(JOBS)], number),
            )
        self.new = self.place()

    def wait_for_older_transactions(self) -> None:
        """Those of other tests count: a snapshot knows all transactions of the server, whatever their database."""
        connection = self.planner.connection
        now = connection.execute("select pg_current_xact_id()::text").fetchone()
        older = "select pg_snapshot_xmin(pg_current_snapshot()) <= %s::xid8"
        until = time.monotonic() + 120
        while connection.execute(older, now).fetchone() == (True,):
            assert time.monotonic() < until, "a transaction of another test does not end"
            time.sleep(0.05)

    def place(self) -> str:
        row = self.planner.connection.execute("select pg_current_snapshot()::text").fetchone()
        assert row is not None
        return str(row[0])

    def statements(self) -> dict[str, dict[str, Any]]:
        between = {"old": self.old or "3:3:", "new": self.new or "3:3:", "running": RUNNING}
        page = {"after_job": "00000000-0000-0000-0000-000000000000", "after_seq": 0, "limit": 1000}
        return {
            "place": {},
            "newly_visible": between | page | {"tenants": "{default}"},
            "has_many_new": between | {"limit": 100_000},
            "stream_job": {"job": JOBS[1], "tenant": "default", "after": 4_990, "limit": NEW},
        }


@pytest.fixture(scope="module", params=["empty", "full"])
def crowd(request: pytest.FixtureRequest, server_url: str, template_database: str) -> Iterator[Crowd]:
    """Plans are made now or before, while the tables were empty and vacuumed."""
    with own_database(server_url, template_database) as url, planner(url) as found:
        crowd = Crowd(found)
        if request.param == "empty":
            fill(found.connection)
            empty(found.connection)
            for statement, parameters in crowd.statements().items():
                found.plan_of(statement, parameters)
        crowd.fill()
        yield crowd


@pytest.mark.parametrize("name", ["place", "newly_visible", "has_many_new", "stream_job"])
def test_a_stream_reads_no_more_events_than_are_new(crowd: Crowd, name: str) -> None:
    plan = crowd.planner.plan_of(name, crowd.statements()[name])
    scans = re.findall(r"Scan.* on (\w+)[^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)", plan)
    read = {
        table: sum(float(rows) * int(loops) for found, rows, loops in scans if found == table) for table, _, _ in scans
    }
    removed = sum(int(rows) for rows in re.findall(r"Rows Removed by (?:Join )?Filter: (\d+)", plan))
    assert read.get("events", 0) > 0, plan
    assert read["events"] + removed <= NEW + 1, plan
    assert read.get("jobs", 0) <= NEW, plan
    assert "Seq Scan on events" not in plan and "Seq Scan on jobs" not in plan, plan
