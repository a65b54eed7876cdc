"""`holdfast why`: every cause that keeps a job from its end, on real processes and a real database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Command
from tests.cli.test_fleet import SHORT_LEASES, Start, node_of, started, status_of, until
from tests.marks import IN_CHAOS

__all__ = ["started"]

CHAIN = """
workflow_id: chain
nodes:
  nap: {handler: sleep, params: {duration_seconds: 600}, next: then}
  then: {handler: echo, next: last}
  last: {handler: echo}
"""
AGAIN = """
workflow_id: again
nodes:
  try:
    handler: fail
    params: {error_message: the tide is out}
    retry: {initial_delay_seconds: 300, max_delay_seconds: 300, jitter: none}
"""
ROUTED = "workflow_id: routed\nnodes: {render: {handler: tiles.render, queue: heavy}}"
WIDE = """
workflow_id: wide
inputs: {items: {type: array}}
nodes:
  each: {type: fan_out, source: "{{ inputs.items }}", task: {handler: sleep, params: {duration_seconds: 600}}}
"""
BEHIND = "workflow_id: behind\nbreakers: {gateway: {}}\nnodes: {call: {handler: echo, breaker: gateway}}"
DOWN = """
workflow_id: down
inputs: {items: {type: array, default: [1, 2, 3, 4]}}
breakers: {gateway: {window_calls: 4, min_calls: 2, cooldown_seconds: 600}}
nodes:
  each:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: fail, breaker: gateway, params: {error_message: Connection refused}}
"""
KEYS = ["node", "index", "cause", "since", "until", "details", "command"]


def submitted(database: Command, name: str, text: str, *more: str) -> str:
    Path(f"{name}.yaml").write_text(text)
    return str(database("submit", f"{name}.yaml", "--json", *more).json["job_id"])


def why(database: Command, job_id: str) -> list[dict[str, Any]]:
    answer = database("why", job_id, "--json")
    assert answer.code == 0
    assert list(answer.json) == ["job_id", "status", "reasons"]
    found: list[dict[str, Any]] = answer.json["reasons"]
    assert all(list(reason) == KEYS for reason in found)
    return found


def causes(database: Command, job_id: str) -> list[tuple[str | None, str]]:
    return [(reason["node"], reason["cause"]) for reason in why(database, job_id)]


def sql(url: str, statement: str, *parameters: Any) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(statement.encode(), parameters).rowcount > 0


def test_no_orchestrator_is_alive(database: Command) -> None:
    job_id = submitted(database, "chain", CHAIN)
    first, then, last = why(database, job_id)
    assert (first["node"], first["cause"], first["command"]) == (None, "no_orchestrator", "holdfast up")
    assert first["since"] is not None
    assert (then["cause"], then["details"], then["command"]) == ("waiting_for_nodes", {"nodes": ["nap"]}, None)
    assert last["details"] == {"nodes": ["then"]}
    text = database("why", job_id[-8:]).out
    assert f"Job {job_id[-8:]} of chain is pending, because:\n  no orchestrator is running" in text
    assert "    → holdfast up\n  then waits for nap\n  last waits for then\n" in text


def test_running_says_where_since_when_and_how_far(database: Command, started: Start) -> None:
    job_id = submitted(database, "chain", CHAIN)
    started("up")
    until(lambda: node_of(database, job_id, "nap")["status"] == "running")
    running, then, last = why(database, job_id)
    assert (running["node"], running["cause"]) == ("nap", "running")
    assert running["since"] is not None
    details = running["details"]
    assert (details["tasks"], details["attempt"], details["worker_alive"]) == (1, 1, True)
    (worker,) = details["workers"]
    assert (then["cause"], last["cause"]) == ("waiting_for_nodes", "waiting_for_nodes")
    assert f"on {worker}, attempt 1" in database("why", job_id).out


def test_a_retry_says_when_and_after_which_error(database: Command, database_url: str, started: Start) -> None:
    job_id = submitted(database, "again", AGAIN)
    started("up")
    (reason,) = until(lambda: [r for r in why(database, job_id) if r["cause"] == "retry_scheduled"])
    assert reason["until"] > reason["since"]
    assert reason["details"]["attempt"] == 2
    assert reason["details"]["error"]["message"] == "the tide is out"
    assert reason["command"] == f"holdfast logs {job_id[-8:]} --node try"
    text = " ".join(database("why", job_id).out.split())
    assert "try is tried again at" in text
    assert "attempt 2, after HANDLER_ERROR: the tide is out" in text
    sql(database_url, "update holdfast.queue set due_at = '2099-12-31 12:00:00'")
    assert "try is tried again at 2099-12-31 12:00:00, attempt 2" in " ".join(database("why", job_id).out.split())


def test_a_breaker_that_opened_by_itself_names_the_last_error(database: Command, started: Start) -> None:
    job_id = submitted(database, "down", DOWN)
    started("up")
    (reason,) = until(lambda: [r for r in why(database, job_id) if r["cause"] == "breaker_open"])
    assert reason["details"]["error"]["message"] == "Connection refused"
    text = " ".join(database("why", job_id).out.split())
    assert "; the last call failed with HANDLER_ERROR: Connection refused; it is tried again at" in text


def test_no_worker_for_the_queue_and_none_for_the_handler(database: Command, started: Start) -> None:
    job_id = submitted(database, "routed", ROUTED)
    started("orchestrator")
    (reason,) = until(lambda: [r for r in why(database, job_id) if r["node"] == "render"])
    assert reason["cause"] == "no_worker_for_queue"
    assert reason["command"] == "holdfast worker --queue heavy --handlers MODULE"
    assert reason["details"] == {"tasks": 1, "first": [], "queue": "heavy", "handler": "tiles.render"}
    started("worker", "--queue", "heavy")
    until(lambda: causes(database, job_id) == [("render", "no_worker_for_handler")])
    assert "no live worker has the handler 'tiles.render'" in database("why", job_id).out


def test_all_slots_are_taken(database: Command, started: Start) -> None:
    job_id = submitted(database, "wide", WIDE, "--input", "items=[1, 2, 3, 4]")
    started("orchestrator")
    started("worker", "--concurrency", "1", HOLDFAST_CLAIM_BATCH="1")
    until(lambda: node_of(database, job_id, "each")["counts"]["running"] == 1)
    waits, runs = sorted(why(database, job_id), key=lambda r: r["cause"])
    assert (waits["cause"], runs["cause"], runs["index"]) == ("limit_reached", "running", 0)
    assert (waits["details"]["tasks"], waits["details"]["first"]) == (3, [1, 2, 3])
    assert (waits["details"]["limit"], waits["details"]["slots"], waits["details"]["busy"]) == ("slots", 1, 1)
    assert waits["command"] == "holdfast worker --queue default"


def test_a_breaker_says_who_holds_it_open_or_when_it_is_tried(
    database: Command, database_url: str, started: Start
) -> None:
    job_id = submitted(database, "behind", BEHIND)
    started("orchestrator")
    until(lambda: database("breakers", "--json").json["breakers"])
    database("breakers", "open", "gateway", "--yes", "--reason", "new cable")
    started("worker")
    (reason,) = until(lambda: [r for r in why(database, job_id) if r["cause"] == "breaker_open"])
    assert (reason["node"], reason["until"]) == ("call", None)
    assert reason["command"] == "holdfast breakers close gateway"
    assert (reason["details"]["breaker"], reason["details"]["state"]) == ("gateway", "open")
    text = " ".join(database("why", job_id).out.split())
    assert f"call is held by breaker gateway, which {reason['details']['held_by']} opened" in text
    assert "new cable → holdfast breakers close gateway" in text
    sql(database_url, "update holdfast.breakers set held = false, until = now() + interval '1 h'")
    (reason,) = why(database, job_id)
    assert (reason["cause"], reason["command"]) == ("breaker_open", None)
    assert reason["until"] > reason["since"]
    assert "it is tried again at" in " ".join(database("why", job_id).out.split())
    sql(database_url, 'update holdfast.breakers set settings = settings || \'{"probe_url": "http://localhost/"}\'')
    assert "its probe finds out when it is well again" in " ".join(database("why", job_id).out.split())


def test_a_limit_says_how_many_run_and_on_whom(database: Command, started: Start) -> None:
    limited = WIDE.replace("workflow_id: wide", "workflow_id: limited").replace(
        "task: {", "task: {concurrency: {limit: 1}, "
    )
    job_id = submitted(database, "limited", limited, "--input", "items=[1, 2, 3, 4]")
    started("orchestrator")
    started("worker")
    until(lambda: node_of(database, job_id, "each")["counts"]["running"] == 1)
    waits, runs = sorted(why(database, job_id), key=lambda r: r["cause"])
    assert (waits["cause"], runs["cause"]) == ("limit_reached", "running")
    assert (waits["details"]["tasks"], waits["details"]["limit"]) == (3, "node:limited.each")
    assert (waits["details"]["concurrency"], waits["details"]["running"]) == (1, 1)
    assert waits["details"]["workers"] == runs["details"]["workers"]
    assert f"1 of 1 run, on {waits['details']['workers'][0]}" in " ".join(database("why", job_id).out.split())


def test_a_rate_says_when_the_next_may_begin(database: Command, started: Start) -> None:
    slow = WIDE.replace("workflow_id: wide", "workflow_id: slow_rate")
    slow = slow.replace("task: {", "task: {rate: {limit: 2, per_seconds: 7200}, ")
    job_id = submitted(database, "slow_rate", slow, "--input", "items=[1, 2, 3, 4]")
    started("orchestrator")
    started("worker")
    until(lambda: node_of(database, job_id, "each")["counts"]["running"] == 2)
    (reason,) = [r for r in why(database, job_id) if r["cause"] == "limit_reached"]
    assert (reason["details"]["limit"], reason["details"]["tasks"]) == ("node:slow_rate.each", 2)
    assert reason["until"] > reason["since"]
    assert "2 may begin in 7200 s, the next at" in " ".join(database("why", job_id).out.split())


def test_an_owner_that_is_gone_is_named_with_the_time_of_its_end(database: Command, started: Start) -> None:
    job_id = submitted(database, "slow", CHAIN)
    owner = started("orchestrator", **SHORT_LEASES)
    until(lambda: (status_of(database, job_id)["owner"] or {}).get("alive"))
    owner.kill()
    (gone,) = until(lambda: [r for r in why(database, job_id) if r["cause"] == "no_orchestrator"])
    assert gone["details"]["owner"].startswith(status_of(database, job_id)["owner"]["name"])
    assert gone["since"] is not None
    assert gone["command"] == "holdfast up"


def test_a_task_whose_worker_is_gone_says_so(database: Command, started: Start) -> None:
    job_id = submitted(database, "chain", CHAIN)
    process = started("up", **SHORT_LEASES)
    until(lambda: node_of(database, job_id, "nap")["status"] == "running")
    process.kill()
    running = until(lambda: [r for r in why(database, job_id) if r["details"].get("worker_alive") is False])
    assert [(r["node"], r["cause"]) for r in running] == [("nap", "running")]
    assert running[0]["details"]["gone_since"] is not None
    assert "which is gone; a lease ends by itself" in database("why", job_id).out


@IN_CHAOS
def test_a_job_that_is_being_stopped_says_until_when_its_tasks_may_run(database: Command, started: Start) -> None:
    Path("handlers.py").write_text(
        "import time\nfrom holdfast import handler\n\n@handler('deaf')\ndef deaf() -> None:\n    time.sleep(600)\n"
    )
    job_id = submitted(database, "deaf", "workflow_id: deaf\nnodes: {a: {handler: deaf}}")
    started("up", "--handlers", "handlers")
    until(lambda: node_of(database, job_id, "a")["status"] == "running")
    database("cancel", job_id, "--yes")
    (reason,) = [r for r in why(database, job_id) if r["node"] == "a"]
    assert (reason["cause"], reason["details"]["stopping"]) == ("running", "cancelled")
    assert reason["until"] is not None
    assert "is running, and is stopping (cancelled), because:" in database("why", job_id).out


def test_an_owner_that_is_gone_while_others_live(database: Command, database_url: str, started: Start) -> None:
    job_id = submitted(database, "chain", CHAIN)
    started("orchestrator", HOLDFAST_OWNER_SCAN_SECONDS="3600")
    until(lambda: status_of(database, job_id)["owner"])
    sql(
        database_url,
        "update holdfast.orchestrators o set ended_at = now(), lease_until = now() from holdfast.jobs j"
        " where j.owner = o.orchestrator_id",
    )
    (gone,) = [r for r in why(database, job_id) if r["node"] is None]
    assert (gone["cause"], gone["command"]) == ("owner_gone", None)
    assert "another orchestrator takes it within seconds" in database("why", job_id).out
    sql(database_url, "delete from holdfast.orchestrators o using holdfast.jobs j where j.owner = o.orchestrator_id")
    assert "drove it and is not known any more; another orchestrator takes it" in database("why", job_id).out


def test_a_job_that_was_set_aside_says_why(database: Command, database_url: str) -> None:
    job_id = submitted(database, "chain", CHAIN)
    sql(database_url, "update holdfast.jobs set reason = 'orchestrator_error: Bug: it cannot be'")
    first, *_ = why(database, job_id)
    assert (first["cause"], first["details"]["problem"]) == ("set_aside", "Bug: it cannot be")


def test_what_only_the_janitor_can_help_is_said(database: Command, database_url: str, started: Start) -> None:
    job_id = submitted(database, "routed", ROUTED)
    started("orchestrator", HOLDFAST_OWNER_LEASE_SECONDS="600")
    until(lambda: causes(database, job_id) == [("render", "no_worker_for_queue")])
    sql(database_url, "delete from holdfast.queue")
    (reason,) = why(database, job_id)
    assert (reason["cause"], reason["command"]) == ("inconsistent", "holdfast janitor --once")
    database("janitor", "--once")
    until(lambda: causes(database, job_id) == [("render", "no_worker_for_queue")])


@pytest.mark.parametrize("items", [100_000])
def test_a_hundred_thousand_items_are_a_few_lines(database: Command, started: Start, items: int) -> None:
    Path("inputs.json").write_text(json.dumps({"items": list(range(items))}))
    job_id = submitted(database, "wide", WIDE, "--inputs", "inputs.json")
    started("orchestrator")
    until(lambda: [r for r in why(database, job_id) if r["details"].get("limit") == "window"])
    queued, window = [r for r in why(database, job_id) if r["node"] == "each"]
    assert (queued["cause"], queued["details"]["tasks"]) == ("no_worker_for_queue", 1000)
    assert queued["details"]["first"] == [0, 1, 2, 3, 4]
    assert (window["cause"], window["details"]) == (
        "limit_reached",
        {"limit": "window", "tasks": 99_000, "first": [1000]},
    )
    text = database("why", job_id).out
    assert len(text.splitlines()) <= 6
    assert "each: 99,000 items from 1000 on wait until those before them are done" in text


def test_a_job_that_ended_says_how_and_why(database: Command) -> None:
    done = database("run", "flow.yaml", "--json").json["job_id"]
    assert why(database, done) == []
    assert "completed after" in database("why", done).out
    failed = database("run", "failing.yaml", "--json").json["job_id"]
    (reason,) = why(database, failed)
    assert (reason["cause"], reason["details"]["error"]["code"]) == ("failed", "HANDLER_ERROR")
    assert reason["command"] == f"holdfast logs {failed[-8:]} --node {reason['node']}"
    assert f"{reason['node']}: HANDLER_ERROR: " in database("why", failed).out
    half = database("run", "half.yaml", "--json").json["job_id"]
    assert [(r["node"], r["cause"]) for r in why(database, half)] == [("extra", "partial")]


def test_a_completed_job_that_is_in_doubt_says_so_everywhere(database: Command, database_url: str) -> None:
    job_id = database("run", "flow.yaml", "--json").json["job_id"]
    node = next(n["node"] for n in database("status", job_id, "--json").json["nodes"] if n["type"] == "task")
    error = {"code": "COUNTERS_DISAGREE", "class": "permanent", "message": "3 and not 2", "node": node}
    sql(database_url, "update holdfast.jobs set error = %s::jsonb where job_id = %s", json.dumps(error), job_id)
    (reason,) = why(database, job_id)
    rerun = f"holdfast rerun {job_id[-8:]} --from {node} --yes"
    assert (reason["cause"], reason["node"], reason["command"]) == ("completed", node, rerun)
    assert "COUNTERS_DISAGREE: 3 and not 2" in database("why", job_id).out
    card = database("status", job_id).out
    assert card.startswith("⚠") and f"⚠ {node}" in card and rerun in card
    (line,) = [line for line in database("status").out.splitlines() if job_id[-8:] in line]
    assert "⚠ completed" in line


def test_a_cancelled_job_says_by_whom(database: Command) -> None:
    job_id = submitted(database, "chain", CHAIN)
    database("cancel", job_id, "--yes", "--reason", "no longer wanted")
    (reason,) = why(database, job_id)
    assert reason["cause"] == "cancelled"
    assert "no longer wanted" in database("why", job_id).out


def test_a_job_that_does_not_exist_is_not_found(database: Command, command: Command) -> None:
    assert database("why", "01a1dec0-52a1-7c3e-9d11-5d2be1f0c9aa").code == 5
    assert command("why", "123456").code == 5


def test_the_session_that_keeps_a_row_of_the_job_locked_is_named_with_what_ends_it(
    database: Command, database_url: str
) -> None:
    job_id = submitted(database, "chain", CHAIN)
    statement = f"select 'hunter2', $x$ hunter3 $x$ from holdfast.jobs where job_id = '{job_id}' for update"
    with psycopg.connect(database_url, application_name="forgetful") as session:
        session.execute(statement.encode())
        pid, user = session.info.backend_pid, session.info.user
        ending = f"select pg_terminate_backend({pid})"
        until(lambda: (None, "locked") in causes(database, job_id))
        (reason,) = [one for one in why(database, job_id) if one["cause"] == "locked"]
        text = database("why", job_id).out
        findings = database("doctor", "--json").json["findings"]
    assert reason["command"] == ending
    assert reason["details"] == {
        "pid": pid,
        "application": "forgetful",
        "user": user,
        "state": "idle in transaction",
        "query": "select '…', '…' from holdfast.jobs where job_id = '…' for update",
        "tables": ["jobs"],
    }
    assert "forgetful (pid" in text
    assert "keeps rows of jobs locked" in " ".join(text.split())
    assert ending in text
    (finding,) = [one for one in findings if one["check"] == "locks"]
    assert finding["grade"] == "warn"
    assert "forgetful (pid" in finding["message"]
    assert finding["remedy"].endswith(ending)
    assert "hunter" not in str((reason, text, finding))
    assert (None, "locked") not in causes(database, job_id)


def test_a_job_that_is_partial_because_failures_are_tolerated_says_so(database: Command, tmp_path: Path) -> None:
    task = "task: {handler: fail, params: {error_message: bad, permanent: true}}"
    node = f'{{type: fan_out, source: "{{{{ [1, 2] }}}}", tolerate: {{failures: 2}}, {task}}}'
    (tmp_path / "tolerant.yaml").write_text(f"workflow_id: tolerant\nnodes:\n  each: {node}\n")
    job = database("run", "tolerant.yaml", "--json").json
    assert (job["status"], job["error"]) == ("partial", None)
    assert (
        "2 of 2 items of each failed (HANDLER_ERROR), and the workflow tolerates that"
        in database("why", job["job_id"]).out
    )
