"""Who looks at the details of one job reads that job by an index, and no more of it than the answer has."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.store.reader import INDEX_SETTINGS
from tests.store.plans import Planner, own_database, planner
from tests.store.test_plans import ITEMS, JOBS, fill

FILES = 5_000
"""Per job, as many of one name as of other names."""
ANSWERS = 5_000
QUEUED = 1_000
"""Per job, as `fill` makes them."""
OF_JOB = {"job": JOBS[2], "tenant": "default"}
OF_NODE = OF_JOB | {"node": "n"}
OF_TASK = OF_NODE | {"item": 77}
OF_KEY = OF_JOB | {"key": "key 77"}
FROM_THE_START = {"after_node": "", "after_item": -2, "after_name": ""}
SIGNAL = {"kind": "pause", "actor": "ann@desk", "reason": "", "data": None}
NEW = {"digest": "d", "verb": "pause", "tasks": None}
OF_TENANT = {"tenant": "default", "before": str(uuid.UUID(int=2**128 - 1)), "unacknowledged": False, "walk": 3}
READS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "newest_jobs_of_tenant": (OF_TENANT, {"jobs": 3}),
    "read_generations": (OF_JOB | {"after": 0, "limit": 100}, {"events": 20, "jobs": 2}),
    "read_task": (OF_TASK, {"tasks": 1, "queue": 1, "jobs": 1, "workers": 20}),
    "latest_attempts": (OF_TASK | {"limit": 10, "bytes": 1 << 20}, {"attempts": 10, "jobs": 1}),
    "latest_checkpoints": (OF_TASK | {"limit": 10, "bytes": 1 << 20}, {"checkpoints": 10, "jobs": 1}),
    "read_results": (
        OF_NODE | {"status": None, "after": 5000, "limit": 100, "bytes": 1 << 20},
        {"tasks": 100, "queue": 100, "jobs": 1},
    ),
    "read_tasks": (
        OF_NODE | FROM_THE_START | {"after_node": "n", "after_item": 5000, "status": None, "limit": 100},
        {"tasks": 100, "queue": 100, "jobs": 1, "workers": 2000},
    ),
    "read_artifacts": (
        OF_JOB | FROM_THE_START | {"node": None, "item": None, "name": None, "limit": 100},
        {"artifacts": 100, "jobs": 1},
    ),
    "artifacts_of_name": (
        OF_JOB | {"name": "map 77", "node": None, "item": None, "limit": 21},
        {"artifacts": 1, "jobs": 1},
    ),
    "read_request": (OF_KEY, {"requests": 1, "jobs": 1}),
    "take_request": (OF_KEY | NEW | {"key": "new"}, {"jobs": 1}),
    "send_request": (OF_KEY | SIGNAL, {"requests": 2, "jobs": 1}),
    "read_signal": (OF_JOB | {"signal_id": 77}, {"answers": 1, "inbox": 1, "jobs": 2}),
    "read_submitter": (OF_JOB, {"jobs": 1}),
}
"""Each statement with the most rows that it may read of each table."""
WHOLE_NODE: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "task_runs": (OF_NODE, {"tasks": ITEMS + 1, "queue": QUEUED + 1, "jobs": 4}),
    "failed_items": (OF_NODE | {"limit": 100}, {"tasks": ITEMS, "jobs": 1}),
    "ended_by_time": (
        OF_JOB | {"since": "2001-01-01", "until": "infinity", "seconds": 60.0, "buckets": 60},
        {"tasks": ITEMS, "jobs": 1},
    ),
}
"""These read the tasks of their job, or of their node, and of no other."""


@pytest.fixture(scope="module", params=["empty", "full"])
def crowded(request: pytest.FixtureRequest, server_url: str, template_database: str) -> Iterator[Planner]:
    """Depending on the parameter, plans are made now or before, while the tables were empty."""
    with own_database(server_url, template_database) as url, planner(url) as crowd:
        for name, value in INDEX_SETTINGS.items():
            crowd.connection.execute("select set_config(%s, %s, false)", (name, value))
        if request.param == "empty":
            for statement, (parameters, _) in (READS | WHOLE_NODE).items():
                crowd.plan_of(statement, parameters)
        fill(crowd.connection)
        for statement in (
            "insert into events (job_id, seq, event, data) select j, 1000 * n + 5001 + k,"
            " (array['job_failed', 'job_recovered'])[k], '{}'"
            " from unnest(%(jobs)s::uuid[]) j, generate_series(1, 3) n, generate_series(1, 2) k",
            "insert into attempts (job_id, node, item, attempt, epoch, outcome)"
            " select j, 'n', i, a, a, 'failed' from unnest(%(jobs)s::uuid[]) j, generate_series(0, 199) i,"
            " generate_series(1, 20) a",
            "insert into checkpoints (job_id, node, item, seq, name, epoch)"
            " select j, 'n', i, s, 'c', 1 from unnest(%(jobs)s::uuid[]) j, generate_series(0, 199) i,"
            " generate_series(1, 20) s",
            "insert into artifacts (job_id, node, item, name, digest, bytes, attempt)"
            " select j, 'n', i, case when i %% 2 = 0 then 'tile' else 'map ' || i end, 'd', 1, 1"
            " from unnest(%(jobs)s::uuid[]) j, generate_series(0, %(files)s) i",
            "insert into answers (signal_id, job_id, applied, reason)"
            " select 100000 + n, gen_random_uuid(), true, '' from generate_series(1, %(answers)s) n",
            "insert into requests (job_id, key, digest, verb, signal_id)"
            " select j, 'key ' || n, 'd', 'pause', n from unnest(%(jobs)s::uuid[]) j, generate_series(1, 1000) n",
        ):
            crowd.connection.execute(
                statement.encode(), {"jobs": f"{{{','.join(JOBS)}}}", "files": FILES, "answers": ANSWERS}
            )
        yield crowd


TABLES = "tasks|queue|jobs|events|attempts|checkpoints|artifacts|answers|inbox|requests|workers"


def rows_read(plan: str) -> dict[str, float]:
    """How many rows the scans of each table gave or left out."""
    read: dict[str, float] = {}
    table, loops = "", 1
    for line in plan.splitlines():
        scan = re.search(rf"Scan.* on ({TABLES}) [^(]*\([^)]*\) \(actual rows=([\d.]+) loops=(\d+)\)", line)
        if scan is not None:
            table, loops = scan[1], int(scan[3])
            read[table] = read.get(table, 0) + float(scan[2]) * loops
        elif "Scan on" in line or "Scan using" in line:
            table = ""
        removed = re.search(r"Rows Removed by Filter: (\d+)", line)
        if removed is not None and table:
            read[table] += int(removed[1]) * loops
    return read


@pytest.mark.parametrize("name", READS | WHOLE_NODE)
def test_a_close_look_reads_no_more_rows_than_it_shows(crowded: Planner, name: str) -> None:
    parameters, most = (READS | WHOLE_NODE)[name]
    plan = crowded.plan_of(name, parameters)
    read = rows_read(plan)
    assert read, plan
    assert {table: rows for table, rows in read.items() if rows > most.get(table, 0)} == {}, plan
    assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= {"workers"}, plan


def test_a_look_at_the_generations_reads_few_pages_of_a_job_with_many_events(crowded: Planner) -> None:
    parameters, _ = READS["read_generations"]
    unknown = parameters | {"job": str(uuid.UUID(int=2**100))}
    assert crowded.pages_of("read_generations", parameters) <= crowded.pages_of("read_generations", unknown) + 60
