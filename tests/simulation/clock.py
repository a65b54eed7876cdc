"""Repairs times in the model's database after its clock has stepped back: no wait gets longer than its duration."""

from __future__ import annotations

from holdfast.store.leases import LEASE_SLACK_SECONDS
from tests.simulation.database import Database

STEP_SECONDS = 2.0


def follow_clock(db: Database) -> int:
    """Moves times that are too far in the future, and returns the number of changed rows. Locked rows are skipped."""
    return sum((_processes(db), _queue(db), _breakers(db), _limits(db)))


def _processes(db: Database) -> int:
    shared = {transaction.me for transaction in db.transactions}
    owners = [row for number, row in db.orchestrators.items() if number not in shared and not row["ended"]]
    ahead = [row for row in (*owners, *db.workers.values()) if row["renewed"] > db.now + STEP_SECONDS]
    for row in ahead:
        row["until"], row["renewed"] = db.now + row["until"] - row["renewed"], db.now
    return len(ahead)


def _queue(db: Database) -> int:
    followed = 0
    for key, row in db.queue.items():
        latest = db.now + row["timeout_seconds"] + LEASE_SLACK_SECONDS
        times = [row["queued_at"], row["claimed_at"], (row["deadline_at"] or 0.0) - latest + db.now]
        if max(moment or 0.0 for moment in times) <= db.now + STEP_SECONDS or db.row_locked(key):
            continue
        if row["due_at"] is not None:
            row["due_at"] -= max(0.0, row["queued_at"] - db.now)
        row["queued_at"] = min(row["queued_at"], db.now)
        if row["deadline_at"] is not None:
            row["claimed_at"], row["deadline_at"] = min(row["claimed_at"], db.now), min(row["deadline_at"], latest)
        followed += 1
    return followed


def _breakers(db: Database) -> int:
    locked = {name for transaction in db.transactions for name in transaction.locked_breakers}
    followed = 0
    for name, breaker in db.breakers.items():
        latest = db.now + breaker.rules.cooldown_seconds
        is_ahead = breaker.changed_at > db.now + STEP_SECONDS or (breaker.until or 0.0) > latest + STEP_SECONDS
        if is_ahead and name not in locked:
            breaker.changed_at = min(breaker.changed_at, db.now)
            breaker.until = min(breaker.until, latest) if breaker.until is not None else None
            followed += 1
    return followed


def _limits(db: Database) -> int:
    ahead = [limit for limit in db.limits.values() if (limit["refilled_at"] or 0.0) > db.now + STEP_SECONDS]
    for limit in ahead:
        limit["refilled_at"] = db.now
    return len(ahead)
