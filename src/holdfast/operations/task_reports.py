"""From what a worker over HTTP says of an attempt to its report. The worker may be any program: everything is checked,
as what a handler's own process says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.core.signals import Outcome
from holdfast.define.contract import Contract, Contracts
from holdfast.errors import Code
from holdfast.masking import masked
from holdfast.operations.lease_tokens import LeaseFacts
from holdfast.operations.work_ports import BoundWorkers
from holdfast.store.payloads import LIMIT_BYTES, missing
from holdfast.store.records import Lease, Report
from holdfast.worker.context import Attempt
from holdfast.worker.execute import begin
from holdfast.worker.messages import Message, Received, ReportData, SentReport
from holdfast.worker.reports import LOG_LIMIT, by_reference, failed, held_to_contract, received
from holdfast.worker.values import storable

MOST_DEFINITIONS = 256


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How an attempt ended, as its worker says."""

    lease: str
    """The token of the lease."""
    outcome: str
    output: Any = None
    output_ref: str | None = None
    """The digest of a large output that was stored before."""
    started_at: float | None = None
    """By the worker's clock; None: when the task was claimed."""
    details: dict[str, Any] = field(default_factory=dict)
    """What `worker.messages.ReportData` takes."""
    log: str = ""
    log_times: list[list[int]] = field(default_factory=list)
    alone: bool = False
    """Of a lost attempt: it died in a process of its own."""


def report_of(
    sent: TaskReport, facts: LeaseFacts, output: bytes | None, contract: Contract | None, limit_bytes: int
) -> Report:
    """The report; a permanent failure if the output cannot be stored or breaks its contract. `output` is JSON."""
    attempt = _attempt(sent, facts)
    data = ReportData.model_validate(sent.details)
    if sent.outcome == Outcome.LOST:
        message = data.message or "the process of the handler ended without a report"
        report: Report | None = failed(attempt, Code.WORKER_LOST, message)._replace(
            outcome=str(Outcome.LOST), alone=sent.alone
        )
    else:
        said = SentReport(outcome=Outcome(sent.outcome), data=data, output_bytes=len(output) if output else None)
        report = received(attempt, Received(Message(report=said), output), limit_bytes)
    assert report is not None, "only an attempt that lost its lease has none"
    if contract is not None:
        report = held_to_contract(attempt, contract, report)
    return _with_log(report, sent)


def _attempt(sent: TaskReport, facts: LeaseFacts) -> Attempt:
    lease = Lease(
        facts.job_id,
        facts.node,
        facts.item,
        facts.epoch,
        facts.attempt,
        facts.handler,
        timeout_seconds=0.0,
        suspect=False,
        params=None,
        resume_point=None,
        checkpoint_seq=0,
        owner=facts.owner,
    )
    attempt = begin(lease)
    attempt.started_at = sent.started_at if sent.started_at is not None else facts.claimed_at / 1_000_000
    # Its worker may give it back at any time.
    attempt.cancelled = True
    return attempt


def _with_log(report: Report, sent: TaskReport) -> Report:
    if not sent.log:
        return report
    data = orjson.loads(report.data) if report.data is not None else {}
    log = {"log": masked(storable(sent.log, LOG_LIMIT)), "log_times": sent.log_times}
    return report._replace(data=orjson.dumps(data | log))


class ReportMaker:
    """Makes reports, with what lies outside of them: contracts, and large outputs as objects."""

    def __init__(self, store: BoundWorkers) -> None:
        self._store = store
        self._contracts: dict[str, Contracts] = {}

    @property
    def limit_bytes(self) -> int:
        return self._store.payloads.limit_bytes if self._store.payloads is not None else LIMIT_BYTES

    async def made(self, sent: TaskReport, facts: LeaseFacts) -> Report:
        """The report of an attempt. Raises PayloadUnavailable if an object that it names cannot be read."""
        output = None
        if sent.outcome == Outcome.DONE:
            output = orjson.dumps(sent.output)
            if sent.output_ref is not None:
                output = await self._object(facts, sent.output_ref)
            for artifact in sent.details.get("artifacts", ()):
                await self._check_artifact(facts, artifact)
        report = report_of(sent, facts, output, await self._contract(facts), self.limit_bytes)
        payloads = self._store.payloads
        if report.output is None or payloads is None or len(report.output) <= payloads.inline_bytes:
            return report
        digest = await payloads.put(report.job_id, report.output)
        return by_reference(report, digest, len(report.output))

    async def _object(self, facts: LeaseFacts, digest: str) -> bytes:
        if self._store.payloads is None:
            raise missing(facts.job_id, digest, "the service", "it has no object store")
        return await self._store.payloads.get(facts.job_id, digest)

    async def _check_artifact(self, facts: LeaseFacts, artifact: dict[str, Any]) -> None:
        """A file that is not there, or has another size, would be a result that cannot be fetched."""
        if self._store.payloads is None:
            raise missing(facts.job_id, artifact["digest"], "the service", "it has no object store")
        objects = self._store.payloads.objects
        last = max(0, artifact["bytes"] - 1)

        def end() -> int:
            return sum(map(len, objects.parts(facts.job_id, artifact["digest"], last, 2)))

        if await asyncio.to_thread(end) != min(1, artifact["bytes"]):
            raise missing(facts.job_id, artifact["digest"], objects.place, f"it has not {artifact['bytes']:,} bytes")

    async def _contract(self, facts: LeaseFacts) -> Contract | None:
        if not facts.has_contract:
            return None
        if facts.definition_hash not in self._contracts:
            while len(self._contracts) >= MOST_DEFINITIONS:
                del self._contracts[next(iter(self._contracts))]
            read = await self._store.source.definition(facts.definition_hash)
            self._contracts[facts.definition_hash] = Contracts(read)
        return self._contracts[facts.definition_hash].of(facts.node, facts.item)
