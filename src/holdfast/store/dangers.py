"""What is known of jobs in whose cycles orchestrators died: which are advanced alone, and which not at all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

DEATH_LIMIT = 3
"""A job counts 1 when an orchestrator died with it and others in its cycle, and 1 more for each that died while it
advanced this job alone. A process that is killed from outside just then counts too: one death alone proves nothing."""


class Dangers(NamedTuple):
    """Whether an orchestrator died lately, and how many died of each job."""

    are_near: bool = False
    deaths: Mapping[str, int] = MappingProxyType({})

    @property
    def suspects(self) -> list[str]:
        """Jobs that are advanced alone, until an orchestrator that does so survives."""
        return [job_id for job_id, deaths in self.deaths.items() if deaths < DEATH_LIMIT]

    @property
    def killers(self) -> list[str]:
        """Jobs that are left alone for a long time; a person can cancel them."""
        return [job_id for job_id, deaths in self.deaths.items() if deaths >= DEATH_LIMIT]
