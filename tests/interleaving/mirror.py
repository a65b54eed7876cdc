"""The rows of a real database in the shape of the model's database, so that the same checkers fit both."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from holdfast.core.effects import Notice
from holdfast.store.columns import remedy_of
from holdfast.store.records import NodeRow, SignalAnswer
from tests.interleaving.observer import Change
from tests.simulation.database import Database, code_of, with_failure

_TIMES = ("_at", "_until")
_COUNTS = ("expanded", "enqueued", "completed", "failed", "skipped", "cancelled", "waiting")


class Mirror:
    """Follows the commits of a database, and records the history that no row has."""

    def __init__(self, database: Database) -> None:
        self.db = database

    def follow(self, commit: Iterable[Change]) -> None:
        for change in commit:
            old, new = _plain(change.old), _plain(change.new)
            getattr(self, f"_{change.table}")(old, new)
            self.db.dirty.add((new or old)["job_id"])

    def _jobs(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self.db.jobs[new["job_id"]] = new
        if old and old["owner"] is not None and new["owner"] not in (None, old["owner"]):
            self.db.history.taken_over += 1

    def _nodes(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        counts = {name: new[f"{name}_count"] for name in _COUNTS}
        columns = {name: value for name, value in new.items() if name in NodeRow._fields}
        self.db.nodes[new["job_id"]][new["node"]] = NodeRow(**(columns | counts))

    def _tasks(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        if not new:
            self._reset(old)
            del self.db.tasks[old["job_id"]][(old["node"], old["item"])]
            return
        self._note_effect(old, new)
        if old and new["waits"] and not old["waits"] and new["undo"] is not None:
            self.db.history.reset[_key(old)] = old["epoch"]
            self.db.history.undos.append(_key(old))
        elif old and new["waits"] and not old["waits"]:
            self._reset(old)
        elif old and old["status"] != "ready" and new["status"] == "skipped" and new["gone"] is None:
            # A skip changes how the task ended, but not its budgets.
            self.db.history.resets.append(_key(old))
        budgets = {"retries": new["retry_count"], "lost": new["lost_count"], "crashes": new["crash_count"]}
        budgets["requeues"] = new["requeue_count"]
        key = new["item_key"].replace("-", "") if new["item_key"] is not None else None
        others = {"item_key": key, "is_given": new["params_given"]}
        self.db.tasks[new["job_id"]][(new["node"], new["item"])] = new | budgets | others

    def _note_effect(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """25: what a task has completed is taken back once."""
        effects, key = self.db.history.effects, _key(new)
        if not old or old["status"] == new["status"]:
            return
        if new["status"] == "completed" and old["undo"] is None:
            effects[key] = "done"
        elif new["status"] == "cancelled" and code_of(new) == "UNDONE":
            assert effects.get(key) == "done", f"25: {key} was undone, and it was {effects.get(key)}"
            effects[key] = "undone"
            if old["status"] == "completed":
                # A person has accepted it.
                self.db.history.undos.append(key)

    def _reset(self, old: dict[str, Any]) -> None:
        """Record that a verb has reset the task."""
        self.db.history.reset[_key(old)] = old["epoch"]
        self.db.history.resets.append(_key(old))

    def _queue(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        key = _key(new or old)
        if not new:
            del self.db.queue[key]
            return
        self.db.queue[key] = new
        if new["state"] == "leased" and (old["state"], old["holder"]) != ("leased", new["holder"]):
            claim = (new["claimed_at"], key, new["epoch"], new["holder"], new["due_at"])
            self.db.history.claims.append(claim)

    def _inbox(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        if not new:
            del self.db.inbox[old["id"]]
            return
        self.db.inbox[new["id"]] = new
        if old:
            return
        history = self.db.history
        if new["alone"]:
            history.deaths[_key(new)].add(new["epoch"])
        match new["kind"], new["outcome"]:
            case "rejected", _:
                history.rejections.append((_key(new), new["epoch"]))
            case "cancel" | "recover" | "pause" | "unpause" as kind, _:
                history.requests.add(new["id"])
                if kind == "cancel":
                    history.cancels[new["id"]] = new["job_id"]
            case "report", "done" | "failed" if (new["data"] or {}).get("code") != "TIMEOUT":
                reporter = int(new["worker"].removeprefix("w"))
                history.accepted.append((new["sent_at"], _key(new), new["epoch"], reporter))

    def _events(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        log = self.db.events[new["job_id"]]
        assert new["seq"] == len(log) + 1, f"5: event {new['seq']} of {new['job_id']} follows {len(log)}"
        log.append(tuple(new[name] for name in ("seq", "event", "node", "item", "attempt", "data")))

    def _outbox(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        columns = new | {"event_count": new["count"]}
        self.db.outbox[new["job_id"]].append(Notice(**{name: columns[name] for name in Notice._fields}))

    def _answers(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self.db.answers[new["signal_id"]] = SignalAnswer(new["applied"], new["reason"], remedy_of(new["remedy"]))


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["job_id"], row["node"], row["item"]


def _plain(row: dict[str, Any] | None) -> dict[str, Any]:
    """The row with times as seconds since 1970; empty for None."""
    return {
        name: datetime.fromisoformat(value).timestamp() if value and name.endswith(_TIMES) else value
        for name, value in with_failure(row or {}).items()
    }
