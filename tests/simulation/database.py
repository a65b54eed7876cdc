"""The data of the model of the store: tables as dictionaries, the clock, open transactions, and a history.

The statements that change it are in store.py and cycle.py, and in the modules that these two call.
"""

from __future__ import annotations

import copy
import types
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.breaking import Breaker
from holdfast.core.effects import Notice
from holdfast.core.failing import Failure
from holdfast.store.records import NodeRow, PlanRow, SignalAnswer

Key = tuple[str, str, int]
IDLE_IN_TRANSACTION_SECONDS = 20.0
TERMINAL = ("completed", "failed", "skipped", "cancelled")
JOB_TERMINAL = ("completed", "partial", "failed", "cancelled")
NO_ROWS = frozenset({"now", "behind", "transactions", "drawn", "commit_outcome", "dirty"})
"""The attributes of a Database that are no tables, and do not go back with them."""


def code_of(row: dict[str, Any]) -> str | None:
    """The code of the error that a job or a task has."""
    error: Failure | None = row["error"]
    return error.code if error is not None else None


def with_failure(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a real database with its error in the form that the model has."""
    return row | {"error": Failure.from_json(row["error"])} if row.get("error") is not None else row


@types.coroutine
def step() -> Generator[None, None, None]:
    """A point at which another process may go first."""
    yield


@dataclass
class History:
    """What happened, for the checkers: facts that no row has."""

    claims: list[tuple[float, Key, int, int, float | None]] = field(default_factory=list)
    accepted: list[tuple[float, Key, int, int]] = field(default_factory=list)
    deaths: dict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    rejections: list[tuple[Key, int]] = field(default_factory=list)
    ended: dict[tuple[Key, int], str] = field(default_factory=dict)
    taken_over: int = 0
    commits_unknown: int = 0
    commits_failed: int = 0
    set_aside: int = 0
    stepped_back: int = 0
    handed: int = 0
    gone_back: int = 0
    killed: int = 0
    requests: set[int] = field(default_factory=set)
    cancels: dict[int, str] = field(default_factory=dict)
    """The job of each cancel, by signal."""
    reset: dict[Key, int] = field(default_factory=dict)
    """Tasks that a verb has reset, each with its last epoch before that."""
    resets: list[Key] = field(default_factory=list)
    undos: list[Key] = field(default_factory=list)
    """Completed tasks that an undo has sent back, or that a person has declared undone."""
    effects: dict[Key, str] = field(default_factory=dict)
    """What the world has of each task: it is `done`, or was `undone`."""
    passed_over: list[int] = field(default_factory=list)
    """What people had asked of a job before an owner claimed it, and this owner did not read with the claim."""
    decided_at: float = 0.0
    """When the last committed transaction began: the time at which it decided."""

    @property
    def rejected(self) -> int:
        return len(self.rejections)


class Transaction:
    """An owner's open transaction, as others see it: its owner, its locks, and when it last did something."""

    def __init__(self, database: Database, orchestrator_id: int) -> None:
        self.db = database
        self.me = orchestrator_id
        self.active_at = 0.0
        self._release()

    def _release(self) -> None:
        self.locked_jobs: set[str] = set()
        self.locked_signals: set[int] = set()
        self.locked_rows: set[Key] = set()
        self.locked_breakers: set[str] = set()

    def abort(self) -> None:
        self._release()
        if self in self.db.transactions:
            self.db.transactions.remove(self)


class Database:
    """All tables, the clock, and the faults that the world injects."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.behind = 0.0
        self.definitions: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.by_identity: dict[str, str] = {}
        self.nodes: dict[str, dict[str, NodeRow]] = defaultdict(dict)
        self.tasks: dict[str, dict[tuple[str, int], dict[str, Any]]] = defaultdict(dict)
        self.queue: dict[Key, dict[str, Any]] = {}
        self.inbox: dict[int, dict[str, Any]] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.outbox: dict[str, list[Notice]] = defaultdict(list)
        self.subscriptions: dict[str, frozenset[str]] = {}
        self.answers: dict[int, SignalAnswer] = {}
        self.plans: dict[tuple[str, str], PlanRow] = {}
        self.orchestrators: dict[int, dict[str, Any]] = {}
        self.marks: dict[int, int] = {}
        self.open_cycles: dict[int, list[str]] = {}
        self.workers: dict[int, dict[str, Any]] = {}
        self.breakers: dict[str, Breaker] = {}
        self.limits: dict[tuple[str, str], dict[str, Any]] = {}
        self.checkpoints: dict[Key, list[tuple[int, str, bytes, int]]] = defaultdict(list)
        self.withdrawn: list[tuple[Key, int, int, str, str | None]] = []
        """Attempts that a verb or a stop has ended. The model keeps no others."""
        self.accepted_reports: set[tuple[Key, int, int, str]] = set()
        self.transactions: list[Transaction] = []
        self.next_id = 1
        self.drawn = 0
        self.history = History()
        self.dirty: set[str] = set()
        self.commit_outcome: Any = lambda: "done"

    @property
    def time(self) -> float:
        """A clock that never goes back. Processes wait by it; the clock of the database is `behind` it."""
        return self.now + self.behind

    def step_back(self, seconds: float) -> None:
        """Set the clock of the database back, and change nothing else."""
        self.now -= seconds
        self.behind += seconds
        self.history.stepped_back += 1

    def new_id(self) -> int:
        """The next number of a sequence. A sequence goes back with the tables, and then repeats its numbers."""
        self.next_id += 1
        return self.next_id

    def draw(self) -> int:
        """A number that is never drawn twice, even if the tables go back. It stands for a random number."""
        self.drawn += 1
        return 1_000_000 + self.drawn

    def rows(self) -> dict[str, Any]:
        """A copy of everything that a commit can change, as a backup has it."""
        return {name: copy.deepcopy(value) for name, value in vars(self).items() if name not in NO_ROWS}

    def go_back_to(self, rows: dict[str, Any]) -> None:
        """Bring the tables back to an earlier moment. The clock and the memory of processes stay."""
        for transaction in list(self.transactions):
            transaction.abort()
        stepped_back, killed = self.history.stepped_back, self.history.killed
        vars(self).update(copy.deepcopy(rows))
        self.history.stepped_back, self.history.killed = stepped_back, killed
        self.history.gone_back += 1
        self.dirty = set(self.jobs)

    def abort_idle(self) -> None:
        """End idle transactions and their locks after a while, as Postgres does."""
        for transaction in list(self.transactions):
            if self.time - transaction.active_at > IDLE_IN_TRANSACTION_SECONDS:
                transaction.abort()

    def row_locked(self, key: Key) -> bool:
        return any(key in t.locked_rows for t in self.transactions)

    def send(self, job_id: str, kind: str, owner: int, **columns: Any) -> int:
        signal_id = self.new_id()
        self.inbox[signal_id] = {"job_id": job_id, "kind": kind, "owner": owner, **columns}
        if kind in ("cancel", "recover", "pause", "unpause"):
            self.history.requests.add(signal_id)
        if kind == "cancel":
            self.history.cancels[signal_id] = job_id
        self.dirty.add(job_id)
        return signal_id

    def unqueue(self, key: Key, why: str) -> dict[str, Any] | None:
        """Delete a task from the queue, leased or not. Returns its row, if there was one."""
        row = self.queue.pop(key, None)
        if row is not None:
            self.history.ended[(key, row["epoch"])] = why
        return row

    def snapshot(self) -> Database:
        """A copy of the rows that an owner writes, so that it sees its own writes before its commit."""
        view = Database()
        for job in self.jobs:
            view.jobs[job], view.nodes[job] = dict(self.jobs[job]), dict(self.nodes[job])
            view.tasks[job] = {key: dict(task) for key, task in self.tasks[job].items()}
            view.events[job] = self.events[job][-1:]
        view.queue = {key: dict(row) for key, row in self.queue.items()}
        view.workers = self.workers
        view.inbox, view.limits = dict(self.inbox), {key: dict(limit) for key, limit in self.limits.items()}
        view.breakers = {name: copy.copy(breaker) for name, breaker in self.breakers.items()}
        view.history.effects = dict(self.history.effects)
        return view
