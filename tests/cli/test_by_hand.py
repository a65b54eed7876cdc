"""The functions of the database send the same signals as the commands."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from tests.cli.conftest import Command

OWN = {"id", "actor", "sent_at"}
"""What differs between two signals that ask for the same."""
VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "resume": ("resume_job", {}),
    "resume --tolerated": ("resume_job", {"tolerated": True}),
    "retry each": ("retry_node", {"node": "each"}),
    "retry each --only": ("retry_node", {"node": "each", "only_this": True}),
    "clear each --item 2 --item 0": ("clear_tasks", {"node": "each", "items": [2, 0]}),
    "clear each --item 1 --only": ("clear_tasks", {"node": "each", "items": [1], "only_this": True}),
    "skip each --yes": ("skip_node", {"node": "each"}),
}
STEERING = {"pause": "pause_job", "cancel --yes": "cancel_job", "unpause": "unpause_job"}


def taken(url: str) -> dict[str, Any]:
    """The signal of a person in the inbox, which is empty afterwards."""
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        (row,) = connection.execute("delete from holdfast.inbox where actor is not null returning *").fetchall()
    assert row["actor"]
    return {column: value for column, value in row.items() if column not in OWN}


def call(url: str, function: str, **arguments: Any) -> None:
    names = [sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder()) for name in arguments]
    statement = sql.SQL("select {}({})").format(sql.Identifier("holdfast", function), sql.SQL(", ").join(names))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, list(arguments.values()))


@pytest.fixture
def job(database: Command) -> str:
    return str(database("run", "items.yaml", "--json").json["job_id"])


@pytest.mark.parametrize("words", VERBS)
def test_a_recovery_is_the_same_signal(database: Command, database_url: str, job: str, words: str) -> None:
    verb, *more = words.split()
    assert database(verb, job, *more, "--reason", "mended", "--detach").code == 0
    command = taken(database_url)
    function, arguments = VERBS[words]
    call(database_url, function, job=job, reason="mended", **arguments)
    assert taken(database_url) == command


def test_a_pause_a_cancel_and_an_unpause_are_the_same_signals(database: Command, database_url: str) -> None:
    job = str(database("submit", "slow.yaml", "--json").json["job_id"])
    for words, function in STEERING.items():
        verb, *more = words.split()
        if verb == "unpause":
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(
                    """update holdfast.jobs set holds = '[{"by": "pause", "name": "ann", "since": 0}]'"""
                )
        assert database(verb, job, *more, "--detach").code == 0
        command = taken(database_url)
        call(database_url, function, job=job)
        assert taken(database_url) == command, verb
