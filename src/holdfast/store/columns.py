"""The columns of rows: a name has one type wherever it occurs, and a list of columns is made from the record's fields.

A statement names a record in braces, and the loader puts the list of its columns there:

- `{{FinishTask}}`: many of them as rows `w`, from one array per field
- `{{NodeRow names}}`: the columns of its table
- `{{NodeRow values}}`: the values of these columns, from a row `w`
- `{{NodeRow changes}}`: each column but those of the key, set to its value
- `{{NodeRow from n}}`: the record, from a row `n` of its table
- `{{NodeRow from n as node_}}`: the same, with `node_` before each name
- `{{signal_columns}}`: a list that stands under this name among the statements

Answers are read by the names of their columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

import orjson

from holdfast.core.effects import (
    AnswerSignal,
    CreateTasks,
    Emit,
    EnqueueTasks,
    EnqueueWaiting,
    FailTask,
    FinishTask,
    FinishUndo,
    GiveParams,
    MarkJob,
    Notice,
    PinJob,
    RecordAttempt,
    RefuseTask,
    ReleaseTasks,
    RetryTask,
)
from holdfast.core.failing import Failure
from holdfast.errors import Bug
from holdfast.remedies import Remedy
from holdfast.store.batch import JobUpdate
from holdfast.store.connection import Answer
from holdfast.store.records import JobRow, NodeRow

WORD = "word"
"""A text of our own vocabulary, such as a status: it needs no quotes."""
MOMENT = "moment"
"""A time: seconds since 1970 here, a timestamp in the table."""

TYPE_OF = {
    "alone": "boolean",
    "applied": "boolean",
    "attempt": "int",
    "base_attempt": "int",
    "base_epoch": "int",
    "batch_size": "int",
    "cancelled": "int",
    "completed": "int",
    "crashes": "smallint",
    "created_at": MOMENT,
    "data": "jsonb",
    "deadline_at": MOMENT,
    "definition_hash": WORD,
    "due_at": MOMENT,
    "enqueued": "int",
    "epoch": "int",
    "error": "jsonb",
    "event": WORD,
    "event_count": "int",
    "expanded": "int",
    "extra": "jsonb",
    "failed": "int",
    "finished_at": MOMENT,
    "first": "int",
    "generation": "int",
    "has_contract": "boolean",
    "holds": "jsonb",
    "importance": WORD,
    "inputs": "jsonb",
    "is_undone": "boolean",
    "item": "int",
    "item_key": "uuid",
    "items": "text",
    "job_id": "uuid",
    "labels": "jsonb",
    "lane_id": "int",
    "last": "int",
    "log": "text",
    "log_times": "jsonb",
    "lost": "smallint",
    "matching": "jsonb",
    "node": "text",
    "notify": "jsonb",
    "number": "int",
    "outcome": WORD,
    "output": "jsonb",
    "output_ref": WORD,
    "owner": "bigint",
    "params": "jsonb",
    "params_ref": WORD,
    "priority": "smallint",
    "queue_timeout_seconds": "real",
    "rank": "int",
    "reason": "text",
    "recovered_at": MOMENT,
    "remedy": "text",
    "result": "jsonb",
    "result_ref": WORD,
    "requeued": "boolean",
    "retries": "smallint",
    "retry_at": MOMENT,
    "rules": "jsonb",
    "run": "int",
    "seconds": "float8",
    "seq": "int",
    "signal_id": "bigint",
    "skipped": "int",
    "spent": "jsonb",
    "started_at": MOMENT,
    "status": WORD,
    "stop_cause": WORD,
    "stop_leases_ended": "boolean",
    "stop_signal": "bigint",
    "stop_until": MOMENT,
    "suspect": "boolean",
    "taken": "text",
    "tenant": "text",
    "timeout_seconds": "real",
    "traceparent": WORD,
    "undo": "jsonb",
    "version": "text",
    "waiting": "int",
    "width": "int",
    "worker": "text",
    "workflow_id": "text",
}
MAY_BE_LARGE = frozenset({"output", "params", "result"})
"""Values that may lie in the object store: the row has their digest then, in the column with `_ref` behind its name."""
JSON = frozenset(
    {name for name, type_ in TYPE_OF.items() if type_ == "jsonb"}
    | {
        "after",
        "before",
        "content",
        "details",
        "external_ids",
        "look_by_hand",
        "pause",
        "progress",
        "resume_point",
        "seen",
        "statuses",
    }
)
"""Values that an answer has as JSON text; a record has them as Python values."""
TEXT = frozenset(name for name, type_ in TYPE_OF.items() if type_ == "text")

_COLUMN_OF = {
    "cancelled": "cancelled_count",
    "completed": "completed_count",
    "enqueued": "enqueued_count",
    "event_count": "count",
    "expanded": "expanded_count",
    "failed": "failed_count",
    "skipped": "skipped_count",
    "waiting": "waiting_count",
}
"""Where a record's field and the column of its table have different names."""
_KEY = frozenset({"job_id", "node"})
"""What never changes of a row."""


R = TypeVar("R")


_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        AnswerSignal,
        CreateTasks,
        Emit,
        EnqueueTasks,
        EnqueueWaiting,
        FailTask,
        FinishTask,
        FinishUndo,
        JobRow,
        JobUpdate,
        MarkJob,
        NodeRow,
        GiveParams,
        Notice,
        PinJob,
        RecordAttempt,
        RefuseTask,
        ReleaseTasks,
        RetryTask,
    )
}


def filled_in(statement: str, other: Callable[[str], str]) -> str:
    """A statement with the lists of columns that it names; `other` knows what else a name may stand for."""

    def list_of(place: re.Match[str]) -> str:
        name, *how = place[1].split()
        if name not in _RECORDS:
            return filled_in(other(name), other)
        return _list(_fields(_RECORDS[name]), *how)

    return re.sub(r"\{\{([\w ]+)\}\}", list_of, statement)


def _fields(kind: Any) -> tuple[str, ...]:
    """What a record's rows have: a lane goes by its number, and of many tasks each row has its own item."""
    renamed = {"lane": "lane_id"} | ({"first": "item", "keys": "item_key"} if kind is CreateTasks else {})
    fields = [renamed.get(field, field) for field in kind._fields]
    fields = [field for field in fields if field in TYPE_OF]
    return (*fields, *(f"{field}_ref" for field in fields if field in MAY_BE_LARGE))


def _list(fields: tuple[str, ...], how: str = "rows", alias: str = "w", _as: str = "", prefix: str = "") -> str:
    match how:
        case "rows":
            arrays = ", ".join(f"%({field})s::{_array(field)}[]" for field in fields)
            return f"unnest({arrays}) as w ({', '.join(fields)})"
        case "names":
            return ", ".join(_COLUMN_OF.get(field, field) for field in fields)
        case "values":
            return ", ".join(_value(field) for field in fields)
        case "changes":
            return ", ".join(f"{_COLUMN_OF.get(f, f)} = {_value(f)}" for f in fields if f not in _KEY)
        case "from":
            return ", ".join(f"{_shown(field, alias)} as {prefix}{field}" for field in fields)
    raise Bug(f"a statement asks for {how} of columns")


def _array(field: str) -> str:
    return {WORD: "text", MOMENT: "float8"}.get(TYPE_OF[field], TYPE_OF[field])


def _value(field: str) -> str:
    """From a row of `unnest` to the column. Names that a node has taken come as one text: arrays do not nest."""
    if field == "taken":
        return "w.taken::text[]"
    if field == "items":
        return "w.items::int[]"
    return f"to_timestamp(w.{field})" if TYPE_OF[field] == MOMENT else f"w.{field}"


def _shown(field: str, alias: str) -> str:
    column = f"{alias}.{_COLUMN_OF.get(field, field)}"
    if TYPE_OF[field] == MOMENT:
        return f"extract(epoch from {column})::float8"
    return f"{column}::text" if TYPE_OF[field] in ("jsonb", "uuid") else column


def records(kind: Callable[..., R], answer: Answer, prefix: str = "") -> list[R]:
    """The rows of an answer as records, by the names of their columns; with a prefix, from those that begin so."""
    read = _reader(kind, answer.columns, prefix)
    return [read(row) for row in answer.rows]


def remedy_of(text: Any) -> Remedy | None:
    """A remedy as it was written; one of an older version is a sentence."""
    if text is None:
        return None
    return Remedy.from_json(orjson.loads(text)) if text.startswith("{") else Remedy(text)


def failure_of(text: str) -> Failure:
    """A failure as any version has written it."""
    return Failure.from_json(orjson.loads(text))


_DECODERS: dict[str, Callable[[str], Any]] = {"error": failure_of}
"""How a column becomes more than a plain JSON value."""


def by_name(answer: Answer) -> list[dict[str, Any]]:
    """The rows of an answer that is no record, each as an object."""
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


@cache
def _reader(kind: Any, columns: tuple[str, ...], prefix: str) -> Callable[[tuple[Any, ...]], Any]:
    fields = [field for field in kind._fields if prefix + field in columns]
    missing = [field for field in kind._fields if field not in fields and field not in kind._field_defaults]
    if missing:
        raise Bug(f"the columns {', '.join(missing)} of {kind.__name__} are not in the answer: {', '.join(columns)}")
    places = [columns.index(prefix + field) for field in fields]
    decoders = [(place, _DECODERS.get(field, orjson.loads)) for place, field in enumerate(fields) if field in JSON]
    is_whole = fields == list(kind._fields) and places == list(range(len(columns)))
    picked: Callable[[tuple[Any, ...]], Iterable[Any]] = tuple if is_whole else itemgetter(*places)
    defaults = [kind._field_defaults[field] for field in kind._fields if field not in fields]
    if fields + [f for f in kind._fields if f not in fields] != list(kind._fields):
        raise Bug(f"{kind.__name__} has columns behind fields that are no columns")

    def read(row: tuple[Any, ...]) -> Any:
        values = list(picked(row))
        for place, decode in decoders:
            value = values[place]
            if value is not None:
                values[place] = decode(value)
        return kind._make(values + defaults)

    return read if decoders or defaults or not is_whole else kind._make
