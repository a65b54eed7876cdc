"""The tasks that a person's verb names: the parameters of the statements that find them, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.signals import BatchesAsked, MatchedTask, Request, Selected, Selection
from holdfast.core.states import Status
from holdfast.store.arrays import plain, texts
from holdfast.store.columns import by_name
from holdfast.store.connection import Answer


def selecting(job_id: str, request: Request, enqueued: int) -> dict[str, Any]:
    """The parameters of `select_tasks`."""
    return {
        "job": job_id,
        "node": request.named,
        "items": plain(request.items) if request.items else None,
        "code": request.code,
        "fingerprint": request.fingerprint,
        "enqueued": enqueued,
        "gives_params": request.params is not None,
    }


def selected_from(answer: Answer) -> dict[str, Selected]:
    """What `select_tasks` found, by node."""
    selected: dict[str, Selected] = {}
    for row in by_name(answer):
        selected[row["node"]] = _with(selected.get(row["node"], Selected({})), row)
    return selected


def keys_from(answer: Answer) -> list[tuple[int, str]]:
    """What `item_keys` found."""
    return [(row["item"], row["item_key"]) for row in by_name(answer)]


async def matched_from(answer: Answer, read: Callable[[str], Awaitable[bytes]]) -> dict[int, MatchedTask]:
    """What `matched_tasks` found; `read` gets params that are too large for their row."""
    found = {}
    for row in by_name(answer):
        params = row["params"].encode() if row["params"] is not None else None
        if row["params_ref"] is not None:
            params = await read(row["params_ref"])
        found[row["item"]] = MatchedTask(row["status"], params, row["gone"], row["params_given"])
    return found


def selecting_batches(job_id: str, asked: BatchesAsked) -> dict[str, Any]:
    """The parameters of `select_batches`."""
    of_fan_out = asked.of_fan_out or Selection(())
    return {
        "job": job_id,
        "node": asked.node,
        "enqueued": asked.enqueued,
        **selection_columns(asked.selection),
        "fan_out": asked.fan_out,
        "fan_out_enqueued": asked.fan_out_enqueued,
        "page_size": asked.page_size,
        **{f"of_{name}": value for name, value in selection_columns(of_fan_out).items()},
    }


def batches_from(answer: Answer) -> Selected:
    """What `select_batches` found."""
    selected = Selected({})
    for row in by_name(answer):
        touched = tuple(sorted((*selected.touched, *(row["touched"] or ()))))
        selected = _with(selected, row)._replace(touched=touched)
    return selected


def _with(selected: Selected, row: dict[str, Any]) -> Selected:
    """With the tasks of one more status."""
    selected.chosen[row["status"]] = row["chosen"]
    selected = selected._replace(
        refused=selected.refused + row["refused"],
        last_epoch=max(selected.last_epoch, row["last_epoch"]),
        last_attempt=max(selected.last_attempt, row["last_attempt"]),
    )
    if row["status"] != Status.COMPLETED:
        return selected
    return selected._replace(completed_since=row["completed_since"], node_completed_since=row["node_completed_since"])


def selection_columns(selection: Selection) -> dict[str, Any]:
    return {
        "statuses": texts(selection.statuses),
        "items": None if selection.items is None else plain(selection.items),
        "code": selection.code,
        "fingerprint": selection.fingerprint,
        "also": plain(selection.also),
        "items_only": selection.items_only,
    }
