"""Handlers in processes of their own: they behave as in a thread, die alone, and are gone when they must be."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from holdfast.define.registry import Registry, describe, discover, handler
from holdfast.errors import InvalidInput
from holdfast.store.payloads import digest_of, open_objects
from holdfast.store.postgres import PostgresStore
from holdfast.worker import memory, network
from holdfast.worker.frames import LENGTH
from tests import stores
from tests.conftest import eventually
from tests.running import SHORT_LEASES, Engine, client_of, nodes, running, serving
from tests.worker import isolated
from tests.worker.attempts import DATABASE_URL, JOB_ID, data_of, output
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
    found = {kind: data_of(await desk.result("raises", {"kind": kind})) for kind in ("permanent", "transient", "after")}
    assert found == {
        "permanent": {"code": "GONE", "message": "no", "class": "permanent"},
        "transient": {"code": "BUSY", "message": "later", "class": "transient"},
        "after": {"code": "HANDLER_ERROR", "message": "slow down", "class": "transient", "retry_after_seconds": 30},
    }
    other = data_of(await desk.result("raises", {"kind": "other"}))
    assert (other["code"], other["message"]) == ("HANDLER_ERROR", "ValueError: bad value")
    assert other["log"].startswith("Traceback (most recent call last)")


async def test_whatever_a_handler_raises_is_its_own_failure_as_in_a_thread(desk: Desk) -> None:
    found = {}
    for kind in ("exit", "interrupt", "generator", "cancelled", "group", "next"):
        for name in ("leaves", "leaves_async"):
            report = await desk.result(name, {"kind": kind})
            assert (report.outcome, data_of(report)["code"]) == ("failed", "HANDLER_ERROR"), kind
            assert "in _leaves" in data_of(report)["log"]
            found[kind] = (data_of(report)["message"].split(":")[0], data_of(report).get("exit_code"))
    assert found == {
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
    assert log.endswith("… the rest was cut off\n")


async def test_a_handler_that_closes_its_streams_still_reports(desk: Desk) -> None:
    assert output(await desk.result("closes_its_streams", {"fails": False})) == "fine"
    assert data_of(await desk.result("closes_its_streams", {"fails": True}))["message"] == "ValueError: bad value"


async def test_log_lines_go_to_the_attempt_and_records_to_the_worker(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report = await desk.result("logs")
    assert data_of(report)["log"] == "half way done=3\n"
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("holdfast.handler.logs", "to the worker 7")]


async def test_a_log_record_without_end_is_cut_before_it_is_sent(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert output(await desk.result("logs_without_end")) is None
    (record,) = caplog.records
    assert record.getMessage().endswith("x… (cut off: it has 5,000,000 characters)")
    assert len(record.getMessage()) < 66_000


# What only a hostile process says


def framed(body: bytes, after: bytes = b"") -> str:
    return (LENGTH.pack(len(body)) + body + after).hex()


def report_of(data: Any = None, outcome: Any = "done", output: bytes | None = b"1", **more: Any) -> str:
    size = len(output) if output is not None else None
    report = {"outcome": outcome, "data": {} if data is None else data, "output_bytes": size} | more
    return framed(json.dumps({"report": report, "is_fit": True}).encode(), output or b"")


DIGEST = "0" * 64
HOSTILE = {
    "a list": framed(b"[1]"),
    "null": framed(b"null"),
    "a number": framed(b"5"),
    "an empty map": framed(b"{}"),
    "no JSON": framed(b"\xff\xfe"),
    "no text at all": framed(b""),
    "very deep": framed(b"[" * 100_000),
    "an unknown word": framed(b'{"please": 1}'),
    "a report of 5": framed(b'{"report": 5}'),
    "no report": framed(b'{"report": null, "is_fit": true}'),
    "an unknown outcome": report_of(outcome="splendid"),
    "a death": report_of(outcome="lost"),
    "given back unasked": report_of(outcome="given_back"),
    "data that is no map": report_of(data=[1]),
    "unknown data": report_of(data={"owner": 7}),
    "no output": report_of(output=None),
    "an output that is no JSON": report_of(output=b"{]"),
    "NaN": report_of(output=b"NaN"),
    "an output that is too deep": report_of(output=b"[" * 200 + b"]" * 200),
    "a negative size": report_of(output_bytes=-1),
    "an endless output": report_of(output_bytes=1_500_000_000),
    "an endless message": LENGTH.pack(1_500_000_000).hex(),
    "half an artifact": report_of(data={"artifacts": [{"name": "x"}]}),
    "an artifact by another name": report_of(data={"artifacts": [{"artifact": "a\0", "digest": DIGEST, "bytes": 1}]}),
    "an artifact with a long name": report_of(
        data={"artifacts": [{"artifact": "ä" * 1000, "digest": DIGEST, "bytes": 1}]}
    ),
    "an odd exit code": report_of(data={"code": "A", "message": "b", "exit_code": 10**30}, outcome="failed"),
    "a time that never ends": report_of(data={"retry_after_seconds": 1e300}, outcome="failed"),
    "calls that are none": report_of(data={"calls": {"gateway": 5}}),
    "progress that is none": framed(b'{"progress": 5}'),
    "progress with a large number": framed(b'{"progress": {"done": 1e999, "total": 1, "text": ""}}'),
    "neither a question nor a report": framed(b'{"seq": 5}'),
    "a record that is none": framed(b'{"record": {"name": 5}}'),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the test finds the channel in /proc")
async def test_a_process_that_says_what_no_process_says_fails_its_attempt_and_nothing_else(desk: Desk) -> None:
    for name, raw in HOSTILE.items():
        report = await desk.result("speaks", {"raw": raw})
        data = data_of(report)
        assert (report.outcome, data["code"], data["class"]) == ("failed", "CONTRACT_VIOLATION", "permanent"), name
    assert output(await desk.result("add", {"a": 1})) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the test finds the channel in /proc")
async def test_what_a_process_reports_is_cleaned_as_what_a_handler_raises(desk: Desk) -> None:
    sent = {"code": "A\0B\n" + "C" * 200, "message": "a\0b", "down": "x\0y"}
    data = data_of(await desk.result("speaks", {"raw": report_of(sent, "failed", None)}))
    assert data == {"code": "AB " + "C" * 96 + "…", "message": "ab", "down": "xy"}
    for output_with_nul in (report_of(output=b'"a\\u0000b"'), report_of({"extra": EXTRA_WITH_NUL})):
        data = data_of(await desk.result("speaks", {"raw": output_with_nul}))
        assert (data["code"], data["class"]) == ("PAYLOAD_REFUSED", "permanent")


EXTRA_WITH_NUL = {"warnings": ["a\0b"], "deliverables": {}, "metrics": {}}


async def test_a_process_has_no_connection_of_its_worker(desk: Desk, store: PostgresStore) -> None:
    await store.sweep_inbox()
    mine = [link for link in isolated.descriptors() if link.startswith("socket:")]
    assert mine, "the test itself is connected"
    found = output(await desk.result("descriptors"))
    assert not set(found) & set(mine)
    assert sum(link.startswith("socket:") for link in found) == 1, "the channel to its worker and nothing else"


SECRETS = {
    "HOLDFAST_DATABASE_URL": "postgresql://holdfast:s3cr3t@db/holdfast",
    "HOLDFAST_STORAGE_URL": "az://s3cr3t",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-aws",
    "PGPASSWORD": "s3cr3t-pg",
    "MAPS_TOKEN": "s3cr3t-maps",
}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


async def test_a_process_sees_no_variable_that_might_be_a_secret(secrets: None, desk: Desk) -> None:
    seen = output(await desk.result("sees_surroundings"))
    assert "s3cr3t" not in str(seen)
    assert seen["environment"]["PATH"] == os.environ["PATH"]


async def test_a_process_sees_the_variables_that_its_handler_declares_also_while_it_is_imported(
    secrets: None, desk: Desk
) -> None:
    seen = output(await desk.result("sees_declared"))
    assert {name for name in SECRETS if name in seen["environment"]} == {"AWS_SECRET_ACCESS_KEY", "MAPS_TOKEN"}
    assert seen["at_import"] == SECRETS["MAPS_TOKEN"]


async def test_a_task_that_is_in_a_process_only_because_its_worker_vanished_sees_what_it_would_in_a_thread(
    secrets: None, desk: Desk
) -> None:
    seen = output(await desk.result("in_a_thread", suspect=True))
    assert SECRETS.items() <= seen["environment"].items()


def test_variables_are_declared_by_their_names_and_for_processes_only() -> None:
    with pytest.raises(InvalidInput, match="isolation='thread'"):
        handler("x", environment=("AWS_*",))(lambda: None)
    for wrong in ("AWS_*", ("A=b",), (7,)):
        with pytest.raises(InvalidInput, match="not a tuple of variable names"):
            handler("x", isolation="process", environment=wrong)(lambda: None)  # type: ignore[arg-type]


async def test_only_a_handler_that_declares_it_gets_the_database(desk: Desk) -> None:
    for name in ("uses_the_database", "uses_in_a_thread"):
        assert output(await desk.result(name)) == DATABASE_URL
    for name in ("asks_for_the_database", "asks_in_a_thread"):
        refused = data_of(await desk.result(name))
        assert (refused["code"], refused["class"]) == ("CONTRACT_VIOLATION", "permanent")
        assert f"@handler('{name}', database=True)" in refused["message"]


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
    # That a worker vanished is no fault of its own.
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


@pytest.mark.skipif(not network.is_enforced(), reason="nothing takes the network away here")
async def test_a_handler_without_a_network_reaches_no_address_and_still_reaches_its_worker(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name, reached in (("isolated.reach", True), ("isolated.reach_without_network", False)):
            found = output(await desk.result(name, {"port": port}))
            assert found == {"here": reached, "by_a_thread": reached, "by_a_program": reached, "within": True}
    assert [checkpoint[1] for checkpoint in desk.checkpoints] == ["tried", "tried"]


@pytest.mark.parametrize("kind", stores.KINDS)
async def test_a_handler_without_a_network_stores_and_reads_objects_through_its_worker(
    kind: str, object_store: Callable[[str], stores.Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_store(kind)
    bucket.use(monkeypatch)
    registry = Registry()
    registry.add_module(isolated)
    desk = Desk(registry, open_objects(f"{bucket.address}/payloads"))
    for name in ("publishes_alone", "publishes_alone_async"):
        file = output(await desk.result(name))["file"]
        found = output(await desk.result("fetches_alone", {"file": file}))
        assert found["bytes"] == "tiletile"
        data = data_of(await desk.result("fetches_alone", {"file": file | {"digest": "0" * 64}}))
        assert data["message"].startswith("NotAnswered: PayloadUnavailable: Payload 000000")
    assert list(bucket.objects()) == [f"payloads/{JOB_ID}/{file['digest']}"]
    desk.executor.close()


def test_the_network_can_be_taken_from_a_process_only() -> None:
    with pytest.raises(InvalidInput, match="network=False"):
        handler("x", network=False)(lambda: None)


async def test_checkpoints_are_saved_by_the_worker_before_they_return(desk: Desk) -> None:
    assert output(await desk.result("checkpoints_async", checkpoint_seq=6)) is None
    assert [(seq, name) for seq, name, _ in desk.checkpoints] == [(7, "one"), (8, "two"), (9, "three")]


async def test_a_checkpoint_without_the_lease_ends_the_attempt_without_a_report(desk: Desk) -> None:
    desk.holds = False
    attempt, task = desk.begin("checkpoints", {})
    assert await task is None
    assert attempt.cancelled and attempt.lost


async def test_a_checkpoint_that_cannot_be_saved_is_the_handlers_to_hear(desk: Desk) -> None:
    data = data_of(await desk.result("saves", {"name": "unlucky"}))
    assert data["message"] == "NotAnswered: OSError: the disk is full"


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
async def test_a_process_that_dies_takes_only_itself(
    desk: Desk, name: str, params: dict[str, Any], message: str, log: str | None
) -> None:
    report = await desk.result(name, params)
    assert (report.outcome, report.alone, report.output) == ("lost", True, None)
    assert (data_of(report)["message"], data_of(report).get("log")) == (message, log)
    assert output(await desk.result("add", {"a": 1})) == 2


async def test_a_process_that_uses_too_much_memory_is_killed_with_its_children(desk: Desk) -> None:
    assert output(await desk.result("hoards", {"mb": 10})) == 10
    for report in (await desk.result("hoards", {"mb": 300}), await desk.result("hoards_in_a_child")):
        assert (report.outcome, report.alone) == ("lost", True)
        words = data_of(report)["message"].split()
        assert " ".join(words[:4]) == "the handler's process used"
        assert int(words[4]) > 200
        assert " ".join(words[5:]) == "MB, more than its 200 MB"


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_memory_is_counted_with_that_of_children_and_also_where_there_is_no_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    hoarding = "hoard = b'x' * 50_000_000; print('has it', flush=True); input()"
    missing = 2**22 + 1
    with subprocess.Popen(
        [sys.executable, "-c", program, hoarding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        counted = memory.resident_mb([leader.pid, missing])
        monkeypatch.setattr(memory, "_PROC", Path("/nowhere"))
        for found in (counted, memory.resident_mb([leader.pid, missing])):
            assert found[leader.pid] > 50
            assert found[missing] == 0
        leader.communicate(b"\n")


async def test_the_death_of_what_starts_the_processes_is_no_crash_of_the_task(desk: Desk) -> None:
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


async def test_an_attempt_whose_process_only_starts_ends_with_the_others(desk: Desk, tmp_path: Path) -> None:
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


async def test_a_worker_that_leaves_kills_after_its_grace_and_only_then_gives_back(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ids"
    alive: list[bool] = []

    async def report(store: PostgresStore, *given: Any, real: Any = PostgresStore.report) -> int:
        alive.append(lives((await process_ids(path))[0]))
        return int(await real(store, *given))

    monkeypatch.setattr(PostgresStore, "report", report)
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
    """A worker as people start it."""
    given = {f"HOLDFAST_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("holdfast")), "worker", "--handlers", HANDLERS],
        cwd=ROOT,
        env=os.environ | given | {"HOLDFAST_DATABASE_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


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
