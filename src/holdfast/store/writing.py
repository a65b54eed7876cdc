"""What an owner's cycle writes, as statements: effects and touched rows become arrays, one for each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from holdfast.core.effects import (
    AcceptUndo,
    CorrectTasks,
    CreateTasks,
    DropTasks,
    Lane,
    ResetTasks,
    RestartNode,
    ReviveTasks,
    UndoTasks,
)
from holdfast.store.arrays import failures, jsons, plain, texts
from holdfast.store.batch import Batch
from holdfast.store.breakers import breaker_columns
from holdfast.store.columns import JSON, MAY_BE_LARGE, TEXT
from holdfast.store.connection import Statement
from holdfast.store.large import LargeValues
from holdfast.store.queries import query
from holdfast.store.records import ANYBODY, RANK_LIMIT
from holdfast.store.selecting import selection_columns

DENSE = 4
"""Signals lie close together if at most this many ids fall to each of them."""


class BatchWriter:
    """Makes the statements of one cycle's batches."""

    def __init__(self, me: int, large: LargeValues) -> None:
        self._me = me
        self._large = large
        self.unowned: frozenset[int] = frozenset()
        """The signals of this cycle whose jobs had no owner."""

    async def statements(self, batch: Batch, lane_ids: dict[Lane, int]) -> list[Statement]:
        """Large values become objects first: no row refers to an object that is not there.

        Where the cycle fails, its objects go with their job.
        """
        statements = [
            *self._rows("write_jobs", batch.jobs),
            *self._rows("create_nodes", batch.new_nodes),
            *self._rows("write_nodes", batch.nodes),
            *self._rows("finish_tasks", batch.finished),
            *self._rows("finish_undos", batch.ended_undos),
            *self._deleted(batch.handled),
            *self._rows("pin_jobs", batch.pins),
            *self._rows("give_params", batch.given),
            *((query("reset_tasks"), _reset(reset)) for reset in batch.resets),
            *((query("restart_node"), _restart(restart)) for restart in batch.restarts),
            *((query("skip_tasks"), {"job": one.job_id, "node": one.node}) for one in batch.skips),
            *((query("accept_undo"), _accepted(one)) for one in batch.accepted),
            *(self._corrected(one) for one in batch.corrections),
            *self._rows("refuse_tasks", batch.refusals),
            *((query("drop_tasks"), _some_tasks(one)) for one in batch.drops),
            *((query("revive_tasks"), _some_tasks(one)) for one in batch.revivals),
            *self._created(batch.tasks),
            *self._rows("create_failed_tasks", batch.failed_tasks),
            # After whatever still takes part in the work that is undone: a node is undone with the tasks that it has.
            *((query("undo_tasks"), _undone(one)) for one in batch.undos),
            *self._rows("enqueue_tasks", batch.enqueued, lane_ids),
            # One by one: two of one node must not queue the same tasks.
            *(one for row in batch.waiting for one in self._rows("enqueue_waiting", [row], lane_ids)),
            *self._rows("retry_tasks", batch.retried, lane_ids),
            *self._rows("release_tasks", batch.releases),
            *([(query("pause_tasks"), {"jobs": plain(batch.paused)})] if batch.paused else []),
            *self._rows("mark_jobs", batch.marks),
            *self._rows("write_attempts", batch.attempts),
            *self._rows("write_events", batch.events),
            *self._rows("write_answers", batch.answers),
            *([(query("write_breakers"), breaker_columns(batch.breakers))] if batch.breakers else []),
            *([(query("survived"), {"jobs": plain(batch.survived)})] if batch.survived else []),
        ]
        statements += await self._large.store(batch.finished)
        return statements

    def outbox(self, batch: Batch) -> list[Statement]:
        """The events of the commit that have a receiver."""
        return self._rows("write_outbox", list(batch.notices.values()))

    def _deleted(self, handled: Sequence[int]) -> list[Statement]:
        """Signals that were handled: each had no owner when this cycle opened, or was ours."""
        unowned = [signal_id for signal_id in handled if signal_id in self.unowned]
        ours = [signal_id for signal_id in handled if signal_id not in self.unowned]
        return [*self._deleted_of(ANYBODY, unowned), *self._deleted_of(self._me, ours)]

    def _deleted_of(self, owner: int, handled: Sequence[int]) -> list[Statement]:
        if not handled:
            return []
        first, last, ids = min(handled), max(handled), plain(handled)
        if last - first <= DENSE * len(handled):
            return [(query("delete_dense_signals"), {"owner": owner, "id": ids, "first": first, "last": last})]
        return [(query("delete_signals"), {"owner": plain([owner] * len(handled)), "id": ids})]

    def _rows(self, name: str, rows: Sequence[Any], lane_ids: dict[Lane, int] | None = None) -> list[Statement]:
        """Named tuples as one array per field; the statement's parameters have the fields' names."""
        if not rows:
            return []
        parameters: dict[str, Any] = {"me": self._me, "rank_limit": RANK_LIMIT}
        for field, values in zip(rows[0]._fields, zip(*rows, strict=True), strict=True):
            if values[0] is None and values.count(None) == len(values):
                # `unnest` fills up an array that is too short with nulls.
                parameters[field] = "{}"
                if field in MAY_BE_LARGE:
                    parameters[f"{field}_ref"] = "{}"
            elif field in MAY_BE_LARGE:
                parameters |= self._values(field, [row.job_id for row in rows], values)
            elif field == "error":
                parameters[field] = failures(values)
            elif field in JSON:
                parameters[field] = jsons(values)
            elif field == "taken":
                parameters[field] = texts([texts(names) if names else "{}" for names in values])
            elif field == "items":
                parameters[field] = texts([plain(items) for items in values])
            elif field == "remedy":
                parameters[field] = texts([None if v is None else orjson.dumps(v.to_json()).decode() for v in values])
            elif field in TEXT:
                parameters[field] = texts(values)
            elif field == "lane":
                assert lane_ids is not None
                parameters["lane_id"] = plain([lane_ids[lane] for lane in values])
            else:
                parameters[field] = plain(values)
        return [(query(name), parameters)]

    def _created(self, created: Sequence[CreateTasks]) -> list[Statement]:
        """One row for each of the params."""
        if not created:
            return []
        job_ids = [tasks.job_id for tasks in created for _ in tasks.params]
        contracts = [tasks.has_contract for tasks in created for _ in tasks.params]
        parameters = {
            "job_id": plain(job_ids),
            "node": texts([tasks.node for tasks in created for _ in tasks.params]),
            "item": plain([tasks.first + n for tasks in created for n in range(len(tasks.params))]),
            "epoch": plain([tasks.epoch for tasks in created for _ in tasks.params]),
            "attempt": plain([tasks.attempt for tasks in created for _ in tasks.params]),
            # `unnest` fills up an array that is too short with nulls: where no task has a contract, that is enough.
            "has_contract": plain(contracts) if any(contracts) else "{}",
            "item_key": _keys(created),
            **self._values("params", job_ids, [params for tasks in created for params in tasks.params]),
        }
        return [(query("create_tasks"), parameters)]

    def _corrected(self, row: CorrectTasks) -> Statement:
        parameters = {
            "job": row.job_id,
            "node": row.node,
            "item": plain(row.items),
            "has_contract": row.has_contract,
            **self._values("params", [row.job_id] * len(row.items), row.params),
        }
        return query("correct_tasks"), parameters

    def _values(self, column: str, job_ids: Sequence[str], values: Iterable[Any]) -> dict[str, str]:
        """A column of JSON values, and the digests of those that are too large for a row."""
        kept, references = self._large.taken_out(job_ids, values)
        return {column: jsons(kept), f"{column}_ref": references}


def _keys(created: Sequence[CreateTasks]) -> str:
    """What the items are known by; the own tasks of nodes and batches have no key."""
    if all(tasks.keys is None for tasks in created):
        return "{}"
    keys: list[str | None] = []
    for tasks in created:
        keys += tasks.keys if tasks.keys is not None else [None] * len(tasks.params)
    return plain(keys)


def _some_tasks(row: DropTasks | ReviveTasks) -> dict[str, Any]:
    return {"job": row.job_id, "node": row.node, "items": plain(row.items)}


def _reset(row: ResetTasks) -> dict[str, Any]:
    return {
        "job": row.job_id,
        "node": row.node,
        "enqueued": row.enqueued,
        "has_contract": row.has_contract,
        **selection_columns(row.selection),
    }


def _undone(row: UndoTasks) -> dict[str, Any]:
    return {"job": row.job_id, "node": row.node, "own_only": row.own_only}


def _accepted(row: AcceptUndo) -> dict[str, Any]:
    return {"job": row.job_id, "node": row.node, "error": orjson.dumps(row.error.to_json()).decode()}


def _restart(row: RestartNode) -> dict[str, Any]:
    return {"job": row.job_id, "node": row.node, "own_only": row.own_only}
