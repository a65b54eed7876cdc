"""Live workers and their leases in the model's database, and the claim of tasks."""

from __future__ import annotations

import orjson

from holdfast.store.batch import Handover
from holdfast.store.leases import LEASE_SLACK_SECONDS
from holdfast.store.records import Lease, WorkerIdentity
from tests.simulation.database import Database, Key
from tests.simulation.gates import Gates


def worker_lives(db: Database, worker: WorkerIdentity) -> bool:
    row = db.workers.get(worker.worker_id)
    return row is not None and not row["ended"] and row["until"] > db.now


def holds(db: Database, worker: WorkerIdentity, key: Key, epoch: int) -> bool:
    row = db.queue.get(key)
    return row is not None and row["state"] == "leased" and row["holder"] == worker.worker_id and row["epoch"] == epoch


def lease_ready(db: Database, request: Handover, *, gated: bool = True) -> list[Lease]:
    """Lease ready tasks to the worker, as a claim does."""
    if not worker_lives(db, request.worker):
        return []
    ready = _ready(db, request)
    if not ready:
        return []
    gates = Gates(db)
    leases: list[Lease] = []
    for key in ready:
        if len(leases) >= request.limit:
            break
        lane = db.queue[key]["lane"]
        if gates.of(lane) and (not gated or not gates.lets_through(lane)):
            continue
        leases.append(lease(db, request.worker, key))
    return leases


def _ready(db: Database, request: Handover) -> list[Key]:
    """Unlocked tasks that the worker serves, by priority, rank and age."""
    ready = [
        (-row["priority"], row["rank"], row["id"], key)
        for key, row in db.queue.items()
        if row["state"] == "ready"
        and row["lane"].handler in request.handlers
        and (request.queues is None or row["lane"].queue in request.queues)
        and not db.row_locked(key)
    ]
    return [key for *_, key in sorted(ready)]


def lease(db: Database, worker: WorkerIdentity, key: Key) -> Lease:
    """Give one queued task to the worker, whatever its state."""
    row = db.queue[key]
    row |= {
        "state": "leased",
        "holder": worker.worker_id,
        "claimed_at": db.now,
        "deadline_at": db.now + row["timeout_seconds"] + LEASE_SLACK_SECONDS,
    }
    db.history.claims.append((db.now, key, row["epoch"], worker.worker_id, row["due_at"]))
    db.dirty.add(key[0])
    task, saved = db.tasks[key[0]][key[1:]], db.checkpoints[key]
    is_undo = task["undo"] is not None
    params = {"params": task["params"], "output": task["output"]} if is_undo else task["params"]
    return Lease(
        *key,
        epoch=row["epoch"],
        attempt=row["attempt"],
        handler=row["lane"].handler,
        timeout_seconds=row["timeout_seconds"],
        suspect=row["suspect"],
        params=orjson.loads(orjson.dumps(params)),
        resume_point=(saved[-1][1], orjson.loads(saved[-1][2])) if saved else None,
        checkpoint_seq=saved[-1][0] if saved else 0,
        owner=row["owner"],
        has_contract=task["has_contract"] and not is_undo,
        is_undo=is_undo,
    )
