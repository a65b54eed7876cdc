"""Numbers and names that cannot be: refused as bad usage, before anything is started or stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.errors import InvalidInput
from holdfast.store.postgres import PostgresStore
from tests.cli.conftest import Command

RATES = ["1/nan", "1/inf", "1/-inf", "1/1e308", "1/5e-324", "1/0", "9" * 400 + "/1", "9" * 5000 + "/1", "99999999999/1"]
BAD_QUEUES = ["", "a b", "\x1b[31mred", "a\n", "x" * 4000, "../x"]


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: rate[:12])
def test_a_rate_that_cannot_be_kept_is_refused(command: Command, rate: str) -> None:
    ended = command("limits", "set", "queue:q", "--rate", rate)
    assert ended.code == 2
    assert len(ended.err) < 500
    assert not Path(".holdfast").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["limits", "set", "queue:q", "--concurrency", "2147483648"],
        ["limits", "set", "tenant", "--backlog", "99999999999"],
        ["events", "abcdef123456", "--after", "2147483648"],
        ["logs", "abcdef123456", "--item", "2147483648"],
    ],
    ids=" ".join,
)
def test_a_number_beyond_what_a_row_holds_is_refused(command: Command, words: list[str]) -> None:
    assert command(*words).code == 2
    assert not Path(".holdfast").exists()


@pytest.mark.parametrize("queue", BAD_QUEUES, ids=lambda queue: repr(queue)[:12])
@pytest.mark.parametrize("words", [["worker", "--queue"], ["up", "--queue"]], ids=" ".join)
def test_a_name_that_no_queue_can_have_is_refused(command: Command, words: list[str], queue: str) -> None:
    ended = command(*words, queue)
    assert ended.code == 2
    assert "is not a valid queue name" in ended.err and "\x1b" not in ended.err
    assert len(ended.err) < 700
    assert not Path(".holdfast").exists()


@pytest.mark.parametrize("name", ["queue:a b", f"queue:{'x' * 4000}", "queue:\x1b[2J", "x" * 4000])
def test_a_limit_of_a_queue_that_cannot_be_is_refused(command: Command, name: str) -> None:
    ended = command("limits", "set", name, "--concurrency", "1")
    assert ended.code == 2
    assert len(ended.err) < 700


@pytest.mark.parametrize("tenant", ["", "x" * 4000, "\x1b[31mred", "a\u202eb"])
def test_a_name_that_no_tenant_can_have_is_refused(command: Command, tenant: str) -> None:
    ended = command("limits", "set", "tenant", "--tenant", tenant, "--backlog", "1")
    assert ended.code == 2
    assert not Path(".holdfast").exists()


@pytest.mark.anyio
async def test_a_program_is_refused_as_the_command_is(database_url: str) -> None:
    store = PostgresStore(database_url)
    client = Client(store)
    for seconds in (float("nan"), float("inf"), 1e308):
        with pytest.raises(InvalidInput):
            await client.set_limit("queue:q", rate=(1, seconds))
    assert await client.limits() == []
    await store.close()


@pytest.mark.parametrize("region", ["../../x", "x", "civ", ""])
def test_a_demo_of_what_is_no_region_is_refused(command: Command, region: str) -> None:
    ended = command("demo", "flood", "--region", region)
    assert ended.code == 2
    assert "--region: " in ended.err
    assert not Path(".holdfast").exists()
