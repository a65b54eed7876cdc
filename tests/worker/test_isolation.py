"""Handlers in processes: they behave as in a thread, harm no other when they die, and end when they must."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from holdfast.define.registry import Registry, describe, discover, handler
from holdfast.errors import InvalidInput
from holdfast.remote.task_source import RemoteTaskSource
from holdfast.store.payloads import digest_of
from holdfast.store.postgres import PostgresStore
from tests import sources
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, nodes, running, serving
from tests.service.serving import serving_http
from tests.worker import isolated
from tests.worker.attempts import JOB_ID, data_of, output
from tests.worker.desk import Desk, all_gone, lives

pytestmark = pytest.mark.anyio

HANDLERS = "tests.worker.isolated"
STARTED = 4 if sys.platform == "linux" else 2
"""A stubborn handler's process and those that it starts."""
ROOT = Path(__file__).parent.parent.parent


async def process_ids(path: Path) -> list[int]:
    """The process ids that a handler wrote down."""

    async def written() -> bool:
        return path.exists() and path.read_text() != ""

    await eventually(written)
    return [int(number) for number in path.read_text().split()]


# As in a thread


async def test_a_handler_runs_in_a_process_and_a_group_of_its_own(desk: Desk) -> None:
    first, second = output(await desk.result("where")), output(await desk.result("where"))
    assert os.getpid() not in (first["pid"], second["pid"])
    assert first["pid"] != second["pid"]
    assert first["group"] == first["pid"]
    assert first["thread"], "a library may insist on the main thread"
    assert output(await desk.result("where_async")) != os.getpid()


async def test_a_handler_sees_its_attempt_as_in_a_thread(desk: Desk) -> None:
    report = await desk.result("where", item=4, attempt=2, resume_point=("half", {"at": [1]}), checkpoint_seq=5)
    seen = output(report)
    assert seen["seen"] == [JOB_ID, "n", 4, 2, 3, {"region": "CIV"}, ["half", {"at": [1]}]]
    assert seen["cancelled"] is False
    assert (report.attempt, report.item, report.alone) == (2, 4, False)


async def test_arguments_and_results_are_those_of_a_thread(desk: Desk) -> None:
    assert output(await desk.result("add", {"a": 1, "b": 2})) == 3
    wrong = data_of(await desk.result("add", {"a": "one"}))
    assert (wrong["code"], wrong["class"]) == ("CONTRACT_VIOLATION", "permanent")
    report = await desk.result("tells")
    assert output(report) == {"a": 1}
    assert data_of(report)["extra"]["warnings"] == ["careful"]


@pytest.mark.parametrize("name", ["guarded", "guarded_async"])
async def test_breakers_are_those_of_a_thread(desk: Desk, name: str) -> None:
    report = await desk.result(name, {"name": "gateway"})
    assert (output(report), data_of(report)["calls"]) == ("well", {"gateway": [False]})
    assert data_of(await desk.result(name, {"name": "down"}))["down"] == "down"


async def test_failures_are_those_of_a_thread(desk: Desk) -> None:
    failures = {
        kind: data_of(await desk.result("raises", {"kind": kind})) for kind in ("permanent", "transient", "after")
    }
    assert failures == {
        "permanent": {"code": "GONE", "message": "no", "class": "permanent"},
        "transient": {"code": "BUSY", "message": "later", "class": "transient"},
        "after": {"code": "HANDLER_ERROR", "message": "slow down", "class": "transient", "retry_after_seconds": 30},
    }
    other = data_of(await desk.result("raises", {"kind": "other"}))
    assert (other["code"], other["message"]) == ("HANDLER_ERROR", "ValueError: bad value")
    assert other["log"].startswith("Traceback (most recent call last)")


async def test_whatever_a_handler_raises_is_its_own_failure_as_in_a_thread(desk: Desk) -> None:
    failures = {}
    for kind in ("exit", "interrupt", "generator", "cancelled", "group", "next"):
        for name in ("leaves", "leaves_async"):
            report = await desk.result(name, {"kind": kind})
            assert (report.outcome, data_of(report)["code"]) == ("failed", "HANDLER_ERROR"), kind
            assert "in _leaves" in data_of(report)["log"]
            failures[kind] = (data_of(report)["message"].split(":")[0], data_of(report).get("exit_code"))
    assert failures == {
        "exit": ("SystemExit", 3),
        "interrupt": ("KeyboardInterrupt", None),
        "generator": ("GeneratorExit", None),
        "cancelled": ("CancelledError", None),
        "group": ("BaseExceptionGroup", 4),
        "next": ("RuntimeError", None),
    }
    assert data_of(await desk.result("leaves_in_a_task"))["exit_code"] == 3


async def test_limits_of_the_output_are_those_of_a_thread(desk: Desk) -> None:
    codes = {kind: data_of(await desk.result("gives", {"kind": kind}))["code"] for kind in ("object", "nul", "large")}
    assert codes == {"object": "CONTRACT_VIOLATION", "nul": "PAYLOAD_REFUSED", "large": "PAYLOAD_REFUSED"}
    stored = digest_of(orjson.dumps(isolated.gives_almost_too_much()))
    assert data_of(await desk.result("gives_almost_too_much"))["output_ref"] == stored


async def test_what_a_handler_returns_is_checked_as_in_a_thread(desk: Desk) -> None:
    for kind in ("result", "nan", "deep"):
        data = data_of(await desk.result("returns", {"kind": kind}))
        assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")


async def test_all_that_is_printed_at_any_level_is_kept_in_its_order(desk: Desk) -> None:
    log = data_of(await desk.result("prints"))["log"]
    assert log == "from Python\nto stderr\nto the descriptor\nfrom a program\nfrom C\n"
    log = data_of(await desk.result("floods"))["log"]
    assert len(log) < 70_000
    assert "characters were cut off here …\n" in log
    assert log.endswith("x\n")


async def test_a_handler_that_closes_its_streams_still_reports(desk: Desk) -> None:
    assert output(await desk.result("closes_its_streams", {"fails": False})) == "fine"
    assert data_of(await desk.result("closes_its_streams", {"fails": True}))["message"] == "ValueError: bad value"


async def test_many_run_side_by_side(desk: Desk) -> None:
    reports = await asyncio.gather(*(desk.result("add", {"a": number}) for number in range(20)))
    assert [output(report) for report in reports] == list(range(1, 21))


async def test_a_function_that_no_other_process_can_import_is_refused_for_good() -> None:
    def local() -> int:
        return os.getpid()

    alone = Desk(Registry([describe(local, "local", isolation="process")]))
    data = data_of(await alone.result("local"))
    assert (data["code"], data["class"]) == ("CONTRACT_VIOLATION", "permanent")
    assert "define it at the top level of a module" in data["message"]
    # A suspect that cannot be isolated runs in a thread: it may be innocent.
    shared = Desk(Registry([describe(local, "local")]))
    assert output(await shared.result("local", suspect=True)) == os.getpid()
    for desk in (alone, shared):
        desk.executor.close()


def test_an_isolation_that_does_not_exist_and_a_limit_that_cannot_be_enforced_are_refused() -> None:
    with pytest.raises(InvalidInput, match="isolation='proces'"):
        handler("x", isolation="proces")(lambda: None)
    with pytest.raises(InvalidInput, match="memory_mb=5"):
        handler("x", memory_mb=5)(lambda: None)


# Checkpoints


async def test_checkpoints_are_saved_by_the_worker_before_they_return(desk: Desk) -> None:
    assert output(await desk.result("checkpoints_async", checkpoint_seq=6)) is None
    assert [(seq, name) for seq, name, _ in desk.checkpoints] == [(7, "one"), (8, "two"), (9, "three")]


async def test_a_checkpoint_without_the_lease_ends_the_attempt_without_a_report(desk: Desk) -> None:
    desk.holds = False
    attempt, task = desk.begin("checkpoints", {})
    assert await task is None
    assert attempt.cancelled and attempt.lost


async def test_values_of_python_are_converted_in_the_process_of_the_handler(desk: Desk) -> None:
    assert output(await desk.result("gives_values", {})) == {"day": "2026-01-02", "file": "a/b"}
    assert desk.checkpoints[0][-1] == {"file": "a/b"}


async def test_a_checkpoint_that_cannot_be_saved_raises_in_the_handler(desk: Desk) -> None:
    data = data_of(await desk.result("saves", {"name": "unlucky"}))
    assert data["message"] == "NotAnswered: OSError: the disk is full"


@pytest.mark.usefixtures("each_source")
async def test_a_killed_attempt_goes_on_from_its_checkpoint_and_has_spent_no_retry(database_url: str) -> None:
    flow = """
workflow_id: resumes
nodes:
  work: {handler: checkpoints, retry: {max_retries: 0}}
"""
    async with running(database_url, discover([HANDLERS])) as engine:
        status = await engine.run(flow)
        counts = await engine.query("select retry_count, lost_count, crash_count from holdfast.tasks")
    assert (status["status"], status["result"]) == ("completed", ["two", {"step": 2}])
    assert counts == [(0, 1, 1)]


# Death


@pytest.mark.parametrize(
    ("name", "params", "message", "log"),
    [
        ("segfaults", {}, "the handler's process was killed by signal 11 (SIGSEGV)", "about to fall"),
        ("exits", {"status": 3}, "the handler's process exited with status 3 without a result", None),
    ],
)
async def test_a_process_that_dies_harms_no_other(
    desk: Desk, name: str, params: dict[str, Any], message: str, log: str | None
) -> None:
    report = await desk.result(name, params)
    assert (report.outcome, report.alone, report.output) == ("lost", True, None)
    assert (data_of(report)["message"], data_of(report).get("log")) == (message, log)
    assert output(await desk.result("add", {"a": 1})) == 2


async def test_the_death_of_the_fork_server_is_no_crash_of_the_task(desk: Desk) -> None:
    report = await desk.result("kills_the_fork_server")
    assert (report.outcome, report.alone) == ("lost", False)
    assert output(await desk.result("add", {"a": 1})) == 2


# The end


@pytest.mark.parametrize("reason", ["timed_out", "lost", "interrupted"])
async def test_a_process_that_ignores_everything_is_killed_with_its_children(
    desk: Desk, tmp_path: Path, reason: str
) -> None:
    attempt, task = desk.begin("stubborn", {"path": str(tmp_path / "ids")})
    pids = await process_ids(tmp_path / "ids")
    assert len(pids) == STARTED
    if reason != "interrupted":
        setattr(attempt, reason, True)
    task.cancel()
    report = await task
    assert not lives(pids[0]), "the process has ended before its end is reported"
    await all_gone(pids)
    if reason == "lost":
        assert report is None
    else:
        assert report is not None
        assert report.outcome == ("failed" if reason == "timed_out" else "given_back")
        assert data_of(report).get("code") == ("TIMEOUT" if reason == "timed_out" else None)


async def test_an_attempt_whose_process_is_still_starting_ends_with_the_others(desk: Desk, tmp_path: Path) -> None:
    _, task = desk.begin("obeys", {"path": str(tmp_path / "ids")})
    await asyncio.sleep(0)
    await desk.executor.end_children()
    report = await asyncio.wait_for(task, 30)
    assert report is not None and report.outcome == "given_back"
    assert not (tmp_path / "ids").exists()


async def test_what_a_handler_leaves_behind_ends_with_it(desk: Desk) -> None:
    for falls in (False, True):
        report = await desk.result("leaves_a_child_behind", {"falls": falls})
        await all_gone([int(pid) for pid in data_of(report)["log"].split()])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say whose children they were")
async def test_what_an_attempt_has_started_in_another_session_lives_while_it_runs(desk: Desk, tmp_path: Path) -> None:
    _, task = desk.begin("stubborn", {"path": str(tmp_path / "ids")})
    pids = await process_ids(tmp_path / "ids")
    for _ in range(5):
        assert output(await desk.result("add", {"a": 1})) == 2
        assert all(lives(pid) for pid in pids)
    task.cancel()
    await task
    await all_gone(pids)


async def test_a_process_sees_that_it_is_cancelled(desk: Desk, tmp_path: Path) -> None:
    attempt, task = desk.begin("obeys", {"path": str(tmp_path / "ids")})
    await process_ids(tmp_path / "ids")
    attempt.cancelled = True
    report = await asyncio.wait_for(task, 20)
    assert report is not None
    assert output(report) == "stopped when asked"


STUBBORN = """
workflow_id: hangs
inputs: {path: {type: string}}
nodes:
  hang: {handler: stubborn, params: {path: "{{ inputs.path }}"}}
"""


@pytest.mark.usefixtures("each_source")
async def test_a_cancelled_job_gives_its_process_the_grace_and_then_kills_it(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, discover([HANDLERS]), renew_seconds=0.1, grace_seconds=0.5) as engine:
        job_id = await engine.submit(STUBBORN, {"path": str(tmp_path / "ids")})
        pids = await process_ids(tmp_path / "ids")

        async def progress() -> Any:
            return (await engine.node(job_id, "hang"))["progress"]

        assert (await eventually(progress))["text"] == "hanging"
        await engine.client.cancel(job_id)
        status = await engine.finished(job_id)
        await all_gone(pids)
    assert status["status"] == "cancelled"


@pytest.mark.usefixtures("each_source")
async def test_a_worker_that_stops_kills_after_its_grace_and_only_then_gives_back(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ids"
    alive: list[bool] = []

    source = RemoteTaskSource if sources.kind == sources.HTTP else PostgresStore

    async def report(store: Any, *arguments: Any, real: Any = source.report) -> int:
        if arguments[1]:
            alive.append(lives((await process_ids(path))[0]))
        return int(await real(store, *arguments))

    monkeypatch.setattr(source, "report", report)
    async with client_of(database_url) as engine, serving(database_url, work=False):
        job_id = await engine.submit(STUBBORN, {"path": str(path)})
        async with serving(database_url, discover([HANDLERS]), orchestrate=False, grace_seconds=0.1):
            pids = await process_ids(path)
        await all_gone(pids)
        assert alive == [False]

        async def back() -> bool:
            return any(e["event"] == "node_retry_scheduled" for e in await engine.events(job_id))

        await eventually(back)
        (event,) = [e for e in await engine.events(job_id) if e["event"] == "node_retry_scheduled"]
    assert event["data"]["outcome"] == "given_back"


@asynccontextmanager
async def worker_process(url: str, **settings: Any) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A worker, started from the command line: at the database, or over HTTP."""
    if sources.kind == sources.HTTP:
        async with serving_http(url) as api:
            place = {"HOLDFAST_URL": api.url, "HOLDFAST_API_KEY": await api.key("worker")}
            with _started(place, **settings) as process:
                yield process
        return
    with _started({"HOLDFAST_DATABASE_URL": url}, **settings) as process:
        yield process


@contextmanager
def _started(place: dict[str, str], **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    variables = {f"HOLDFAST_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("holdfast")), "worker", "--handlers", HANDLERS],
        cwd=ROOT,
        env=os.environ | variables | place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("each_source")
async def test_when_a_worker_is_killed_its_processes_end_with_their_children(database_url: str, tmp_path: Path) -> None:
    async with client_of(database_url) as engine, serving(database_url, work=False):
        await engine.submit(STUBBORN, {"path": str(tmp_path / "ids")})
        async with worker_process(database_url) as worker:
            pids = await process_ids(tmp_path / "ids")
            family = [child.pid for child in psutil.Process(worker.pid).children(recursive=True)]
            assert set(pids) < set(family)
            worker.send_signal(signal.SIGKILL)
            await all_gone(family)


# Through the engine


def items(name: str) -> str:
    return f"""
workflow_id: items
inputs: {{path: {{type: string}}}}
nodes:
  each:
    type: fan_out
    importance: optional
    source: "{{{{ [0, 1, 2, 3, 4, 5, 6, 7] }}}}"
    task: {{handler: {name}, params: {{number: "{{{{ item }}}}", path: "{{{{ inputs.path }}}}"}}}}
    next: gather
  gather: {{type: fan_in}}
"""


SQUARES = {"results": [0, 1, 4, 16, 25, 36, 49], "count": 7, "failed": [3]}


def runs(path: Path) -> Counter[int]:
    return Counter(int(line.split()[0]) for line in path.read_text().splitlines())


async def failed_item(engine: Engine, job_id: str) -> tuple[Any, ...]:
    (row,) = await engine.query(
        "select error ->> 'code', error ->> 'message', retry_count, crash_count from holdfast.tasks"
        " where job_id = %s and status = 'failed'",
        job_id,
    )
    return row


@pytest.mark.usefixtures("each_source")
async def test_an_item_that_crashes_every_time_is_quarantined_and_the_others_run_once(
    database_url: str, tmp_path: Path
) -> None:
    notes = tmp_path / "runs"
    async with running(database_url, discover([HANDLERS])) as engine:
        job_id = await engine.submit(items("falls_isolated"), {"path": str(notes)})
        status = await engine.finished(job_id)
        error = await failed_item(engine, job_id)
        events = [e for e in await engine.events(job_id) if e["index"] == 3 and "message" in (e["data"] or {})]
        attempts = await engine.query("select attempt, outcome, error ->> 'message' from holdfast.attempts")
    died = "the handler's process was killed by signal 11 (SIGSEGV)"
    assert (status["status"], status["result"]) == ("completed", SQUARES)
    assert runs(notes) == Counter(dict.fromkeys(range(8), 1)) + Counter([3])
    assert error == ("QUARANTINED", f"{died}; it has crashed 2 times", 0, 2)
    assert [(e["event"], e["data"]["message"]) for e in events] == [
        ("task_retry_scheduled", died),
        ("task_failed", f"{died}; it has crashed 2 times"),
    ]
    assert sorted(attempts) == [(1, "lost", died), (2, "lost", died)]
    assert nodes(status)["each"]["error"]["code"] == "QUARANTINED"


@pytest.mark.usefixtures("each_source")
async def test_a_task_that_killed_its_worker_runs_isolated_and_is_quarantined_after_two_deaths(
    database_url: str, tmp_path: Path
) -> None:
    notes = tmp_path / "runs"
    async with client_of(database_url) as engine, serving(database_url, work=False, **SHORT_LEASES):
        job_id = await engine.submit(items("falls"), {"path": str(notes)})
        async with worker_process(database_url, **SHORT_LEASES) as first:
            assert await asyncio.to_thread(first.wait, 60) == -signal.SIGSEGV
        async with worker_process(database_url) as second:
            status = await engine.finished(job_id)
            assert second.poll() is None, "it has survived"
        error = await failed_item(engine, job_id)
    assert (status["status"], status["result"]) == ("completed", SQUARES)
    assert error[0] == "QUARANTINED"
    assert error[2:] == (0, 2)
    assert runs(notes)[3] == 3
    assert max(runs(notes).values()) == 3
    assert len({line.split()[1] for line in notes.read_text().splitlines() if line.startswith("3 ")}) == 3
