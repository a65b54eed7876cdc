"""How far the items of a corrected fan-out have been matched with its tasks. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NEW = -1


class Matches(NamedTuple):
    """Which task each item of a fan-out has, by place, and the tasks that have no item. NEW: it has none yet."""

    numbers: list[int]
    left_over: list[int]

    @property
    def places(self) -> int:
        return len(self.numbers) + len(self.left_over)


@dataclass(slots=True)
class Matching:
    """How far the items of a corrected fan-out have been matched with its tasks, and what happens to these."""

    reruns_stale: bool = False
    """Whether a completed task runs again if its handler or its params are others now."""
    reruns_unfinished: bool = False
    """Whether a failed or cancelled task runs again although nothing about it has changed."""
    has_other_handler: bool = False
    handled: int = 0
    """Of how many items, from the first on, the tasks have had that other handler already."""
    place: int = 0
    """How many items and, after them, tasks without an item have been looked at."""
    is_done: bool = False
    last_epoch: int = 0
    last_attempt: int = 0
    """How far its tasks had come before."""
    gone: int = 0
    """How many of the skipped tasks are skipped because their items are gone: these are not missed."""
