"""What the checkers remember of earlier steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.database import JOB_TERMINAL, TERMINAL, Key

JOB_ENDS = frozenset(f"job_{status}" for status in JOB_TERMINAL)
NODE_ENDS = frozenset(f"node_{status}" for status in TERMINAL)


class EndEvents:
    """The events about ends of a job and its nodes, since the job was last recovered."""

    def __init__(self) -> None:
        self.read_count = 0
        self.ends: dict[str, list[str]] = {}
        self.job_ends = 0

    def read(self, events: list[Any]) -> None:
        for _, event, node, *_, data in events[self.read_count :]:
            if event in NODE_ENDS:
                self.ends.setdefault(node, []).append(event)
            elif event in JOB_ENDS:
                self.job_ends += 1
            elif event == "node_undo_started":
                self.ends.pop(node, None)
            elif event in ("node_undone", "node_undo_failed"):
                self.ends[node] = [f"node_{data['status']}"]
            elif event == "job_recovered":
                self.job_ends = 0
                for name in (*data["rerun"], *data.get("gone", ())):
                    self.ends.pop(name, None)
        self.read_count = len(events)


@dataclass
class Memory:
    """Earlier states of tasks, nodes and jobs, and how far the checkers have read the history."""

    requeues: Counter[Key] = field(default_factory=Counter)
    epochs: dict[Key, int] = field(default_factory=dict)
    final: dict[Key, tuple[str, Any]] = field(default_factory=dict)
    never_again: set[Key] = field(default_factory=set)
    named_last: set[tuple[str, str]] = field(default_factory=set)
    completed_at: dict[Key, float] = field(default_factory=dict)
    final_nodes: dict[tuple[str, str], tuple[str, Any]] = field(default_factory=dict)
    final_jobs: dict[str, str] = field(default_factory=dict)
    owner_epochs: dict[str, int] = field(default_factory=dict)
    claims_seen: int = 0
    resets_seen: int = 0
    undos_seen: int = 0
    undo_named: set[tuple[str, str]] = field(default_factory=set)
    """The nodes that the last recovery of their job undoes."""
    events_seen: Counter[str] = field(default_factory=Counter)
    accepted_seen: int = 0
    rejections_seen: int = 0
    holders: dict[tuple[Key, int], int] = field(default_factory=dict)
    accepted: set[tuple[Key, int]] = field(default_factory=set)
    executions: Counter[Key] = field(default_factory=Counter)
    attempts: dict[Key, tuple[int, int]] = field(default_factory=dict)
    end_events: dict[str, EndEvents] = field(default_factory=dict)
    has_gone_back: bool = False
    stale: set[tuple[str, str]] = field(default_factory=set)
    """Nodes that a verb keeps although it runs what is above them again; the simulation sends no such verb."""
