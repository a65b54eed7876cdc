"""What a worker asks of the database, as statements for its own connection or inside an owner's transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence

from holdfast.store.arrays import jsons, plain, texts
from holdfast.store.batch import Handover
from holdfast.store.columns import by_name, records
from holdfast.store.connection import Answer, Statement
from holdfast.store.leases import LEASE_SLACK_SECONDS
from holdfast.store.queries import query
from holdfast.store.records import Lease, Report, WorkerIdentity


def report_statement(worker: WorkerIdentity, reports: Sequence[Report], name: str = "report") -> Statement:
    """Reports in lock order; the answer says which of them were taken, by their place."""
    job_id, node, item, epoch, attempt, outcome, started_at, output, data, _, alone = zip(*reports, strict=True)
    return query(name), {
        "me": worker.worker_id,
        "worker": worker.name,
        "job_id": plain(job_id),
        "node": texts(node),
        "item": plain(item),
        "epoch": plain(epoch),
        "attempt": plain(attempt),
        "outcome": plain(outcome),
        "alone": plain(alone),
        "started_at": plain(started_at),
        "output": jsons(output),
        "data": jsons(data),
    }


def claim_statement(
    wish: Handover, *, gated: bool = True, tenant: str | None = None, claim_id: str | None = None
) -> Statement:
    """What lies behind a breaker or a limit is claimed only with `gated`: the gate stays locked until the commit.

    A worker over HTTP is given tasks of its tenant, and for one `claim_id` only once.
    """
    return query("claim" if claim_id is None else "claim_once"), {
        "gated": gated,
        "me": wish.worker.worker_id,
        "queues": texts(wish.queues) if wish.queues is not None else None,
        "handlers": texts(wish.handlers),
        "limit": wish.limit,
        "slots": wish.limit if wish.slots is None else min(wish.slots, wish.limit),
        "slack": LEASE_SLACK_SECONDS,
        "tenant": tenant,
        "claim_id": claim_id,
        # Should a floor ever be wrong, it costs a task seconds and not its life: in one second of five none counts.
        "everything": int(time.time()) % 5 == 0,
    }


def leases_of(answer: Answer) -> list[Lease]:
    """From the columns of `claim`."""
    leases = records(Lease, answer)
    return [lease if lease.resume_point is None else _resumed(lease) for lease in leases]


def accepted_in(answer: Answer) -> frozenset[int]:
    """The places of the reports that `report` accepted."""
    return frozenset(by_name(answer)[0]["accepted"] or ())


def _resumed(lease: Lease) -> Lease:
    assert lease.resume_point is not None
    name, data = lease.resume_point
    return lease._replace(resume_point=(name, data))
