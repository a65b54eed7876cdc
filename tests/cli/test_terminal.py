"""Names from outside do not steer the terminal of the person who reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psycopg
import pytest

from holdfast.cli.streams import answer_json, harmless
from tests.cli.conftest import Command

STEERING = "\x1b[2J\x07\x7f\x9b\u202e\u2066"
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_what_turns_the_direction_of_text_is_neutralised_as_escapes_are() -> None:
    assert not STEERS.search(harmless(STEERING))
    assert harmless("naïve \u05d0\u05d1 \u200fok\tc\n") == "naïve \u05d0\u05d1 \u200fok\tc\n"


def test_a_file_with_a_hostile_name_is_shown_without_effect(command: Command) -> None:
    for name in (f"good{STEERING}.yaml", f"bad{STEERING}.yaml"):
        Path(name).write_text(Path("flow.yaml").read_text() if name.startswith("good") else "no: workflow\n")
        for words in (["validate"], ["graph"], ["run", "flow.yaml", "--inputs"]):
            ended = command(*words, name)
            assert not STEERS.search(ended.out + ended.err)


def test_a_project_in_a_directory_with_a_hostile_name_is_shown_without_effect(command: Command) -> None:
    ended = command("init", f"new{STEERING}")
    assert ended.code == 0
    assert not STEERS.search(ended.out + ended.err)


def test_a_tenant_with_a_hostile_name_has_no_effect_on_the_list_of_limits(database: Command, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "insert into holdfast.limits (tenant, name, backlog, actor) values (%s, 'tenant', 5, %s)",
            (f"evil{STEERING}", f"me{STEERING}"),
        )
    ended = database("limits")
    assert "evil" in ended.out
    assert not STEERS.search(ended.out + ended.err)


def test_json_has_every_steering_character_as_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"text": "".join(map(chr, [*range(1, 32), *range(127, 160)])) + STEERING + "ünïcode"}
    answer_json(given)
    out = capsys.readouterr().out
    assert not STEERS.search(out)
    assert json.loads(out) == given and "ünïcode" in out
