"""The named statements: each is used, and each fits the schema."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast.errors import Bug
from holdfast.store.queries import _all_queries, query

SOURCE = Path(holdfast.__file__).parent
CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in SOURCE.rglob("*.py")
    if "apps" not in path.relative_to(SOURCE).parts  # Apps have statements of their own.
)
PARTS = sorted(name for name in _all_queries() if any(f"{{{{{name}}}}}".encode() in s for s in _all_queries().values()))
"""What several statements share, often a list of columns."""
NAMES = sorted(_all_queries().keys() - set(PARTS))


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_used(name: str) -> None:
    assert f'"{name}"' in CODE


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_shared(name: str) -> None:
    assert sum(f"{{{{{name}}}}}".encode() in text for text in _all_queries().values()) > 1


def test_every_statement_that_code_names_exists() -> None:
    names = set(re.findall(r'\bquery\("(\w+)"\)', CODE)) | set(
        re.findall(r'\b(?:_fetch|_execute|_answer|_ask|_records)\((?:\s*\w+,)?\s*"(\w+)"', CODE)
    )
    assert names
    assert names <= set(NAMES)


def test_a_missing_statement_is_a_bug() -> None:
    with pytest.raises(Bug, match="no statement named nonsense"):
        query("nonsense")


def test_postgres_can_prepare_every_statement(database_url: str) -> None:
    """Parameters become $1, $2, … as in the driver, so that Postgres checks the names and types."""
    with psycopg.connect(database_url, autocommit=True, options="-c search_path=holdfast") as connection:
        for name in NAMES:
            numbers: dict[str, int] = {}

            def number(match: re.Match[str], numbers: dict[str, int] = numbers) -> str:
                return f"${numbers.setdefault(match.group(1), len(numbers) + 1)}"

            statement = re.sub(r"%\((\w+)\)s", number, query(name).decode()).replace("%%", "%")
            result = connection.pgconn.prepare(f"s_{name}".encode(), statement.encode())
            assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, f"{name}: {result.error_message.decode()}"


def test_every_name_stands_for_exactly_one_statement() -> None:
    for name in NAMES:
        text = query(name).decode()
        assert text, name
        assert ";" not in text, f"{name} is more than one statement"
        assert "{{" not in text, f"{name} has a list of columns that is not known"
