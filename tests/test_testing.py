"""`holdfast.testing`: workflows in a user's own tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Context, InvalidInput, Permanent, Transient, Workflow, handler, testing
from holdfast.embedded import watchdog
from holdfast.testing import run_workflow, run_workflow_async
from tests.marks import IN_CHAOS


@handler("test.double")
def double(x: int) -> int:
    return 2 * x


def doubling() -> Workflow:
    flow = Workflow("doubling", inputs={"numbers": {"type": "array", "default": [1, 2, 3]}})
    flow.fan_out("each", source="{{ inputs.numbers }}", handler=double, params={"x": "{{ item }}"})
    flow.fan_in("total", aggregation="sum", after="each")
    return flow


def test_a_workflow_runs_to_its_end_and_the_result_has_all_details() -> None:
    job = run_workflow(doubling(), {"numbers": [4, 5]})
    assert job.status == "completed"
    assert job.result == {"total": 18, "count": 2}
    assert job.outputs["each"] == {"fan_out_count": 2}
    assert job.nodes["each"]["counts"]["completed"] == 2
    assert [e["seq"] for e in job.events] == list(range(1, len(job.events) + 1))
    assert job.events[-1]["event"] == "job_completed"


def test_a_file_runs_with_functions_as_named_handlers(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("workflow_id: w\nnodes: {a: {handler: mine, params: {x: 3}}}\n")
    assert run_workflow(tmp_path / "w.yaml", handlers={"mine": lambda x: x + 1}).result == 4
    assert run_workflow(str(tmp_path / "w.yaml"), handlers={"mine": lambda x: x - 1}).result == 2


def test_a_stand_in_replaces_the_real_handler() -> None:
    flow = Workflow("w")
    flow.task("a", handler=double, params={"x": 1})
    assert run_workflow(flow, handlers={"test.double": lambda x: "stand-in"}).result == "stand-in"


def test_retries_are_instant_unless_asked_otherwise() -> None:
    attempts: list[float] = []

    @handler("test.flaky")
    def flaky() -> int:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        return len(attempts)

    flow = Workflow("w")
    flow.task("a", handler=flaky, retry={"max_retries": 3, "initial_delay_seconds": 3600, "max_delay_seconds": 3600})
    job = run_workflow(flow)
    assert (job.status, job.result, job.nodes["a"]["attempt"]) == ("completed", 3, 3)
    attempts.clear()
    with pytest.raises(TimeoutError, match="a is ready"):
        run_workflow(flow, timeout=0.5, instant_retries=False)


def test_a_handler_reaches_the_database_of_its_engine(database_url: str) -> None:
    @handler("test.ask", database=True)
    def ask(*, ctx: Context) -> str:
        with psycopg.connect(ctx.database_url) as connection:
            row = connection.execute("select count(*) from holdfast.jobs where job_id = %s", (ctx.job_id,)).fetchone()
        return f"{row}"

    flow = Workflow("w")
    flow.task("a", handler=ask)
    assert run_workflow(flow, database_url=database_url).result == "(1,)"


def test_a_failed_job_is_a_result() -> None:
    @handler("test.broken")
    def broken() -> None:
        raise Permanent("it is broken", code="BROKEN")

    flow = Workflow("w")
    flow.task("a", handler=broken)
    job = run_workflow(flow)
    assert job.status == "failed"
    assert job.error is not None
    assert (job.error["code"], job.error["message"]) == ("BROKEN", "it is broken")


def test_a_failure_with_a_code_that_is_none_fails_its_item_and_nothing_else() -> None:
    """What reaches the database is a code of at most 64 characters, whatever the handler raised."""
    odd: list[Any] = ["c" * 10_000, "A\nB", "A\0B", "💥", 404, ["A"], "\ud800"]

    @handler("test.odd_codes")
    def fails(number: int) -> None:
        raise Permanent("it is broken", code=odd[number])

    flow = Workflow("w")
    flow.fan_out("a", source=f"{{{{ {list(range(len(odd)))} }}}}", handler=fails, params={"number": "{{ item }}"})
    job = run_workflow(flow)
    codes = [event["data"]["code"] for event in job.events if event["event"] == "task_failed"]
    assert (job.status, sorted(codes)) == (
        "failed",
        sorted(["C" * 64, "A_B", "A_B", "HANDLER_ERROR", "E404", "A", "HANDLER_ERROR"]),
    )
    assert job.error is not None and "is not valid: a code has at most 64 characters" in job.error["message"]


def test_the_error_names_a_missing_handler() -> None:
    flow = Workflow("w")
    flow.task("a", handler="ecko")
    with pytest.raises(InvalidInput, match=r"no handler 'ecko'\. Did you mean 'echo'"):
        run_workflow(flow)


def test_the_timeout_of_a_hanging_job_names_its_node(capsys: pytest.CaptureFixture[str]) -> None:
    released = threading.Event()
    flow = Workflow("w")
    flow.task("a", handler="test.hangs")
    try:
        with pytest.raises(TimeoutError, match="a is running"):
            run_workflow(flow, handlers={"test.hangs": lambda: released.wait(60)}, timeout=0.3)
    finally:
        released.set()
    assert run_workflow(doubling()).status == "completed"


def test_a_coroutine_can_run_several_workflows_at_once() -> None:
    async def several() -> list[int]:
        jobs = await asyncio.gather(*(run_workflow_async(doubling(), {"numbers": [n]}) for n in range(3)))
        return [job.result["total"] for job in jobs]

    assert asyncio.run(several()) == [0, 2, 4]


def test_the_callers_own_database_can_be_used(database_url: str) -> None:
    assert run_workflow(doubling(), database_url=database_url).status == "completed"


def test_the_streams_of_the_test_are_restored() -> None:
    before = sys.stdout, sys.stderr
    run_workflow(doubling())
    assert (sys.stdout, sys.stderr) == before


def test_the_example_demo_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parent.parent
    monkeypatch.syspath_prepend(str(root))
    from examples import demo_handlers as demo

    job = run_workflow(
        root / "examples" / "demo.yaml",
        {"files": 25},
        handlers=[demo.inventory, demo.check, demo.publish, demo.complain],
    )
    assert job.status == "completed"
    assert "25 files" in job.result["message"]
    assert any(event["event"] == "task_retry_scheduled" for event in job.events)
    assert job.nodes["complain"]["status"] == "skipped"


def test_a_folder_is_removed_completely_although_the_watchdog_still_uses_it(tmp_path: Path) -> None:
    class Ended:
        def leave(self) -> None:
            """The server has ended, and its watchdog has not noticed yet."""

    home = tmp_path / "holdfast-testing-1"
    home.mkdir()
    for number in range(500):
        (home / f"file-{number}").touch()

    def look() -> None:
        with suppress(FileNotFoundError):
            while True:
                watchdog.is_free(home / "lock")

    looking = threading.Thread(target=look)
    looking.start()
    testing._end(Ended(), home)  # type: ignore[arg-type]
    looking.join(10)
    assert not looking.is_alive()
    assert list(tmp_path.iterdir()) == []


RUNS_ONE = """
from holdfast import Workflow
from holdfast.testing import run_workflow

flow = Workflow("w")
flow.task("a", handler="echo")
assert run_workflow(flow).status == "completed"
"""


@IN_CHAOS
def test_nothing_is_left_in_the_temporary_folder_even_of_a_process_that_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = f"{RUNS_ONE}import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    subprocess.run([sys.executable, "-c", killed], env=environment, check=False)
    (left,) = tmp_path.iterdir()
    deadline = time.monotonic() + 60
    while not watchdog.is_free(left / "server.lock"):
        assert time.monotonic() < deadline, "the watchdog has not stopped the server"
    subprocess.run([sys.executable, "-c", RUNS_ONE], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []


def test_the_timeout_names_the_breaker_that_holds_a_node_and_the_last_error() -> None:
    @handler("test.push")
    def push() -> None:
        raise Transient("connection refused", code="CRM_DOWN")

    flow = Workflow("w", breakers={"crm": {"window_calls": 2, "min_calls": 2, "cooldown_seconds": 3600}})
    flow.task("push", handler=push, breaker="crm", retry={"max_retries": 50})
    message = (
        r"did not end within 3 s: push is held by breaker crm, which opened \d+ s ago: .+;"
        r" the last error is CRM_DOWN: connection refused$"
    )
    with pytest.raises(TimeoutError, match=message):
        run_workflow(flow, timeout=3)
