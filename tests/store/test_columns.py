"""Columns by name: lists of columns come from record types, and answers are read by column name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.effects import Emit
from holdfast.errors import Bug
from holdfast.store import columns
from holdfast.store.columns import by_name, filled_in, records
from holdfast.store.connection import Answer
from holdfast.store.records import JobFacts, Lease


def filled(statement: str) -> str:
    return filled_in(statement, {"two_columns": "a, {{JobFacts from j}}", "JobFacts": ""}.__getitem__)


def test_rows_are_sent_as_one_array_per_field() -> None:
    text = filled("insert into x select * from {{MarkJob}}")
    assert text == "insert into x select * from unnest(%(job_id)s::uuid[], %(error)s::jsonb[]) as w (job_id, error)"


def test_a_time_is_seconds_in_python_and_a_timestamp_in_postgres() -> None:
    assert "to_timestamp(w.started_at)" in filled("{{RecordAttempt values}}")
    assert "extract(epoch from n.started_at)::float8 as started_at" in filled("{{NodeRow from n}}")


def test_the_key_of_a_row_never_changes() -> None:
    changes = filled("{{NodeRow changes}}").split(", ")
    assert "completed_count = w.completed" in changes
    assert not [change for change in changes if change.startswith(("job_id ", "node "))]


def test_an_unknown_list_of_columns_is_a_bug() -> None:
    with pytest.raises(Bug, match="a statement asks for nonsense of columns"):
        filled("{{MarkJob nonsense}}")


def test_the_order_of_columns_does_not_matter() -> None:
    answer = Answer([("h" * 64, b'{"a": 1}', 3)], 1, ("definition_hash", "inputs", "generation"))
    assert records(JobFacts, answer) == [JobFacts(3, {"a": 1}, "h" * 64)]


def test_a_prefix_separates_the_columns_of_two_records() -> None:
    answer = Answer([(1, "j", 2, "started", "k")], 1, ("generation", "job_id", "e_seq", "e_event", "e_job_id"))
    assert records(Emit, answer, prefix="e_") == [Emit("k", 2, "started")]


def test_a_missing_column_is_a_bug() -> None:
    answer = Answer([("j",)], 1, ("job_id",))
    with pytest.raises(Bug, match=r"the columns node, item, .* of Lease are not in the answer: job_id"):
        records(Lease, answer)


def test_rows_without_a_record_type_are_dictionaries() -> None:
    assert by_name(Answer([(1, "x")], 1, ("id", "owner"))) == [{"id": 1, "owner": "x"}]


STORE = Path(columns.__file__).parent
READS_TUPLES = {
    *(("columns.py", name) for name in ("records", "by_name", "_reader", "read")),
    ("connection.py", "answer_of"),
    # Looks at one column of many rows, whose place it finds by its name.
    ("cycle.py", "_nodes"),
}
"""The functions that may see rows as tuples. All others get records or dictionaries."""


def tuples_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The function and the line of each place that gets rows as tuples: from a cursor, or from an answer.

    Whether an answer has rows at all may be asked.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        questions = [node.operand for node in ast.walk(function) if isinstance(node, ast.UnaryOp)]
        questions += [node.test for node in ast.walk(function) if isinstance(node, ast.If | ast.IfExp)]
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and ast.unparse(node.func) == "bool"]
        questions += [argument for call in calls for argument in call.args]
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and node.attr == "rows" and node not in questions:
                yield function.name, node.lineno
            if isinstance(node, ast.Attribute) and node.attr in ("fetchall", "fetchmany", "fetchone", "_make"):
                yield function.name, node.lineno
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and "execute(" in ast.unparse(node.iter):
                yield function.name, node.iter.lineno


def test_no_row_is_read_by_position() -> None:
    places = [
        f"{path.name}:{line}"
        for path in sorted(STORE.glob("*.py"))
        for name, line in tuples_in(ast.parse(path.read_text(encoding="utf-8")))
        if (path.name, name) not in READS_TUPLES
    ]
    assert places == []


@pytest.mark.parametrize(
    "line",
    [
        "ids = [row[0] for row in answer.rows]",
        "(answer.rows)[0][0]",
        "return dict(answer.rows)",
        "row = await cursor.fetchone()",
        "ids = [row[0] for row in connection.execute(statement)]",
        "return [Lease._make(row) for row in rows]",
    ],
)
def test_a_read_by_position_is_noticed(line: str) -> None:
    assert list(tuples_in(ast.parse(f"async def read():\n    {line}"))) != []


@pytest.mark.parametrize(
    "line",
    ["if not answer.rows: return", "return bool(answer.rows)", "x = 1 if answer.rows else 2", "records(Lease, answer)"],
)
def test_whether_there_are_rows_may_be_asked(line: str) -> None:
    assert list(tuples_in(ast.parse(f"async def read():\n    {line}"))) == []
