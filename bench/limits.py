"""The limit of this machine: what its Postgres can do at most, from Python. Every ratio refers to it."""

from __future__ import annotations

import statistics
import time

import psycopg

ROWS = 20_000

_SETUP = (
    "drop table if exists yardstick",
    "create table yardstick (id bigserial primary key, state smallint not null default 0,"
    " payload jsonb not null default '{}', result jsonb, claimed_at timestamptz, done_at timestamptz)",
    "create index yardstick_ready on yardstick (id) where state = 0",
)
_CLAIM = (
    "update yardstick set state = 1, claimed_at = now() where id = any(array(select id from yardstick"
    " where state = 0 order by id limit %s for update skip locked)) returning id, payload"
)
_COMPLETE = "update yardstick set state = 2, done_at = now(), result = '1' where id = any(%s)"


def claim_and_complete(url: str, claim_size: int, rows: int = ROWS) -> float:
    """Tasks per second that one connection claims and completes, `claim_size` at a time, and nothing else."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for statement in _SETUP:
            connection.execute(statement)
        connection.execute("insert into yardstick (payload) select '{\"a\": 1}' from generate_series(1, %s)", (rows,))
        connection.execute("vacuum analyze yardstick")
        done, started = 0, time.perf_counter()
        while ids := [row[0] for row in connection.execute(_CLAIM, (claim_size,)).fetchall()]:
            connection.execute(_COMPLETE, (ids,))
            done += len(ids)
        seconds = time.perf_counter() - started
        connection.execute("drop table yardstick")
        return done / seconds


def commit_milliseconds(url: str, times: int = 300) -> float:
    """The median time of one small durable commit."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("create table if not exists yardstick_commit (n int)")
        durations = []
        for number in range(times):
            started = time.perf_counter()
            connection.execute("insert into yardstick_commit values (%s)", (number,))
            durations.append(time.perf_counter() - started)
        connection.execute("drop table yardstick_commit")
        return statistics.median(durations) * 1000
