"""`output`, `params`, `results` and `tasks`: the data of a job on the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import results
from holdfast.cli.words import size
from tests.cli.conftest import Answer, Command, finished, spawn
from tests.cli.test_fleet import until

HANDLERS = """
import time
from pathlib import Path
from holdfast import Context, Permanent, handler

@handler("data.work")
def work(item, ctx: Context):
    if item == 1:
        raise Permanent("item 1 is bad", "ODD")
    return None if item == 2 else {"doubled": 2 * item}

@handler("data.large")
def large(megabytes):
    return ["x" * 1000] * (1000 * megabytes)

@handler("data.wait")
def wait(name):
    Path("waits").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    return name
"""
ITEMS = """
workflow_id: data
inputs: {items: {type: array, default: [0, 1, 2]}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: data.work, params: {item: "{{ item }}"}}
    tolerate: {failures: 1}
    next: gather
  gather: {type: fan_in, next: greet}
  greet: {handler: hello_world, params: {name: "{{ nodes.gather.output.count }} items"}}
"""
BATCHES = """
workflow_id: batches
nodes:
  each: {type: fan_out, source: "{{ [1, 2, 3] }}", task: {handler: echo, params: {n: "{{ item }}"}}, next: all}
  all: {type: fan_in, handler: echo, batch: {size: 2, handler: echo}}
"""
LARGE = "workflow_id: large\nnodes: {a: {handler: data.large, params: {megabytes: 2}}}"
WAITING = """
workflow_id: waiting
nodes:
  first: {handler: data.wait, params: {name: ann}, next: second}
  second: {handler: echo, params: {name: "{{ nodes.first.output }}"}}
"""


@pytest.fixture(autouse=True)
def files() -> None:
    Path("data_handlers.py").write_text(HANDLERS)
    for name, text in {"data": ITEMS, "batches": BATCHES, "large": LARGE, "waiting": WAITING}.items():
        Path(f"{name}.yaml").write_text(text)


def ran(database: Command, file: str) -> str:
    answer = database("run", file, "--handlers", "data_handlers", "--json")
    job_id: str = answer.json["job_id"]
    return job_id


@pytest.fixture
def job(database: Command) -> str:
    return ran(database, "data.yaml")


def test_the_output_of_a_node_is_pretty_json_and_can_be_named_by_its_stage(database: Command, job: str) -> None:
    shown = database("output", job, "gather")
    assert shown.code == 0 and shown.err == ""
    assert shown.json == {"results": [{"doubled": 0}, None], "count": 2, "failed": [1]}
    assert shown.out.startswith('{\n  "')
    assert database("output", job[-8:], "2").out == shown.out
    assert database("output", job, "gather", "--json").json == {
        "job_id": job, "node": "gather", "item": None, "status": "completed", "value": shown.json,
    }  # fmt: skip


def test_an_item_has_an_output_of_its_own(database: Command, job: str) -> None:
    assert database("output", job, "each", "--item", "0").json == {"doubled": 0}
    shown = database("output", job, "each", "--item", "0", "--json").json
    assert (shown["item"], shown["status"], shown["value"]) == (0, "completed", {"doubled": 0})


def test_events_and_logs_take_the_number_of_a_stage(database: Command, job: str) -> None:
    by_name = database("events", job, "--node", "each", "--json").out
    assert by_name and database("events", job, "--node", "1", "--json").out == by_name
    assert database("logs", job, "--node", "1").out == database("logs", job, "--node", "each").out != ""


def test_null_and_no_output_look_different(database: Command, job: str) -> None:
    null = database("output", job, "each", "--item", "2")
    assert (null.code, null.out, null.err) == (0, "null\n", "")
    failed = database("output", job, "each", "--item", "1")
    assert (failed.code, failed.out) == (4, "")
    assert f"Job {job}: each[1] failed, so it has no output." in failed.err
    assert f"holdfast logs {job[-8:]} --node each --item 1" in failed.err
    as_json = database("output", job, "each", "--item", "1", "--json")
    assert (as_json.code, as_json.json["status"], as_json.json["value"]) == (4, "failed", None)


def test_a_fan_out_says_how_many_items_it_has(database: Command, job: str) -> None:
    shown = database("output", job, "each")
    assert (shown.code, shown.json) == (0, {"fan_out_count": 3})
    assert shown.err.splitlines() == [
        "each has 3 items, 0 to 2.",
        f"  → One of them: holdfast output {job[-8:]} each --item 0",
        f"  → All of them: holdfast results {job[-8:]} each",
    ]
    params = database("params", job, "each")
    assert params.code == 2 and "each has 3 items, 0 to 2." in params.err and "--item 0" in params.err


def test_a_fan_out_without_an_output_says_how_many_items_it_has(database: Command) -> None:
    job_id = database("run", "items.yaml", "--json").json["job_id"]
    shown = database("output", job_id, "each")
    assert shown.code == 4
    assert f"Job {job_id}: each failed, so it has no output. each has 3 items, 0 to 2." in shown.err
    job = job_id[-8:]
    assert f"See: holdfast results {job} each, or holdfast output {job} each --item 0" in shown.err


def test_params_are_those_that_attempts_get(database: Command, job: str) -> None:
    assert database("params", job, "greet").json == {"name": "2 items"}
    assert database("params", job, "each", "--item", "1").json == {"item": 1}
    shown = database("params", job, "each", "--item", "1", "--json").json
    assert (shown["status"], shown["value"]) == ("failed", {"item": 1})
    assert database("params", job, "gather").code == 5, "it has no handler"


@pytest.mark.parametrize("words", ["output JOB each --item 99", "params JOB each --item 99"])
def test_an_item_that_does_not_exist_is_not_found(database: Command, job: str, words: str) -> None:
    answer = database(*words.replace("JOB", job).split())
    assert answer.code == 5
    assert f"Job {job} has no item 99 of each. each has 3 items, 0 to 2." in answer.err


@pytest.mark.parametrize("name", ["output", "params", "results", "tasks", "checkpoints"])
def test_a_node_that_does_not_exist_is_not_found(database: Command, job: str, name: str) -> None:
    answer = database(name, job, "eahc")
    assert answer.code == 5 and "no node 'eahc'" in answer.err and "Did you mean 'each'?" in answer.err


def test_an_item_of_a_node_without_items_is_not_found(database: Command, job: str) -> None:
    assert "greet has one task and no items." in database("output", job, "greet", "--item", "0").err
    assert "gather has no items." in database("output", job, "gather", "--item", "0").err


def test_data_of_another_tenant_is_not_found(database: Command, job: str) -> None:
    for words in (
        ["output", job, "gather"],
        ["params", job, "greet"],
        ["results", job, "each"],
        ["tasks", job, "each"],
    ):
        answer = database(*words, "--tenant", "acme")
        assert (answer.code, answer.out) == (5, ""), words


def test_what_runs_and_what_has_not_started_has_no_output_yet(database: Command, database_url: str) -> None:
    process = spawn("run", "waiting.yaml", "--handlers", "data_handlers", HOLDFAST_DATABASE_URL=database_url)
    until(Path("waits").exists)
    job_id = database("status", "--json").json["jobs"][0]["job_id"]
    running = database("output", job_id, "first")
    assert running.code == 4 and "first has no output yet: it is running." in running.err
    assert database("params", job_id, "first").json == {"name": "ann"}
    later = database("output", job_id, "second")
    assert later.code == 4 and "second has no output yet: it has not started." in later.err
    params = database("params", job_id, "second")
    assert params.code == 4 and "second has no params yet: they are made when it starts" in params.err
    assert "second has no tasks yet: it is pending." in database("tasks", job_id, "second").out
    assert "second has no tasks yet: it is pending." in database("results", job_id, "second").err
    early = database("results", job_id, "first", "--status", "completed").err.splitlines()
    assert early == [
        "No task of first has the status completed.",
        "first has not ended: it is running. More of its tasks may become completed.",
    ]
    (task,) = database("tasks", job_id, "first", "--json").json["tasks"]
    assert (task["status"], task["attempt"], task["worker"] is None) == ("running", 1, False)
    Path("go").touch()
    assert finished(process).code == 0
    assert database("output", job_id, "first").json == "ann"


def test_a_large_output_is_read_from_the_object_store_and_needs_a_file(database: Command) -> None:
    job_id = ran(database, "large.yaml")
    refused = database("output", job_id, "a")
    assert (refused.code, refused.out) == (4, "")
    assert f"The output of a of job {job_id} is too large for a terminal" in refused.err
    assert f"holdfast output {job_id[-8:]} a --to FILE" in refused.err
    written = database("output", job_id, "a", "--to", "a.json")
    assert (written.code, written.out) == (0, "") and "Wrote 2." in written.err
    assert json.loads(Path("a.json").read_text()) == ["x" * 1000] * 2000
    assert database("output", job_id, "a", "--to", "-").json == ["x" * 1000] * 2000


def test_a_file_is_written_whole_or_not_at_all(database: Command, job: str) -> None:
    Path("old.json").write_text("old")
    assert database("output", job, "each", "--item", "1", "--to", "old.json").code == 4
    assert Path("old.json").read_text() == "old"
    Path("link.json").symlink_to("old.json")
    assert database("output", job, "gather", "--to", "link.json").code == 0
    assert Path("link.json").is_symlink() and json.loads(Path("old.json").read_text())["count"] == 2
    os.mkfifo("pipe")
    for bad in ("pipe", ".", "missing/a.json", "/proc/a.json"):
        answer = database("results", job, "each", "--to", bad)
        assert answer.code in (2, 6) and f"--to: {bad}" in answer.err
    assert not list(Path().glob(".*.draft"))


def test_results_are_lines_an_array_or_a_table(database: Command, job: str) -> None:
    place = {"job_id": job, "node": "each"}
    rows = [
        place | {"item": 0, "status": "completed", "attempts": 1, "code": None, "output": {"doubled": 0}},
        place | {"item": 1, "status": "failed", "attempts": 1, "code": "ODD", "output": None},
        place | {"item": 2, "status": "completed", "attempts": 1, "code": None, "output": None},
    ]
    assert database("results", job[-8:], "1").lines == rows
    assert database("results", job, "each").lines == rows
    assert database("results", job, "each", "--format", "json").json == rows
    assert database("results", job, "each", "--json").json == rows
    table = database("results", job, "each", "--format", "csv").out
    assert list(csv.reader(io.StringIO(table))) == [
        ["job_id", "node", "item", "status", "attempts", "code", "output"],
        [job, "each", "0", "completed", "1", "", '{"doubled": 0}'],
        [job, "each", "1", "failed", "1", "ODD", ""],
        [job, "each", "2", "completed", "1", "", "null"],
    ]
    assert database("results", job, "each", "--format", "csv", "--to", "each.csv").out == ""
    assert Path("each.csv").read_text() == table
    assert database("results", job, "each", "--status", "failed").lines == rows[1:2]
    assert [row["output"]["name"] for row in database("results", job, "greet").lines] == ["2 items"]


def test_a_file_of_results_is_reported_with_their_number_and_with_the_file_that_it_replaced(
    database: Command, job: str
) -> None:
    assert database("results", job, "each", "--to", "each.jsonl").err.startswith("Wrote 3 results, ")
    before = size(Path("each.jsonl").stat().st_size)
    failed = database("results", job, "each", "--status", "failed", "--to", "each.jsonl")
    after = size(Path("each.jsonl").stat().st_size)
    assert failed.err == f"Wrote 1 result, {after}, to each.jsonl. It replaced a file of {before}.\n"
    assert [json.loads(line)["item"] for line in Path("each.jsonl").read_text().splitlines()] == [1]
    none = database("results", job, "each", "--status", "skipped", "--to", "none.jsonl")
    assert none.err == "Wrote 0 results, 0 B, to none.jsonl.\nNo task of each has the status skipped.\n"


def test_ctrl_c_leaves_no_half_a_file(database: Command, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("each.jsonl").write_text("old")

    drafts: list[Path] = []

    def pressed(value: Any) -> str:
        # Only once: a second press would end the process at once.
        if not drafts:
            drafts.extend(Path().glob(".*.draft"))
            os.kill(os.getpid(), signal.SIGINT)
        return json.dumps(value)

    monkeypatch.setattr(results, "json_text", pressed)
    assert database("results", job, "each", "--to", "each.jsonl").code == 130
    assert drafts, "it should have begun to write"
    assert Path("each.jsonl").read_text() == "old"
    assert not list(Path().glob(".*.draft"))


def test_results_without_tasks_say_so(database: Command, job: str) -> None:
    none = database("results", job, "each", "--status", "cancelled", "--format", "json")
    assert (none.code, none.json) == (0, []) and "No task of each has the status cancelled." in none.err
    gathered = database("results", job, "gather", "--format", "csv")
    assert gathered.out == "job_id,node,item,status,attempts,code,output\n"
    assert f"gather has no tasks. Its output: holdfast output {job[-8:]} gather" in gathered.err
    failed = database("run", "failing.yaml", "--json").json["job_id"]
    assert database("results", failed, "third").err == "third has no tasks: it is cancelled.\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--format xml", "'xml' is not a format"),
        ("--format csv --json", "--json and --format csv exclude each other"),
        ("--status lost", "'lost' is not the status of a task"),
    ],
)
def test_a_wrong_flag_of_results_is_refused(database: Command, job: str, flags: str, message: str) -> None:
    answer = database("results", job, "each", *flags.split())
    assert answer.code == 2 and message in answer.err


def test_the_batches_of_a_fan_in_are_its_items(database: Command) -> None:
    job_id = ran(database, "batches.yaml")
    assert [row["item"] for row in database("results", job_id, "all").lines] == [None, 0, 1]
    assert database("output", job_id, "all", "--item", "1").code == 0
    assert "all has 2 items, 0 to 1." in database("output", job_id, "all").err
    assert database("params", job_id, "all").code == 0
    listed = database("tasks", job_id, "all").out.splitlines()
    assert [line.split()[0] for line in listed] == ["item", "-", "0", "1"]


def test_tasks_are_listed_page_by_page(database: Command, job: str) -> None:
    shown = database("tasks", job, "each", "--limit", "2")
    heading, first, second = shown.out.splitlines()
    assert heading.split() == ["item", "status", "attempts", "took", "worker", "error"]
    assert first.split()[:3] == ["0", "completed", "1"]
    assert second.split()[:3] == ["1", "failed", "1"] and second.endswith("ODD: item 1 is bad")
    more = f"holdfast tasks {job[-8:]} each --limit 2 --after 1"
    assert more in shown.err
    rest = database(*more.split()[1:])
    assert [line.split()[0] for line in rest.out.splitlines()] == ["item", "2"] and rest.err == ""
    page = database("tasks", job, "1", "--limit", "2", "--json").json
    assert ([task["index"] for task in page["tasks"]], page["after"]) == ([0, 1], 1)
    assert list(page["tasks"][0]) == [
        "node", "index", "status", "attempt", "worker", "started_at", "finished_at", "error",
    ]  # fmt: skip
    assert "after" not in database("tasks", job, "each", "--json").json


def test_lines_of_tasks_are_not_cut_in_a_pipe(database: Command, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "ODD: item 1 is bad" in database("tasks", job, "each").out


def test_tasks_can_be_chosen_by_status(database: Command, job: str) -> None:
    failed = database("tasks", job, "each", "--status", "failed").out.splitlines()
    assert [line.split()[0] for line in failed] == ["item", "1"]
    assert database("tasks", job, "each", "--status", "running").out == "No task of each has the status running.\n"
    assert database("tasks", job, "each", "--status", "lost").code == 2
    assert database("tasks", job, "gather").out == "gather has no tasks.\n"


def test_without_a_database_there_is_no_job(command: Command) -> None:
    for words in ("output", "params", "results", "tasks", "checkpoints"):
        answer: Answer = command(words, "1a2b3c4d", "each", "--json")
        problem: Any = answer.problem
        assert (answer.code, problem["code"]) == (5, "NOT_FOUND")
    assert not Path(".holdfast").exists()
