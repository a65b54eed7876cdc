"""`status`, `watch`, `events`, `logs`: looking at jobs."""

from __future__ import annotations

import asyncio
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

from holdfast.cli.event_lines import event_line
from holdfast.client import Client
from holdfast.define.load import load_file
from holdfast.operations.submitting import new_job
from holdfast.store.postgres import PostgresStore
from holdfast.store.queries import query
from holdfast.views.history import Event
from tests.cli.conftest import Command, finished, spawn

EVENT_KEYS = ["seq", "job_id", "event", "node", "index", "attempt", "at", "data"]


def run(database: Command, file: str = "flow.yaml") -> dict[str, Any]:
    result: dict[str, Any] = database("run", file, "--json").json
    return result


def test_status_shows_the_object_that_run_ended_with(database: Command) -> None:
    ended = run(database)
    assert database("status", ended["job_id"], "--json").json == ended


def test_a_unique_ending_of_an_id_is_enough(database: Command) -> None:
    ended = run(database)
    for length in (6, 8, 12):
        assert database("status", ended["job_id"][-length:], "--json").json["job_id"] == ended["job_id"]


def test_the_id_may_be_written_in_capitals_and_without_dashes(database: Command) -> None:
    ended = run(database)
    written = ended["job_id"].replace("-", "").upper()
    assert database("status", written, "--json").json["job_id"] == ended["job_id"]


def test_an_ending_that_two_jobs_share_is_refused_with_the_candidates(database: Command, database_url: str) -> None:
    ids = ["01a00000-0000-7000-8000-00000abcdef0", "01a00000-0000-7000-8001-00000abcdef0"]
    asyncio.run(_submit_with_ids(database_url, ids))
    answer = database("status", "abcdef0")
    assert answer.code == 4
    assert all(job_id in answer.err for job_id in ids)


async def _submit_with_ids(url: str, ids: list[str]) -> None:
    store = PostgresStore(url)
    try:
        definition = load_file("flow.yaml")
        for job_id in ids:
            await store.submit([new_job(definition, {}, key=job_id)._replace(job_id=job_id)])
    finally:
        await store.close()


def test_the_nodes_carry_every_key_in_the_order_of_the_contract(database: Command) -> None:
    ended = run(database)
    keys = ["node", "stage", "type", "status", "importance", "attempt", "counts", "progress", "retry_at", "held",
            "error", "started_at", "finished_at", "unserved", "by_hand", "stale"]  # fmt: skip
    assert all(list(node) == keys for node in ended["nodes"])
    by_name = {node["node"]: node for node in ended["nodes"]}
    assert by_name["start"]["stage"] is None
    assert by_name["each"]["stage"] == 2
    assert by_name["each"]["progress"] == {"done": 3, "total": 3}
    assert by_name["short"]["status"] == "skipped"


def test_counts_are_the_sums_of_the_nodes_counts(database: Command) -> None:
    ended = run(database)
    assert ended["counts"] == {
        "total": 5, "completed": 5, "failed": 0, "skipped": 0, "cancelled": 0, "running": 0, "queued": 0,
    }  # fmt: skip


def test_the_outcome_sorts_nodes_by_importance_and_names_where_to_resume(database: Command) -> None:
    failed = run(database, "failing.yaml")["outcome"]
    assert list(failed) == [
        "primary", "secondary", "optional", "deliverables", "stages", "resumable", "resume_from", "recovery",
    ]  # fmt: skip
    assert (failed["resumable"], failed["resume_from"]) == (True, "second")
    assert list(failed["stages"]) == ["1"]
    assert failed["stages"]["1"]["success_count"] == 1
    half = run(database, "half.yaml")["outcome"]
    assert [objective["node"] for objective in half["secondary"]] == ["extra"]
    assert half["secondary"][0]["error"]["message"] == "no luck"


def test_status_shows_what_is_declared_to_be_delivered(database: Command, tmp_path: Path) -> None:
    (tmp_path / "maps.yaml").write_text("""
workflow_id: maps
inputs: {region: {type: string, default: CIV}}
nodes:
  draw:
    type: fan_out
    source: "{{ [1, 2, 3] }}"
    task: {handler: echo}
    deliverable: {name: maps, location: "{{ inputs.region | lower }}/"}
  fail: {handler: fail, depends_on: draw, params: {error_message: x, permanent: true}, deliverable: {name: index}}
""")
    job_id = database("submit", "maps.yaml", "--json").json["job_id"]
    assert "Delivered maps: nothing so far" in database("status", job_id).out
    ended = run(database, "maps.yaml")
    assert ended["outcome"]["deliverables"] == {
        "maps": {"count": 3, "location": "civ/", "usable": True},
        "index": {"count": 0, "location": None, "usable": False},
    }
    shown = database("status", ended["job_id"]).out
    assert "Delivered maps: 3 in civ/" in shown
    assert "Delivered index: nothing so far" in shown


def test_an_error_has_its_time_as_rfc_3339(database: Command) -> None:
    error = run(database, "failing.yaml")["error"]
    assert list(error) == ["code", "class", "message", "fingerprint", "node", "index", "attempt", "at", "hint"]
    assert error["at"].endswith("Z")
    datetime.fromisoformat(error["at"])


def test_status_lists_the_newest_jobs_first(database: Command) -> None:
    ids = [run(database)["job_id"] for _ in range(2)]
    assert [job["job_id"] for job in database("status", "--json").json["jobs"]] == ids[::-1]
    assert all(job_id[-8:] in database("status").out for job_id in ids)


def test_looking_sets_up_no_database(command: Command, tmp_path: Path) -> None:
    nothing: list[Any] = []
    assert command("status", "--json").json == {
        "jobs": nothing, "orchestrators": nothing, "workers": nothing, "without_owner": nothing, "unserved": nothing,
    }  # fmt: skip
    assert command("events", "0a1b2c3d").code == 5
    assert not (tmp_path / ".holdfast").exists()


def test_status_of_a_job_without_an_orchestrator_says_so(database: Command) -> None:
    job_id = database("submit", "flow.yaml", "--json").json["job_id"]
    answer = database("status", job_id)
    assert answer.code == 0
    assert "holdfast up" in answer.err


def test_text_from_outside_cannot_steer_the_terminal(database: Command, tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(
        'workflow_id: evil\nnodes: {a: {handler: fail, params: {error_message: "\\e[2Jgone", permanent: true}}}\n'
    )
    answer = database("run", "evil.yaml")
    assert "gone" in answer.out
    assert "\x1b" not in answer.out + answer.err


def test_events_are_one_object_a_line_in_order(database: Command) -> None:
    ended = run(database)
    lines = database("events", ended["job_id"], "--json").lines
    assert all(list(line) == EVENT_KEYS for line in lines)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[0]["event"], lines[-1]["event"]) == ("job_created", "job_completed")
    event = next(line for line in lines if line["event"] == "task_completed")
    assert event["data"]["started_at"].endswith("Z")


def test_events_can_be_narrowed_by_number_and_node(database: Command) -> None:
    job_id = run(database)["job_id"]
    assert database("events", job_id, "--after", "5", "--json").lines[0]["seq"] == 6
    assert {line["node"] for line in database("events", job_id, "--node", "each", "--json").lines} == {"each"}
    assert database("events", job_id, "--node", "nope").code == 5


def test_events_for_people_are_lines(database: Command) -> None:
    answer = database("events", run(database)["job_id"])
    assert "node_dispatched" in answer.out
    assert "each[1]" in answer.out
    assert "first 0, last 2" in answer.out, "not in the order of the database"


def test_events_show_a_long_message_in_full_in_a_pipe_and_in_a_terminal(database: Command, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(100)]
    params = f"{{error_message: {' '.join(words)}, permanent: true}}"
    (tmp_path / "long.yaml").write_text(f"workflow_id: long\nnodes: {{a: {{handler: fail, params: {params}}}}}")
    job_id = database("run", "long.yaml", "--json").json["job_id"]
    piped = next(line for line in database("events", job_id).out.splitlines() if "node_failed" in line)
    assert piped.endswith(" ".join(words)) and "class permanent, message word0" in piped
    (failed,) = [one for one in database("events", job_id, "--json").lines if one["event"] == "node_failed"]
    fields = failed | {"at": datetime.fromisoformat(failed["at"])}
    written = StringIO()
    screen = Console(width=60, file=written, force_terminal=True, color_system=None)
    screen.print(event_line(Event(**fields), screen.width))
    shown = written.getvalue().splitlines()
    assert max(map(len, shown)) <= 60 and "node_failed" in shown[0]
    assert " ".join(line.strip() for line in shown).endswith(" ".join(words))


def test_watch_and_follow_end_with_the_job(database: Command, database_url: str) -> None:
    job_id = database("submit", "flow.yaml", "--json").json["job_id"]
    watching = spawn("watch", job_id, "--json")
    following = spawn("events", job_id, "--follow", "--json")
    serving = spawn("up")
    watched, followed = finished(watching), finished(following)
    serving.terminate()
    assert finished(serving).code == 0
    assert watched.code == 0
    assert watched.lines[-1]["status"] == "completed"
    assert len({str(line) for line in watched.lines}) == len(watched.lines)
    assert followed.lines[-1]["event"] == "job_completed"


@pytest.mark.parametrize(("file", "code"), [("flow.yaml", 0), ("failing.yaml", 1), ("half.yaml", 3)])
def test_watch_of_an_ended_job_ends_with_its_exit_code(database: Command, file: str, code: int) -> None:
    job_id = run(database, file)["job_id"]
    assert database("watch", job_id).code == code
    assert database("status", job_id).code == 0


def test_the_statements_behind_a_status_read_the_first_task_of_a_node_and_those_with_given_params() -> None:
    for name in ("read_job", "read_nodes", "read_queue"):
        text = b" ".join(query(name).split())
        one_node = b"tasks t where t.job_id = any(array[n.job_id]) and t.node = n.node and "
        few = [one_node + b"t.item in (-1, 0)", one_node + b"t.params_given and t.gone is null and "]
        assert text.count(b"tasks") == sum(text.count(one) for one in few)


def test_a_client_in_the_same_database_sees_the_same_job(database: Command, database_url: str) -> None:
    async def submit() -> str:
        store = PostgresStore(database_url)
        try:
            return (await Client(store).submit(load_file("flow.yaml"), {"name": "Dee"})).job_id
        finally:
            await store.close()

    job_id = asyncio.run(submit())
    assert database("status", job_id, "--json").json["inputs"]["name"] == "Dee"


PRINTING_HANDLERS = """
from holdfast import Result, Transient, handler

@handler("prints")
def prints(**params):
    print("hello from the handler \\x1b[31m")
    return Result(1, warnings=("mind the gap",))

@handler("breaks")
def breaks(**params):
    print("before it broke")
    raise ValueError("no such tile")
"""

PRINTING_FLOW = """
workflow_id: printing
nodes:
  a: {handler: prints, next: b}
  b: {handler: breaks, retry: {max_retries: 1, initial_delay_seconds: 0}}
"""


def test_logs_show_what_handlers_printed_and_how_attempts_failed(database: Command, tmp_path: Path) -> None:
    (tmp_path / "printing_handlers.py").write_text(PRINTING_HANDLERS)
    (tmp_path / "printing.yaml").write_text(PRINTING_FLOW)
    ended = database("run", "printing.yaml", "--handlers", "printing_handlers", "--json").json
    shown = database("logs", ended["job_id"]).out
    assert "a  attempt 1  done" in shown
    assert "| hello from the handler" in shown and "\x1b" not in shown
    assert "warning: mind the gap" in shown
    assert shown.count("| before it broke") == 2
    assert "HANDLER_ERROR: ValueError: no such tile" in shown and "Traceback" in shown
    only = database("logs", ended["job_id"], "--node", "a", "--json").lines
    assert [(line["node"], line["index"], line["attempt"], line["outcome"]) for line in only] == [
        ("a", None, 1, "done")
    ]


def test_logs_of_a_quiet_job_say_that_there_is_nothing(database: Command) -> None:
    ended = run(database)
    assert database("logs", ended["job_id"], "--json").out == ""


def test_a_job_that_was_set_aside_says_why(database: Command, database_url: str) -> None:
    job_id = database("submit", "flow.yaml", "--json").json["job_id"]

    async def set_aside() -> None:
        store = PostgresStore(database_url)
        try:
            await store.set_aside(job_id, 1, "KeyError: 'workflow_id'")
        finally:
            await store.close()

    asyncio.run(set_aside())
    shown = database("status", job_id).out
    assert "Set aside" in shown and "KeyError: 'workflow_id'" in shown and "tries again" in shown
    assert database("status", job_id, "--json").json["reason"] == "orchestrator_error: KeyError: 'workflow_id'"


@pytest.fixture
def of_another_version(database: Command, database_url: str) -> dict[str, Any]:
    """A job that failed, under a definition that lacks what this version wants to find in it."""
    ended = run(database, "failing.yaml")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update holdfast.workflows set definition = (definition::jsonb - 'has_result')::json")
    return ended


UNREADABLE = "The definition cannot be read by Holdfast"


def test_status_of_a_job_whose_definition_cannot_be_read_shows_what_is_known(
    database: Command, of_another_version: dict[str, Any]
) -> None:
    answer = database("status", of_another_version["job_id"])
    assert answer.code == 0
    assert "failing failed" in answer.out and "no luck" in answer.out
    assert UNREADABLE in answer.out and "'has_result'" in answer.out and "Another version wrote it" in answer.out
    status = database("status", of_another_version["job_id"], "--json").json
    assert list(status) == list(of_another_version)
    assert UNREADABLE in status["unreadable"]
    assert (status["status"], status["error"]) == ("failed", of_another_version["error"])
    assert {(node["node"], node["status"], node["type"], node["stage"]) for node in status["nodes"]} == {
        ("first", "completed", None, None), ("second", "failed", None, None), ("third", "cancelled", None, None),
    }  # fmt: skip


def test_watch_events_and_logs_of_a_job_whose_definition_cannot_be_read_say_so_and_show_the_rest(
    database: Command, of_another_version: dict[str, Any]
) -> None:
    job_id = of_another_version["job_id"]
    watched = database("watch", job_id)
    assert watched.code == 1 and UNREADABLE in watched.err and "second: failed" in watched.err
    events = database("events", job_id, "--node", "second")
    assert events.code == 0 and UNREADABLE in events.err and "node_failed" in events.out
    logs = database("logs", job_id)
    assert logs.code == 0 and UNREADABLE in logs.err and "no luck" in logs.out


def test_a_workflow_whose_definition_cannot_be_read_is_not_submitted_again(
    database: Command, of_another_version: dict[str, Any]
) -> None:
    answer = database("submit", "failing")
    assert answer.code == 4
    assert UNREADABLE in answer.err and "Another version wrote it" in answer.err


def test_a_long_list_of_jobs_is_read_page_by_page(database: Command) -> None:
    made = [database("submit", "slow.yaml", "--key", key, "--json").json["job_id"] for key in "abc"]
    first = database("status", "--limit", "2", "--json").json
    assert [job["job_id"] for job in first["jobs"]] == made[:0:-1]
    last = database("status", "--limit", "2", "--after", first["after"], "--json").json
    assert ([job["job_id"] for job in last["jobs"]], "after" in last) == (made[:1], False)
    assert f"holdfast status --limit 2 --after {first['after']}" in database("status", "--limit", "2").err
    assert database("status", "--after", "nonsense").code == 2
