"""How many tasks the breakers and limits of the model's database let a claim lease."""

from __future__ import annotations

from typing import Any

from holdfast.core.effects import Lane
from tests.simulation.database import Database


class Gates:
    """The room that each breaker and limit has at the beginning of one claim."""

    def __init__(self, db: Database) -> None:
        self.db = db
        leased = [row for row in db.queue.values() if row["state"] == "leased"]
        locked = {name for t in db.transactions for name in t.locked_breakers}
        self.room: dict[Any, float] = {}
        for name, breaker in db.breakers.items():
            if breaker.permits is not None:
                running = sum(row["lane"].breaker == name for row in leased)
                self.room[name] = 0 if name in locked else breaker.permits - running
        for key, limit in db.limits.items():
            running = sum(key in self._limits_of(row["lane"]) for row in leased)
            room = float("inf") if limit["concurrency"] is None else limit["concurrency"] - running
            self.room[key] = min(room, int(tokens(db, limit)))

    @staticmethod
    def _limits_of(lane: Lane) -> set[tuple[str, str]]:
        shared = {(lane.tenant, limit.name) for limit in lane.limits}
        return shared | {("", f"queue:{lane.queue}"), (lane.tenant, "tenant")}

    def of(self, lane: Lane) -> set[Any]:
        return {gate for gate in (lane.breaker, *self._limits_of(lane)) if gate in self.room}

    def lets_through(self, lane: Lane) -> bool:
        if any(self.room[gate] <= 0 for gate in self.of(lane)):
            return False
        for gate in self.of(lane):
            self.room[gate] -= 1
            if gate in self.db.limits and self.db.limits[gate]["rate"] is not None:
                limit = self.db.limits[gate]
                limit |= {"tokens": tokens(self.db, limit) - 1, "refilled_at": self.db.now}
        return True


def tokens(db: Database, limit: dict[str, Any]) -> float:
    if limit["rate"] is None:
        return 1e9
    if limit["refilled_at"] is None:
        return float(limit["burst"])
    return float(min(limit["burst"], limit["tokens"] + limit["rate"] * (db.now - limit["refilled_at"])))


def pause_queue(db: Database, queue: str) -> None:
    """A person lets no task of the queue begin; no workflow declares a limit of a queue."""
    db.limits["", f"queue:{queue}"] = {
        "concurrency": 0,
        "rate": None,
        "burst": None,
        "tokens": 0.0,
        "refilled_at": None,
    }


def unpause_queue(db: Database, queue: str) -> None:
    db.limits.pop(("", f"queue:{queue}"), None)


def queue_is_paused(db: Database, queue: str) -> bool:
    return ("", f"queue:{queue}") in db.limits


def declare_limits(db: Database, lane: Lane) -> None:
    for limit in lane.limits:
        row = db.limits.setdefault(
            (lane.tenant, limit.name),
            {"concurrency": None, "rate": None, "burst": None, "tokens": 0.0, "refilled_at": None},
        )
        row |= {field: value for field, value in limit._asdict().items() if field in row and value is not None}
