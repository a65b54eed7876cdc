"""Rows travel as array literals: Postgres returns every value as it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.store.arrays import jsons, plain, texts

quickly = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
spiky = st.text(st.sampled_from("\\\"{},' nullNULL\n\tä\u2603\U0001f30d"), max_size=20)
# jsonb stores the value of a number, not its spelling: a float beyond 2**53 comes back as an integer.
numbers = st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9, allow_subnormal=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text | spiky,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text | spiky, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def connection(server_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url, autocommit=True) as opened:
        yield opened


def through_postgres(connection: psycopg.Connection, literal: str, kind: str) -> list[Any]:
    row = connection.execute(f"select %s::{kind}[]".encode(), (literal,)).fetchone()
    assert row is not None
    elements: list[Any] = row[0]
    return elements


@quickly
@given(given_texts=st.lists(st.none() | text | spiky, max_size=8))
def test_any_text_and_none_come_back(connection: psycopg.Connection, given_texts: list[str | None]) -> None:
    assert through_postgres(connection, texts(given_texts), "text") == given_texts


@quickly
@given(given_values=st.lists(values, max_size=6))
def test_any_json_value_comes_back(connection: psycopg.Connection, given_values: list[Any]) -> None:
    """None stands for SQL null; the JSON value null must be passed as JSON text."""
    answer = connection.execute(
        "select array_agg(v::text order by n) from unnest(%s::jsonb[]) with ordinality as t (v, n)",
        (jsons(given_values),),
    ).fetchone()
    assert answer is not None
    assert [None if v is None else orjson.loads(v) for v in answer[0] or []] == given_values


@quickly
@given(given_values=st.lists(values, min_size=1, max_size=4))
def test_json_text_is_passed_on_unchanged(connection: psycopg.Connection, given_values: list[Any]) -> None:
    literal = jsons([orjson.dumps(value) for value in given_values])
    assert through_postgres(connection, literal, "jsonb") == given_values


def test_the_word_null_and_none_stay_different(connection: psycopg.Connection) -> None:
    assert through_postgres(connection, texts(["null", None, "NULL", ""]), "text") == ["null", None, "NULL", ""]
    rows = connection.execute(
        "select v::text from unnest(%s::jsonb[]) as v", (jsons([b"null", None, "null"]),)
    ).fetchall()
    assert rows == [("null",), (None,), ('"null"',)]


def test_a_nul_character_is_dropped_from_texts(connection: psycopg.Connection) -> None:
    assert through_postgres(connection, texts(["a\0b", "\0"]), "text") == ["ab", ""]


def test_plain_values_need_no_quoting(connection: psycopg.Connection) -> None:
    assert through_postgres(connection, plain([1, None, -3]), "int") == [1, None, -3]
    assert through_postgres(connection, plain([True, False, None]), "boolean") == [True, False, None]
    assert through_postgres(connection, plain([1e-7, 1e300, -0.5, None]), "float8") == [1e-7, 1e300, -0.5, None]
    assert through_postgres(connection, plain([]), "text") == []
    assert through_postgres(connection, plain(n for n in (1, 2)), "int") == [1, 2]


def test_a_list_of_lists_of_names_comes_back(connection: psycopg.Connection) -> None:
    names = [["a", "null"], [], ['we"ird', "b,c"]]
    row = connection.execute(
        "select array_agg(v::text[] order by n) filter (where cardinality(v::text[]) = 2)"
        " from unnest(%s::text[]) with ordinality as t (v, n)",
        (texts([texts(list_of_names) for list_of_names in names]),),
    ).fetchone()
    assert row == ([["a", "null"], ['we"ird', "b,c"]],)
