"""What a seed draws for its world: sizes, and the chances of each fault."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Mix:
    """The sizes of a world and the chances of its faults; each seed draws its own."""

    orchestrators: int = 2
    workers: int = 2
    jobs: int = 3
    trouble: float = 0.3
    crash: float = 0.0
    pause: float = 0.0
    commit_failed: float = 0.0
    commit_unknown: float = 0.0
    cancel: float = 0.0
    duplicate: float = 0.0
    bug: float = 0.0
    together: int = 0
    lost_limit: int = 1000
    deaths: float = 0.0
    crash_limit: int = 2
    chunk: int = 3
    window: int = 4
    doubt: float = 0.0
    vanish: float = 0.0
    requeue_limit: int = 1000
    verbs: float = 0.0
    goes_back: float = 0.0
    deadly: int = 0
    steps_back: float = 0.0
    pauses_queues: float = 0.0
    corrections: float = 0.0
    undos: float = 0.0
    troubled_seconds: float = 50.0

    @classmethod
    def draw(cls, chance: random.Random, fate: random.Random) -> Mix:
        def sometimes(value: float) -> float:
            return value * chance.random() if chance.random() < 0.6 else 0.0

        return cls(
            orchestrators=chance.randint(1, 3),
            workers=chance.randint(1, 3),
            jobs=chance.randint(1, 3),
            trouble=sometimes(0.6),
            crash=sometimes(0.02),
            pause=sometimes(0.02),
            commit_failed=sometimes(0.1),
            commit_unknown=sometimes(0.1),
            cancel=chance.choice([0.0, 0.0, 0.5]),
            duplicate=sometimes(0.3),
            bug=sometimes(0.05),
            together=chance.choice([0, 0, 1, 2]),
            lost_limit=chance.choice([1000, 1000, 1000, 2]),
            chunk=chance.choice([1, 3, 100]),
            window=chance.choice([1, 2, 4, 100]),
            deaths=fate.choice([0.0, 0.1, 0.3]),
            crash_limit=fate.choice([1, 2, 2, 3]),
        )

    def calm(self) -> Mix:
        """The same work without faults of the environment: its results are the expected ones."""
        return Mix(
            orchestrators=self.orchestrators,
            workers=self.workers,
            together=self.together,
            jobs=self.jobs,
            trouble=self.trouble,
            deaths=self.deaths,
            crash_limit=self.crash_limit,
            chunk=self.chunk,
            window=self.window,
            troubled_seconds=0.0,
        )
