"""Invariant 22 from the outside: whatever the end of a job names as the next command is taken."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from holdfast.cli.commands.verbs import VERBS
from tests.cli.conftest import Command

REFUSED = """
workflow_id: refused
inputs: {items: {type: array, default: [{n: 1}, {}]}}
nodes:
  each: {type: fan_out, source: "{{ inputs.items }}", task: {handler: echo, params: {n: "{{ item.n }}"}}, next: after}
  after: {handler: echo}
"""
GUARDED = """
workflow_id: guarded
nodes:
  extra: {handler: fail, importance: important, params: {error_message: no luck, permanent: true}, next: send}
  beside: {handler: echo}
  send: {handler: echo, rerun: {safe: never}, depends_on: {any_of: [extra, beside]}}
"""
RESULT = "workflow_id: rt\nnodes: {a: {handler: echo}}\nresult: {v: '{{ nodes.a.output.missing }}'}\n"
TOLERATED = """
workflow_id: tolerated
nodes:
  each:
    type: fan_out
    source: "{{ inputs.numbers }}"
    tolerate: {failures: 2}
    task: {handler: fail, params: {error_message: no luck, permanent: true}}
    next: gather
  gather: {type: fan_in, next: send}
  send: {handler: echo, rerun: {safe: never}}
inputs: {numbers: {type: array, default: [1, 2]}}
"""
FILES = {"refused": REFUSED, "guarded": GUARDED, "rt": RESULT, "tolerated": TOLERATED}
KINDS = {
    "failing": ("failed", "resume JOB"),
    "items": ("failed", "resume JOB"),
    "half": ("partial", "resume JOB"),
    "slow": ("cancelled", "resume JOB"),
    "rt": ("failed", "resume JOB"),
    "refused": ("failed", "skip JOB each --yes"),
    "guarded": ("partial", "retry JOB extra --only"),
    "tolerated": ("partial", "retry JOB each --only"),
}


def ended(database: Command, name: str) -> str:
    if name in FILES:
        Path(f"{name}.yaml").write_text(FILES[name])
    if name != "slow":
        return str(database("run", f"{name}.yaml", "--json").json["job_id"])
    job_id = str(database("submit", "slow.yaml", "--json").json["job_id"])
    assert database("cancel", job_id, "--yes").code == 0
    return job_id


@pytest.mark.parametrize("name", KINDS)
def test_the_command_that_the_end_of_a_job_names_is_taken_invariant_22(database: Command, name: str) -> None:
    status, wanted = KINDS[name]
    job_id = ended(database, name)
    found = database("status", job_id, "--json").json
    assert found["status"] == status
    outcome = found["outcome"]
    commands = [one["command"] for one in outcome["recovery"]]
    assert commands[0] == f"holdfast {wanted.replace('JOB', job_id)}"
    assert outcome["resumable"] == wanted.startswith("resume")
    shown = next(line for line in database("status", job_id).out.splitlines() if line.startswith("Next"))
    assert wanted.partition(" ")[0] in shown
    for number, command in enumerate(commands):
        _, *words = shlex.split(command)
        assert database(*words, "--plan").code == 0, command
        if number == 0:
            assert database(*words, "--detach").code == 0, command


def test_what_why_and_a_submission_name_for_a_job_that_ended_is_taken_invariant_22(database: Command) -> None:
    Path("rt.yaml").write_text(RESULT)
    job_id = database("submit", "rt.yaml", "--json").json["job_id"]
    assert database("resume", job_id).code == 1, "it is driven from here, and fails in its result"
    (reason,) = database("why", job_id, "--json").json["reasons"]
    hint = database("submit", "rt.yaml", "--json").json["hint"]
    for command in (reason["command"], hint.rpartition("with: ")[2]):
        _, *words = shlex.split(command)
        assert (words[0], database(*words, "--plan").code) == ("resume", 0)


def test_a_job_that_is_paused_and_stopping_is_not_said_to_need_an_unpause(database: Command) -> None:
    job_id = database("submit", "slow.yaml", "--json").json["job_id"]
    assert database("pause", job_id).code == 0
    with psycopg.connect(os.environ["HOLDFAST_DATABASE_URL"]) as connection:
        connection.execute("update holdfast.jobs set stop_cause = 'cancelled', stop_until = now()")
    reasons = database("why", job_id, "--json").json["reasons"]
    assert "paused" in [reason["cause"] for reason in reasons]
    assert not any("unpause" in (reason["command"] or "") for reason in reasons)


def pending(database: Command) -> str:
    return str(database("submit", "slow.yaml", "--json").json["job_id"])


def paused(database: Command) -> str:
    job_id = pending(database)
    assert database("pause", job_id, "--reason", "lunch").code == 0
    return job_id


def running(database: Command) -> str:
    """Its orchestrator and its worker have ended."""
    job_id = paused(database)
    assert database("unpause", job_id).code == 0
    return job_id


def behind_a_paused_queue(database: Command) -> str:
    assert database("pause", "--queue", "default").code == 0
    return running(database)


SHAPES: dict[str, Callable[[Command], str]] = {
    **{name: partial(ended, name=name) for name in (*KINDS, "flow")},
    "pending": pending,
    "paused": paused,
    "running": running,
    "behind a paused queue": behind_a_paused_queue,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_verb_that_status_and_why_name_is_one_that_the_planner_takes(database: Command, shape: str) -> None:
    job_id = SHAPES[shape](database)
    texts = [database(command, job_id) for command in ("status", "why")]
    named = {
        one
        for text in texts
        for one in re.findall(r"holdfast ([a-z]+(?: [^ \n]+)*)(?:   |$)", text.out + text.err, re.M)
    }
    commands = [shlex.split(one) for one in sorted(named)]
    assert commands, "each says what can be done"
    for words in commands:
        if words[0] in VERBS:
            answer = database(*words, "--plan")
            assert answer.code == 0, (words, answer.err)
        elif words[0] not in ("up", "worker", "watch"):
            assert database(*words).code == 0, words
