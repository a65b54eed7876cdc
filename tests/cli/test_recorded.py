"""The JSON answers of every command, compared with recorded ones: keys, values and exit codes do not change.

Texts for people may. After a change that is meant, record the answers again:
`RECORD=1 make test ONLY=tests/cli/test_recorded.py`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from holdfast.cli.app import app
from holdfast.cli.session import AT_THE_DATABASE
from holdfast.operations.scope import current_actor
from tests.cli.conftest import Answer, Command
from tests.marks import rest_in_chaos

FOLDER = Path(__file__).parent / "recorded"

TEXTS = {"detail", "details", "hint", "log", "message", "problem", "reason", "remedy", "script", "text", "title"}
"""Keys whose values are sentences for people; a single word among them is a value like others."""
NUMBERS = {"bytes", "id", "signal_id"}
CHANGING = {
    re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"): None,
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"): "TIME",
    re.compile(r"(?<=--plan-id )[0-9a-f]{16}\b"): "PLAN",
    re.compile(r"whsec_[A-Za-z0-9+/=]+"): "SECRET",
    re.compile(r"^[\w.-]+:\d+$"): "PROCESS",
    re.compile(re.escape(current_actor()) + r"( \(hf_\w{8}\))?"): "PERSON",
    re.compile(r"\bhf_\w{8}(\w{43})?\b"): "KEY",
}
"""What differs between two runs, and what takes its place; jobs are numbered."""

GROUPS: dict[str, Sequence[str]] = {
    "reading": (
        "run flow.yaml",
        "run failing.yaml",
        "run half.yaml",
        "run items.yaml",
        "submit flow.yaml",
        "submit nap.yaml --key mine",
        "submit nap.yaml --key mine",
        "submit flow.yaml --key mine",
        "status",
        "status JOB-1",
        "status JOB-4",
        "status JOB-6",
        "watch JOB-1",
        "watch JOB-2",
        "events JOB-1",
        "events JOB-2 --node second",
        "events JOB-4",
        "logs JOB-1",
        "logs JOB-4",
        "why JOB-1",
        "why JOB-2",
        "why JOB-3",
        "why JOB-4",
        "why JOB-6",
        "breakers",
        "limits",
        "janitor",
        "status 00000000-0000-0000-0000-000000000000",
        "status nothing",
        "logs JOB-1 --node missing",
        "submit --like JOB-1 --input name=Ann --label team=maps",
        "status --label team=maps",
        "status --status failed --workflow items",
        "acknowledge JOB-2 --reason known",
        "acknowledge JOB-1",
        "register nap.yaml",
        "workflows",
        "queues",
        "status --status lost",
    ),
    "data": (
        "run flow.yaml",
        "run items.yaml",
        "output JOB-1 gather",
        "output JOB-1 each --item 1",
        "output JOB-1 short",
        "output JOB-2 each --item 1",
        "output JOB-2 each --item 9",
        "params JOB-1 each --item 1",
        "params JOB-1 gather",
        "params JOB-1 each",
        "results JOB-1 each",
        "results JOB-2 each --status failed",
        "results JOB-2 each --format csv",
        "tasks JOB-2 each --limit 2",
        "tasks JOB-2 each --limit 2 --after 1",
        "logs JOB-2 --node each --item 9",
        "artifacts JOB-1",
        "artifacts JOB-1 --get map.tif",
        "definition JOB-2",
        "definition JOB-2 --generation 7",
        "checkpoints JOB-1 read",
        "checkpoints JOB-1 missing",
    ),
    "verbs": (
        "run failing.yaml",
        "run items.yaml",
        "plan JOB-1 resume",
        "plan JOB-1 retry second",
        "plan JOB-1 rerun first",
        "plan JOB-1 skip second",
        "plan JOB-1 set second --output inputs.json",
        "plan JOB-1 cancel",
        "plan JOB-1 pause",
        "plan JOB-2 clear each --item 1",
        "resume JOB-1 --plan-id 0",
        "resume JOB-1",
        "retry JOB-1",
        "retry JOB-1 second --yes",
        "skip JOB-1 second --yes",
        "set JOB-1 first --output inputs.json --yes",
        "clear JOB-2 each --item 1 --yes --detach",
        "submit slow.yaml",
        "pause JOB-3 --detach",
        "unpause JOB-3 --detach",
        "plan JOB-3 cancel",
        "cancel JOB-3",
        "cancel JOB-3 --yes --reason late",
        "cancel JOB-3 --yes",
        "resume JOB-3 --yes --detach",
        "events JOB-1",
        "events JOB-3",
        "run order.yaml",
        "plan JOB-4 undo",
        "plan JOB-4 undo --from charge",
        "undo JOB-4",
        "undo JOB-4 --from missing --yes",
        "undo JOB-4 --yes --reason tests",
        "tasks JOB-4 charge",
        "plan JOB-4 skip charge",
        "skip JOB-4 charge --yes",
        "undo JOB-4 --yes",
        "undo JOB-1 --yes",
        "status JOB-4",
        "events JOB-4",
        "run strict.yaml",
        "events JOB-5",
        "rerun JOB-1 --from first --yes --detach",
        "retry-stage JOB-1 second --yes --detach",
    ),
    "upkeep": (
        "limits set tenant --backlog 5",
        "limits set queue:default --concurrency 2 --rate 5/1",
        "limits",
        "limits drop queue:default",
        "limits drop queue:default",
        "pause --queue default --reason tests",
        "pause --queue default",
        "limits",
        "queues",
        "unpause --queue default",
        "pause --workflow missing",
        "pause --all --plan",
        "pause --all",
        "pause",
        "limits set queue:default",
        "limits set handler:echo --concurrency 2",
        "breakers open gateway --yes",
        "breakers close gateway --yes",
        "run behind.yaml",
        "breakers open gateway --yes --reason tests",
        "breakers",
        "breakers close gateway --yes",
        "breakers reset gateway --yes",
        "run flow.yaml",
        "janitor --dry-run",
        "janitor --once",
        "prune --dry-run",
        "prune --older-than 0s --yes",
        "prune --older-than soon",
        "migrate",
        "defaults set retry.max_retries=5 timeout_minutes=240 --reason tests",
        "defaults",
        "defaults reset retry.max_retries",
        "defaults set retry.max_retrys=5",
        "defaults set breaker.probes=none retry.max_retries=2",
    ),
    "notify": (
        "webhooks",
        "webhooks add portal https://portal.example/hooks?token=abc --event failed --event node_failed",
        "webhooks add portal https://portal.example/hooks",
        "webhooks add other ftp://portal.example/",
        "webhooks add other https://portal.example/ --event exploded",
        "webhooks",
        "webhooks rotate portal",
        "webhooks enable portal",
        "webhooks enable other",
        "deliveries",
        "deliveries --status lost",
        "deliveries redrive 00000000-0000-4000-8000-000000000000",
        "webhooks remove portal",
        "webhooks remove portal",
        "notify rotate",
        "notify rotate",
        "notify test",
        "notify domains",
        "notify domains Example.org maps.test",
        "notify domains",
        "notify domains --none",
        "notify domains a@b",
    ),
    "schedules": (
        "register flow.yaml",
        "schedules",
        "schedules add night flow --cron 0-0-1-1-* --input name=Ann",
        "schedules add often flow --every 12h --overlap queue --catch-up all",
        "schedules add often flow --every 6h --replace",
        "schedules add often flow --every 6h",
        "schedules add odd missing --every 6h",
        "schedules show night",
        "schedules pause night --reason tests",
        "schedules pause night",
        "schedules trigger night",
        "schedules trigger often",
        "schedules trigger often",
        "schedules unpause night",
        "schedules",
        "schedules remove often",
        "schedules show often",
    ),
    "people": (
        "stats",
        "keys",
        "keys add ci --role submitter --role viewer",
        "keys add ci --role singer",
        "keys",
        "keys revoke hf_missing0",
        "tenants",
        "tenants add acme --queue maps",
        "tenants add acme",
        "tenants",
        "commands",
        "commands run job.prune --input older_than_days=30 --input dry_run=true",
        "commands run job.missing",
        "bootstrap",
        "bootstrap rebuild other",
        "audit",
        "audit --action key",
        "audit --since soon",
    ),
    "files": (
        "completion bash",
        "validate flow.yaml items.yaml",
        "validate wrong.yaml",
        "validate missing.yaml",
        "graph flow.yaml",
        "graph flow.yaml --format mermaid",
        "submit wrong.yaml",
        "submit flow.yaml --inputs inputs.json",
        "init project",
        "init project",
        "unknown",
        "status --unknown",
    ),
}
NOT_RECORDED = {
    "adopt": "it trusts a database that was copied here: tests/cli/test_adopt.py",
    "api": "it runs until it is stopped: tests/cli/test_url.py",
    "doctor": "it says how this machine is: tests/cli/test_doctor.py",
    "orchestrator": "it runs until it is stopped: tests/cli/test_service_logs.py",
    "schema": "its answer is the description of a file, which tests/docs/test_reference.py compares",
    "up": "it runs until it is stopped: tests/cli/test_serve.py",
    "worker": "it runs until it is stopped: tests/cli/test_worker_over_http.py",
}
ORDER = """
workflow_id: order
nodes:
  reserve: {handler: echo, compensate: echo, next: charge}
  charge: {handler: echo, retry: {max_retries: 0}, compensate: fail, next: each}
  each:
    type: fan_out
    source: "{{ [1, 2] }}"
    task: {handler: echo, compensate: echo}
    next: tell
  tell: {handler: echo, next: end}
  end: {type: end}
"""
FILES = {
    "inputs.json": '{"numbers": "none"}',
    "wrong.yaml": "workflow_id: wrong\nnodes:\n  a: {handler: echo, next: b}\n  c: {type: odd}\n",
    "order.yaml": ORDER,
    "strict.yaml": ORDER.replace("workflow_id: order", "workflow_id: strict\non_failure: compensate").replace(
        "handler: echo, next: end", "handler: fail, params: {permanent: true}, next: end"
    ),
    "behind.yaml": "workflow_id: behind\nbreakers: {gateway: {}}\nnodes: {a: {handler: echo, breaker: gateway}}\n",
}


def words(normal: Normal, line: str) -> list[str]:
    """What the shell makes of a line. A - stands for a space within a cron expression."""
    return [
        normal.known(word).replace("-", " ") if word.endswith("-*") else normal.known(word) for word in line.split()
    ]


def test_the_answers_of_every_command_are_recorded() -> None:
    group: Any = get_command(app)
    recorded = {line.split()[0] for lines in GROUPS.values() for line in lines}
    of_apps = {point.name for point in entry_points(group="holdfast.cli")}
    assert set(group.commands) - recorded - of_apps == NOT_RECORDED.keys()


@pytest.mark.parametrize("group", rest_in_chaos(["reading", "data", "upkeep", "notify", "schedules"], "data", "notify"))
def test_the_answers_over_a_url_are_the_same(
    database: Command, served: tuple[str, str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that need the database run there; all others have the URL and a key, and no database."""
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "1")
    for name, text in FILES.items():
        Path(name).write_text(text)
    normal = Normal()
    for recorded in map(json.loads, (FOLDER / f"{group}.jsonl").read_text().splitlines()):
        line = recorded["command"]
        with monkeypatch.context() as environment:
            if line.split()[0] not in AT_THE_DATABASE:
                environment.delenv("HOLDFAST_DATABASE_URL")
                environment.setenv("HOLDFAST_URL", served[0])
                environment.setenv("HOLDFAST_API_KEY", served[1])
            answer = database(*words(normal, line), "--json")
        assert {"command": line, "exit_code": answer.code} | normal.streams(answer) == recorded


@pytest.mark.parametrize("group", GROUPS)
def test_the_answers_are_those_that_were_recorded(
    database: Command, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "1")
    for name, text in FILES.items():
        Path(name).write_text(text)
    normal, answers = Normal(), []
    for line in GROUPS[group]:
        answer = database(*words(normal, line), "--json")
        answers.append({"command": line, "exit_code": answer.code} | normal.streams(answer))
    place = FOLDER / f"{group}.jsonl"
    if os.environ.get("RECORD"):
        place.write_text("".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers))
    recorded = [json.loads(line) for line in place.read_text().splitlines()]
    assert [answer["command"] for answer in answers] == [answer["command"] for answer in recorded]
    for now, before in zip(answers, recorded, strict=True):
        assert now == before


class Normal:
    """Puts the same word in the place of everything that differs between two runs."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def known(self, argument: str) -> str:
        """The id that was called JOB-1, and so on."""
        return next((known for known, name in self._ids.items() if name == argument), argument)

    def streams(self, answer: Answer) -> dict[str, Any]:
        found = {}
        for name, text in (("stdout", answer.out), ("stderr", answer.err)):
            if text:
                found[name] = self.value(_parsed(text))
        return found

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("code") == "UNDONE":
                # Its message names the person.
                value = value | {"fingerprint": "PERSON"}
            return {self._text(name): self.value(item, name) for name, item in value.items()}
        if isinstance(value, list):
            if key == "applied" and value:
                # Each migration adds a number.
                return "NUMBERS"
            return [self.value(item, key) for item in value]
        if isinstance(value, str) and key in TEXTS and " " in value:
            return "TEXT"
        if isinstance(value, str):
            return "PLAN" if key == "plan_id" else self._text(value)
        return 0 if isinstance(value, float) or key in NUMBERS else value

    def _text(self, text: str) -> str:
        for pattern, instead in CHANGING.items():
            text = pattern.sub(instead or self._job, text)
        for job_id, name in self._ids.items():
            text = text.replace(job_id[-8:], name)
        return text

    def _job(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"JOB-{len(self._ids) + 1}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        lines = text.splitlines()
        return [json.loads(line) for line in lines] if all(line.startswith("{") for line in lines) else "TEXT"
