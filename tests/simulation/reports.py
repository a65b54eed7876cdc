"""Ends leases in the model's database: by a report of the holder, or without the holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.store.records import Report, WorkerIdentity
from tests.simulation.database import Database, Key
from tests.simulation.leases import holds, worker_lives


@dataclass
class HandedReport:
    """A report that an owner accepted inside its transaction; other processes see it after the commit."""

    worker: WorkerIdentity
    report: Report
    row: dict[str, Any]
    signal_id: int


def is_accepted(db: Database, worker: WorkerIdentity, report: Report) -> bool:
    """The fence of a report: whether its worker lives and holds the lease, and its attempt has time left."""
    key = (report.job_id, report.node, report.item)
    return worker_lives(db, worker) and holds(db, worker, key, report.epoch) and db.queue[key]["deadline_at"] > db.now


def report_row(db: Database, worker: WorkerIdentity, report: Report) -> dict[str, Any]:
    owner = db.queue[(report.job_id, report.node, report.item)]["owner"]
    return {
        "job_id": report.job_id, "kind": "report", "owner": owner,
        "node": report.node, "item": report.item, "epoch": report.epoch, "attempt": report.attempt,
        "outcome": report.outcome, "worker": worker.name, "alone": report.alone, "started_at": report.started_at,
        "output": _parsed(report.output), "data": _parsed(report.data),
    }  # fmt: skip


def _parsed(data: bytes | None) -> Any:
    return orjson.loads(data) if data is not None else None


def apply_report(db: Database, worker: WorkerIdentity, report: Report, row: dict[str, Any], signal_id: int) -> None:
    """End the lease, and send the report to the owner."""
    key = (report.job_id, report.node, report.item)
    del db.queue[key]
    db.history.ended[(key, report.epoch)] = "reported"
    db.history.accepted.append((db.now, key, report.epoch, worker.worker_id))
    db.accepted_reports.add((key, report.epoch, worker.worker_id, report.outcome))
    if report.alone:
        db.history.deaths[key].add(report.epoch)
    db.inbox[signal_id] = row
    db.dirty.add(report.job_id)


def reject_report(db: Database, worker: WorkerIdentity, report: Report) -> bool:
    """Signal a late report to the job's owner, and change nothing else. Returns False, without a signal, if the report
    was accepted before."""
    if report.job_id not in db.jobs:
        return True
    key = (report.job_id, report.node, report.item)
    if (key, report.epoch, worker.worker_id, report.outcome) in db.accepted_reports:
        return False
    db.history.rejections.append((key, report.epoch))
    owner = db.jobs[report.job_id]["owner"] or 0
    db.send(
        report.job_id, "rejected", owner, node=report.node, item=report.item, epoch=report.epoch,
        attempt=report.attempt, outcome=report.outcome, worker=worker.name,
    )  # fmt: skip
    return True


def end_lease(
    db: Database, key: Key, why: str, *, worker: str, outcome: str, data: dict[str, Any] | None = None
) -> None:
    """End a lease without its holder, and send a report about it to the owner."""
    row = db.unqueue(key, why)
    assert row is not None and row["state"] == "leased", f"{key} is not leased"
    db.send(
        key[0], "report", row["owner"], node=key[1], item=key[2], epoch=row["epoch"], attempt=row["attempt"],
        outcome=outcome, worker=worker, started_at=row["claimed_at"], output=None, data=data,
    )  # fmt: skip
