"""What a worker remembers of jobs: their inputs, for handlers that ask, and what their definitions say of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast import tracing
from holdfast.define.contract import Contract, Contracts
from holdfast.define.registry import Registry
from holdfast.define.secrets import SecretParams, Secrets, may_have_secrets
from holdfast.store.records import JobFacts, Lease
from holdfast.worker.execute import NO_FACTS
from holdfast.worker.held_leases import HeldLeases
from holdfast.worker.ports import TaskSource

KNOWN_JOBS = 256
KNOWN_DEFINITIONS = 256


class _Known(NamedTuple):
    """What a worker reads of a definition."""

    contracts: Contracts
    secrets: Secrets


class KnownJobs:
    """Reads the facts of a job with each claim of its tasks, because a recovery or a correction changes them, and each
    definition once. Never forgets a job of which the worker holds a task."""

    def __init__(self, source: TaskSource, registry: Registry, leases: HeldLeases) -> None:
        self._source = source
        self._leases = leases
        self._with_context = frozenset(registry.with_context)
        self._facts: dict[str, JobFacts] = {}
        self._definitions: dict[str, _Known] = {}

    def facts(self, job_id: str) -> JobFacts:
        return self._facts.get(job_id, NO_FACTS)

    def contract(self, lease: Lease) -> Contract | None:
        """What the output of the task must satisfy."""
        known = self._definition_of(lease)
        return known.contracts.of(lease.node, lease.item) if known is not None and lease.has_contract else None

    def secrets(self, lease: Lease) -> SecretParams | None:
        """Where the params of the task have secrets."""
        if lease.secrets:
            return SecretParams(lease.secrets)
        known = self._definition_of(lease)
        return known.secrets.of(lease.node, lease.item) if known is not None else None

    def _definition_of(self, lease: Lease) -> _Known | None:
        return self._definitions.get(self.facts(lease.job_id).definition_hash)

    async def learn(self, leases: Sequence[Lease]) -> None:
        """Read what the tasks need: facts where the handler takes a context or traces are on, the definition where it
        says more."""
        defined = {lease.job_id for lease in leases if lease.has_contract or _needs_places(lease)}
        asking = {lease.job_id for lease in leases if lease.secrets}
        is_traced = tracing.is_on()
        needed = (
            defined | asking | {lease.job_id for lease in leases if is_traced or lease.handler in self._with_context}
        )
        if needed:
            if len(self._facts.keys() | needed) > KNOWN_JOBS:
                held = {key[0] for key in self._leases.by_key}
                self._facts = {job_id: facts for job_id, facts in self._facts.items() if job_id in held}
            self._facts |= await self._source.job_facts(sorted(needed))
        await self._learn_definitions(defined)

    async def _learn_definitions(self, job_ids: Iterable[str]) -> None:
        for definition_hash in {self._facts[job_id].definition_hash for job_id in job_ids if job_id in self._facts}:
            # A worker without a database gets what it needs with the task.
            if not definition_hash or definition_hash in self._definitions:
                continue
            if len(self._definitions) >= KNOWN_DEFINITIONS:
                needed = {facts.definition_hash for facts in self._facts.values()}
                self._definitions = {known: kept for known, kept in self._definitions.items() if known in needed}
            text = await self._source.definition(definition_hash)
            self._definitions[definition_hash] = _Known(Contracts(text), Secrets(text))


def _needs_places(lease: Lease) -> bool:
    """Whether only the definition says where the params have secrets, if they have any."""
    return not lease.secrets and may_have_secrets(lease.params, lease.params_ref)
