"""What a worker remembers of jobs: their inputs, for handlers that ask, and the contracts of their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast import tracing
from holdfast.define.contract import Contract, Contracts
from holdfast.define.registry import Registry
from holdfast.store.records import JobFacts, Lease
from holdfast.worker.execute import NO_FACTS
from holdfast.worker.held_leases import HeldLeases
from holdfast.worker.ports import TaskSource

KNOWN_JOBS = 256
KNOWN_DEFINITIONS = 256


class KnownJobs:
    """Reads the facts of a job with each claim of its tasks, because a recovery or a correction changes them, and each
    definition once. Never forgets a job of which the worker holds a task."""

    def __init__(self, source: TaskSource, registry: Registry, leases: HeldLeases) -> None:
        self._source = source
        self._leases = leases
        self._with_context = frozenset(registry.with_context)
        self._facts: dict[str, JobFacts] = {}
        self._contracts: dict[str, Contracts] = {}

    def facts(self, job_id: str) -> JobFacts:
        return self._facts.get(job_id, NO_FACTS)

    def contract(self, lease: Lease) -> Contract | None:
        """What the output of the task must satisfy."""
        if lease.job_id not in self._facts:
            return None
        return self._contracts[self._facts[lease.job_id].definition_hash].of(lease.node, lease.item)

    async def learn(self, leases: Sequence[Lease]) -> None:
        """Read what the tasks need: facts where the handler takes a context or traces are on, contracts where the node
        has one."""
        is_traced = tracing.is_on()
        needed = {
            lease.job_id for lease in leases if is_traced or lease.has_contract or lease.handler in self._with_context
        }
        if needed:
            if len(self._facts.keys() | needed) > KNOWN_JOBS:
                held = {key[0] for key in self._leases.by_key}
                self._facts = {job_id: facts for job_id, facts in self._facts.items() if job_id in held}
            self._facts |= await self._source.job_facts(sorted(needed))
        await self._learn_contracts({lease.job_id for lease in leases if lease.has_contract})

    async def _learn_contracts(self, job_ids: Iterable[str]) -> None:
        for definition_hash in {self._facts[job_id].definition_hash for job_id in job_ids if job_id in self._facts}:
            if definition_hash in self._contracts:
                continue
            if len(self._contracts) >= KNOWN_DEFINITIONS:
                needed = {facts.definition_hash for facts in self._facts.values()}
                self._contracts = {known: kept for known, kept in self._contracts.items() if known in needed}
            self._contracts[definition_hash] = Contracts(await self._source.definition(definition_hash))
