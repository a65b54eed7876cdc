"""What attempts of workers over HTTP read and write while they run. Each names its lease; its worker must hold it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from holdfast.core.breaking import BreakerState
from holdfast.define.gates import breaker_name
from holdfast.errors import HandlerFailure, InvalidInput, LeaseEnded, NotFound, PayloadRefused
from holdfast.masking import masked
from holdfast.operations.known_workers import KnownWorkers, credential_of, tenant_of
from holdfast.operations.lease_tokens import LeaseFacts
from holdfast.operations.scope import Scope
from holdfast.operations.work_ports import BoundWorkers
from holdfast.store.output_rows import OutputPart
from holdfast.store.payloads import Objects, missing
from holdfast.store.records import Lease
from holdfast.views.work import BreakerSight, ItemOutput, JobDefinition, Noted, Probe, SavedCheckpoint, StoredObject
from holdfast.worker.output import PART_LIMIT
from holdfast.worker.values import checkpoint, progress, storable

WHOLE = 2**62
"""More bytes than any object has."""


@dataclass(frozen=True, slots=True)
class SentProgress:
    """How far an attempt has got."""

    lease: str
    done: Any
    total: Any
    text: str = ""


@dataclass(frozen=True, slots=True)
class SentOutput:
    """Lines that an attempt has printed."""

    lease: str
    part: int
    started_at: float
    log: str
    log_times: list[list[int]] = field(default_factory=list)


class AttemptWork:
    """Checkpoints, progress, results, objects and breakers."""

    def __init__(self, store: BoundWorkers, known: KnownWorkers) -> None:
        self._store = store
        self._known = known

    async def save_checkpoint(
        self, scope: Scope, worker_id: int, token: str, seq: int, name: str, data: Any
    ) -> SavedCheckpoint:
        """Store a checkpoint. It can be stored again under its number."""
        worker = await self._known.worker(scope, worker_id)
        try:
            point = checkpoint(name, data)
        except HandlerFailure as problem:
            raise InvalidInput(f"{problem}.", remedy="Store a large value as an object, and save its digest.") from None
        facts = await self._known.facts_for(worker, token)
        if facts is None:
            return SavedCheckpoint(saved=False)
        saved = await self._store.source.save_checkpoint(worker.identity, _lease_of(facts), seq, name, point)
        return SavedCheckpoint(saved=saved)

    async def note(
        self,
        scope: Scope,
        worker_id: int,
        progresses: Sequence[SentProgress],
        outputs: Sequence[SentOutput] = (),
        ended: Sequence[str] = (),
    ) -> Noted:
        """Show how far attempts have got and what they have printed, and forget what those that have ended printed."""
        worker = await self._known.worker(scope, worker_id)
        held = {
            token: facts.held
            for token in {*(one.lease for one in progresses), *(one.lease for one in outputs), *ended}
            if (facts := await self._known.facts_for(worker, token)) is not None
        }
        try:
            shown = [
                (held[one.lease], orjson.dumps(progress(one.done, one.total, one.text)))
                for one in progresses
                if one.lease in held
            ]
        except HandlerFailure as problem:
            raise InvalidInput(f"{problem}.") from None
        parts = [
            OutputPart(
                held[one.lease], one.part, one.started_at, masked(storable(one.log, 2 * PART_LIMIT)), one.log_times
            )
            for one in outputs
            if one.lease in held
        ]
        gone = [held[token] for token in ended if token in held]
        if shown:
            await self._store.source.save_progress(worker.identity, shown)
        if parts or gone:
            await self._store.output.save(worker.identity, parts, gone)
        return Noted(len(shown) + len(parts) + len(gone))

    async def results(
        self, scope: Scope, token: str, node: str, *, after: int, until: int, limit: int
    ) -> list[ItemOutput]:
        """The outputs of a node's completed items between `after` and `until`, exclusive, in their order."""
        facts = await self._living(scope, token)
        page = await self._store.source.results_page(facts.job_id, node, after, until, limit)
        if page is None:
            raise NotFound(
                f"Node {node} of job {facts.job_id} has no results: there is no such node, or it has not ended yet.",
                remedy=f"Ask for a node that comes before {facts.node}.",
                instance=facts.job_id,
            )
        return [
            ItemOutput(one.item, orjson.loads(one.output) if one.output is not None else None, one.output_ref)
            for one in page
        ]

    async def definition(self, scope: Scope, token: str) -> JobDefinition:
        """The definition that the job of the lease follows: it says where params have secrets."""
        facts = await self._living(scope, token)
        text = await self._store.source.definition(facts.definition_hash)
        return JobDefinition(facts.definition_hash, orjson.loads(text))

    async def breaker(self, scope: Scope, token: str, name: str) -> BreakerSight:
        """A breaker of the job's tenant, as it is now."""
        facts = await self._living(scope, token)
        found = await self._store.source.breaker(facts.tenant, name)
        if found is None:
            raise NotFound(f"There is no breaker '{name}'.", remedy="Declare it under 'breakers' in the workflow.")
        return BreakerSight(found.state is BreakerState.OPEN, found.rules.to_json())

    async def claim_probe(self, scope: Scope, worker_id: int, seconds: float) -> Probe:
        """A breaker of the tenant whose probe is due; it is the worker's for so long."""
        worker = await self._known.worker(scope, worker_id)
        claimed = await self._store.claim_probe(worker, seconds)
        return Probe(claimed[0], claimed[1].to_json()) if claimed is not None else Probe(None, None)

    async def probed(self, scope: Scope, worker_id: int, breaker: str, problem: str | None) -> Noted:
        """Record how a probe has ended."""
        await self._known.worker(scope, worker_id)
        tenant = tenant_of(scope)
        if tenant is not None and breaker_name(tenant, breaker) is None:
            raise NotFound(f"There is no breaker '{breaker}'.")
        await self._store.source.probed(breaker, problem)
        return Noted(1)

    # Objects

    async def open_object(self, scope: Scope, token: str, digest: str) -> AsyncIterator[bytes]:
        """The bytes of an object of the lease's job, part by part. It is not verified: its digest says what it is."""
        facts = await self._living(scope, token)
        return _parts(self._objects(facts, digest), facts.job_id, digest)

    async def store_object(
        self,
        scope: Scope,
        token: str,
        digest: str,
        parts: AsyncIterator[bytes],
        *,
        limit_bytes: int,
        folder: Path | None,
    ) -> StoredObject:
        """Store what comes as an object of the lease's job. It has its digest, or nothing of it stays."""
        facts = await self._living(scope, token)
        objects = self._objects(facts, digest)
        if folder is not None:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        number, name = await asyncio.to_thread(tempfile.mkstemp, prefix="upload-", dir=folder)
        place, hashing, size = Path(name), hashlib.sha256(), 0
        try:
            with os.fdopen(number, "wb") as file:
                async for part in parts:
                    size += len(part)
                    if size > limit_bytes:
                        raise PayloadRefused(f"The object has more than {limit_bytes:,} bytes.")
                    hashing.update(part)
                    await asyncio.to_thread(file.write, part)
            if hashing.hexdigest() != digest:
                raise InvalidInput(f"What came has the sha256 {hashing.hexdigest()}, and not {digest}.")
            await asyncio.to_thread(objects.write_file, facts.job_id, place)
        finally:
            await asyncio.to_thread(place.unlink, missing_ok=True)
        return StoredObject(digest, size)

    def _objects(self, facts: LeaseFacts, digest: str) -> Objects:
        if self._store.payloads is None:
            raise missing(facts.job_id, digest, "the service", "it has no object store")
        return self._store.payloads.objects

    async def _living(self, scope: Scope, token: str) -> LeaseFacts:
        """What a token says, if its worker is one of this credential and holds the lease now."""
        facts = await self._known.facts(token)
        if facts is not None:
            worker = await self._known.find(facts.holder)
            is_own = worker is not None and worker.bound_to == credential_of(scope)
            if worker is not None and is_own and await self._store.holds(worker.identity, facts.held):
                return facts
        raise LeaseEnded("The lease is not one of this key, or the worker does not hold it any more.")


def _lease_of(facts: LeaseFacts) -> Lease:
    return Lease(
        facts.job_id, facts.node, facts.item, facts.epoch, facts.attempt, facts.handler, 0.0, False, None, None, 0
    )


async def _parts(objects: Objects, job_id: str, digest: str) -> AsyncIterator[bytes]:
    reading = objects.parts(job_id, digest, 0, WHOLE)
    while part := await asyncio.to_thread(next, reading, b""):
        yield part
