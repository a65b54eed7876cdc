"""The details of one job over HTTP: maps, timelines, generations, single tasks, failures and results."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from holdfast.errors import Permanent
from holdfast.store.job_read_rows import RunRow
from holdfast.views.details import merged_runs
from tests.conftest import eventually
from tests.running import registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

INPUTS = {
    "broken": {"type": "array", "default": [7, 8, 30]},
    "items": {"type": "array", "default": list(range(50))},
}
FIFTY = {
    "workflow_id": "fifty",
    "inputs": INPUTS,
    "nodes": {
        "each": {
            "type": "fan_out",
            "source": "{{ inputs.items }}",
            "task": {
                "handler": "work",
                "params": {"item": "{{ item }}", "broken": "{{ inputs.broken }}"},
                "retry": {"max_retries": 0},
            },
            "next": "all",
        },
        "all": {"type": "fan_in", "aggregation": "collect"},
    },
}
ONE = {"workflow_id": "one", "nodes": {"first": {"handler": "retrying"}, "second": {"handler": "echo"}}}
HELD = {
    "workflow_id": "held",
    "nodes": {"each": {"type": "fan_out", "source": "{{ [0, 1, 2, 3] }}", "task": {"handler": "wait_for_leave"}}},
}
LINE = "many words that a handler prints\n"
LEAVE = threading.Event()


def work(item: int, broken: list[int], *, ctx: Any) -> dict[str, Any]:
    if item in broken:
        raise Permanent(f"item {item} is bad", code="ODD" if item % 2 else "EVEN")
    return {"item": item, "padding": "x" * 100}


def retrying(*, ctx: Any) -> str:
    print(LINE * 5000, end="")
    ctx.checkpoint("half", {"attempt": ctx.attempt})
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    return "large " * 20_000


def wait_for_leave(*, ctx: Any) -> None:
    print("begun", flush=True)
    ctx.progress(1, 2, "waiting")
    assert LEAVE.wait(60)


@asynccontextmanager
async def served(database_url: str) -> AsyncIterator[Service]:
    LEAVE.clear()
    handlers = registry(work=work, retrying=retrying, wait_for_leave=wait_for_leave)
    async with running(database_url, handlers, concurrency=2), serving_http(database_url) as service:
        try:
            yield service
        finally:
            LEAVE.set()


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with served(database_url) as service:
        yield service


@pytest.fixture
async def client(service: Service) -> httpx2.AsyncClient:
    return await service.as_role("operator")


async def submitted(client: httpx2.AsyncClient, definition: dict[str, Any]) -> str:
    answer = await client.post(f"{API}/jobs", json={"definition": definition})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def read(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"{API}/jobs/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pages(client: httpx2.AsyncClient, path: str, **params: Any) -> list[Any]:
    found, cursor = [], None
    while True:
        page = await read(client, path, **params, **({"cursor": cursor} if cursor is not None else {}))
        assert len(page["items"]) <= params.get("limit", 500)
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


async def test_a_map_shows_each_item_of_a_node(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    assert (await ended(client, job_id))["status"] == "failed"
    shown = await read(client, f"{job_id}/nodes/each/map")
    assert shown["items"] == 50
    assert shown["counts"] == {"completed": 47, "failed": 3}
    assert shown["runs"] == [
        ["completed", 7], ["failed", 2], ["completed", 21], ["failed", 1], ["completed", 19],
    ]  # fmt: skip
    assert (await read(client, f"{job_id}/nodes/1/map")) == shown
    single = await read(client, f"{job_id}/nodes/all/map")
    assert (single["items"], [number for _, number in single["runs"]]) == (None, [1])


async def test_a_map_shows_what_runs_and_what_waits(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, HELD)

    async def two_run() -> bool:
        counts = (await read(client, f"{job_id}/nodes/each/map"))["counts"]
        return bool(counts.get("running") == 2)

    await eventually(two_run)
    shown = await read(client, f"{job_id}/nodes/each/map")
    assert sum(shown["counts"].values()) == 4
    assert set(shown["counts"]) <= {"running", "dispatched", "ready"}
    LEAVE.set()
    await ended(client, job_id)
    done = await read(client, f"{job_id}/nodes/each/map")
    assert (done["runs"], done["counts"]) == ([["completed", 4]], {"completed": 4})


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_what_the_items_say_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    made = draw.randrange(0, 40)
    tasks = [draw.choice(["ready", "completed", "failed"]) for _ in range(made)]
    queue = {
        item: draw.choice(["leased", "ready", "waiting", "paused"])
        for item, status in enumerate(tasks)
        if status == "ready" and draw.random() < 0.8
    }
    letters = "".join({"ready": "r", "completed": "c", "failed": "f"}[status] for status in tasks)
    rows = [RunRow("tasks", 0, letters, None), *_rows("queue", queue)]
    rows += [RunRow("last queued", max(queue), queue[max(queue)], None)] if queue else []
    shown = {"leased": "running", "ready": "dispatched", "waiting": "ready", "paused": "ready"}
    wanted = [shown[queue[item]] if item in queue else status for item, status in enumerate(tasks)] + ["pending"] * 3
    runs = merged_runs(rows, made + 3)
    assert [status for status, number in runs for _ in range(number)] == wanted
    assert all(before[0] != after[0] for before, after in pairwise(runs))


def _rows(source: str, statuses: dict[int, str]) -> list[RunRow]:
    """As the statement gives them."""
    rows, previous = [], None
    for item, status in statuses.items():
        if previous is None or statuses[previous] != status or previous != item - 1:
            rows.append(RunRow(source, item, status, previous))
        previous = item
    return rows


async def test_a_timeline_counts_every_task_in_the_bucket_of_its_end(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    job = await ended(client, job_id)
    shown = await read(client, f"{job_id}/timeline", buckets=10)
    assert (shown["since"], shown["until"]) == (job["created_at"], job["finished_at"])
    nodes = {node["node"]: node for node in shown["nodes"]}
    each = nodes["each"]
    assert (sum(one[1] for one in each["buckets"]), sum(one[2] for one in each["buckets"])) == (50, 3)
    assert all(0 <= number < 10 for number, _, _ in each["buckets"])
    assert (each["stage"], each["type"], each["status"]) == (1, "fan_out", "failed")
    begun = (_moment(each["started_at"]) - _moment(shown["since"])).total_seconds()
    assert min(number for number, _, _ in each["buckets"]) >= int(begun / shown["bucket_seconds"])
    span = (_moment(shown["until"]) - _moment(shown["since"])).total_seconds()
    assert shown["bucket_seconds"] == pytest.approx(span / 10, abs=0.001)
    later = await read(client, f"{job_id}/timeline", since="2998-01-01T00:00:00Z", until="2999-01-01T00:00:00Z")
    assert [node["buckets"] for node in later["nodes"]] == [[] for _ in shown["nodes"]]
    for wrong in ({"buckets": 0}, {"buckets": 501}, {"since": "2999-01-01T00:00:00Z"}):
        assert (await client.get(f"{API}/jobs/{job_id}/timeline", params=wrong)).status_code == 422


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_generations_say_what_each_recovery_did_and_how_it_ended(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    await ended(client, job_id)
    wait = {"wait": 20}
    body = {"node": "each", "items": [7], "reason": "try one", "confirm": True}
    assert (await client.post(f"{API}/jobs/{job_id}/clear", params=wait, json=body)).status_code == 200
    await ended(client, job_id)
    corrected = {"inputs": {"broken": []}, "stale": "keep", "reason": "mended", "confirm": True}
    done = await client.post(f"{API}/jobs/{job_id}/resume", params=wait, json=corrected)
    assert done.status_code == 200, done.text
    assert (await ended(client, job_id))["status"] == "completed"
    first, second, third = await pages(client, f"{job_id}/generations", limit=2)
    assert [one["generation"] for one in (first, second, third)] == [1, 2, 3]
    assert (first["verb"], first["ended"], first["actor"], first["code"]) == (None, "failed", None, "ODD")
    assert (second["verb"], second["actor"][:4], second["reason"]) == ("clear", "test", "try one")
    assert (second["tasks"], second["reset"]["each"], second["ended"], second["correction"]) == (1, 1, "failed", None)
    assert (third["verb"], third["ended"], third["code"]) == ("resume", "completed", None)
    assert third["correction"] == {"changed": ["inputs.broken"], "gone": [], "stale": "keep"}
    assert first["ended_at"] <= second["at"] <= second["ended_at"] <= third["at"]


async def test_a_task_shows_what_it_was_given_did_and_made(database_url: str) -> None:
    # Not by the fixture: between the set-up of a test and the test, the test runner replaces the streams.
    async with served(database_url) as service:
        client = await service.as_role("viewer", "submitter")
        job_id = await submitted(client, ONE)
        assert (await ended(client, job_id))["status"] == "completed"
        task = await read(client, f"{job_id}/tasks/first/-1")
    assert (task["node"], task["index"], task["status"], task["attempt"]) == ("first", None, "completed", 2)
    assert (task["has_output"], task["output"]) == (True, "large " * 20_000)
    assert (task["has_params"], task["params"]) == (True, {})
    assert [(one["attempt"], one["outcome"]) for one in task["attempts"]] == [(1, "failed"), (2, "done")]
    assert all(one["log"].startswith(LINE) and len(one["log"]) > 60_000 for one in task["attempts"])
    assert "not yet" in task["attempts"][0]["error"]["message"]
    assert [(one["name"], one["value"]) for one in task["checkpoints"]] == [
        ("half", {"attempt": 1}), ("half", {"attempt": 2}),
    ]  # fmt: skip


async def test_a_running_task_shows_its_progress_and_what_it_prints(database_url: str) -> None:
    async with served(database_url) as service:
        client = await service.as_role("viewer", "submitter")
        job_id = await submitted(client, HELD)

        async def running_item() -> dict[str, Any] | None:
            for index in range(4):
                task: dict[str, Any] = await read(client, f"{job_id}/tasks/each/{index}")
                if task["progress"] is not None and task["attempts"]:
                    return task
            return None

        task = await eventually(running_item)
        LEAVE.set()
    assert task is not None
    assert task["status"] == "running"
    assert (task["progress"]["done"], task["progress"]["text"]) == (1, "waiting")
    (attempt,) = task["attempts"]
    assert (attempt["outcome"], attempt["log"]) == ("running", "begun\n")
    assert task["has_output"] is False and task["output"] is None


async def test_the_own_task_of_a_node_has_the_output_of_the_node(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, {**FIFTY, "inputs": {**INPUTS, "broken": {"type": "array", "default": []}}})
    await ended(client, job_id)
    own = await read(client, f"{job_id}/tasks/each/-1")
    assert (own["status"], own["output"], own["has_params"]) == ("completed", {"fan_out_count": 50}, False)
    item = await read(client, f"{job_id}/tasks/each/7")
    assert (item["output"]["item"], item["params"]) == (7, {"item": 7, "broken": []})
    for missing in ("each/50", "nothing/0", "all/0"):
        assert (await client.get(f"{API}/jobs/{job_id}/tasks/{missing}")).status_code == 404
    for wrong in ("each/-2", "each/x", f"each/{2**31}"):
        assert (await client.get(f"{API}/jobs/{job_id}/tasks/{wrong}")).status_code == 422


async def test_failures_are_grouped_with_their_times_and_lead_to_their_tasks(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    await ended(client, job_id)
    groups = (await read(client, f"{job_id}/nodes/each/failures"))["items"]
    assert [(one["code"], one["number"], one["items"]) for one in groups] == [("EVEN", 2, [8, 30]), ("ODD", 1, [7])]
    assert groups[0]["first_at"] <= groups[0]["last_at"]
    assert groups[1]["first_at"] == groups[1]["last_at"]
    path, alike = f"{job_id}/nodes/each/tasks", groups[0]["fingerprint"]
    assert [one["index"] for one in await pages(client, path, fingerprint=alike, limit=1)] == [8, 30]
    assert [one["index"] for one in await pages(client, path, fingerprint=alike, status="completed")] == []
    assert [one["index"] for one in await pages(client, path, status="failed", limit=2)] == [7, 8, 30]


async def test_results_come_in_pages_that_end_when_they_are_large(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    await ended(client, job_id)
    path = f"{job_id}/results/each"
    found = await pages(client, path, limit=7)
    assert [one["item"] for one in found] == list(range(50))
    assert {one["status"] for one in found if one["item"] in (7, 8, 30)} == {"failed"}
    assert found[49]["output"]["item"] == 49
    assert [one["item"] for one in await pages(client, path, status="failed")] == [7, 8, 30]
    whole = await read(client, path, limit=50)
    assert len(whole["items"]) == 50
    large = await submitted(client, ONE)
    await ended(client, large)
    (one,) = await pages(client, f"{large}/results/first")
    assert one["output"] == "large " * 20_000


PATHS = (
    "nodes/each/map", "timeline", "generations", "tasks/each/0", "tasks/each/-1", "results/each",
    "nodes/each/tasks", "nodes/each/failures", "artifacts", "artifacts/x", "signals/1",
)  # fmt: skip


async def test_another_tenants_job_is_a_job_that_does_not_exist(service: Service, client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    await ended(client, job_id)
    other, nobodys = await service.as_role("admin", tenant="other"), job_id[:-12] + "0" * 12
    for path in PATHS:
        theirs = await other.get(f"{API}/jobs/{job_id}/{path}")
        missing = await client.get(f"{API}/jobs/{nobodys}/{path}")
        assert (theirs.status_code, missing.status_code) == (404, 404), path
        texts = [
            {name: str(value).replace(job, "JOB") for name, value in answer.json().items() if name != "request_id"}
            for answer, job in ((theirs, job_id), (missing, nobodys))
        ]
        assert texts[0] == texts[1], path


async def test_pages_are_no_longer_than_five_hundred(client: httpx2.AsyncClient) -> None:
    job_id = await submitted(client, FIFTY)
    for path in ("generations", "results/each", "nodes/each/tasks", "nodes/each/failures", "artifacts"):
        answers = await asyncio.gather(
            *(client.get(f"{API}/jobs/{job_id}/{path}", params={"limit": limit}) for limit in (0, 501, 10**9))
        )
        assert {answer.status_code for answer in answers} == {422}, path
