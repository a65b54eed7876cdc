"""Requests that happen once, however often they are sent; and the answers to signals."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import orjson

from holdfast.errors import Forbidden, NotFound, Refused
from holdfast.operations.identity import Permission
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.remedies import Remedy
from holdfast.store.request_rows import Once, RequestRow
from holdfast.views.signals import SignalState, signal_view
from holdfast.views.verbs import PENDING, Verb, VerbRequest, VerbResult

KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Keyed:
    """The key of a request, and the digest of what it asks for."""

    key: str
    digest: str

    def once(self, verb: Verb, tasks: int | None) -> Once:
        return Once(self.key, self.digest, str(verb), tasks)


def keyed(key: str, request: VerbRequest, reason: str = "") -> Keyed:
    """A request under a key: another request under the same key is refused."""
    correction = request.correction
    content = {
        **{one.name: getattr(request, one.name) for one in fields(request) if one.name != "correction"},
        "reason": reason,
        "inputs": correction.inputs if correction is not None else None,
        "definition": correction.definition.hash() if correction is not None and correction.definition else None,
        "stale": str(correction.stale) if correction is not None and correction.stale is not None else None,
    }
    written = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return Keyed(key, hashlib.sha256(written).hexdigest())


async def earlier(scope: Scope, store: OperationsStore, job_id: str, wanted: Keyed) -> VerbResult | None:
    """What the same request has sent before, not settled; None if none was sent. Refused if it was another request."""
    found = await store.requests(scope.tenant).request(job_id, wanted.key)
    return _result(job_id, wanted, found) if found is not None else None


def signal_of(job_id: str, wanted: Keyed, found: RequestRow | None) -> int:
    """The signal of the request that has the key now."""
    if found is None:
        raise NotFound(f"There is no job '{job_id}'.", remedy=Remedy("List the jobs with", "status"), instance=job_id)
    return _result(job_id, wanted, found).signal_id


def _result(job_id: str, wanted: Keyed, found: RequestRow) -> VerbResult:
    if found.digest != wanted.digest:
        raise Refused(
            f"Job {job_id} was not changed: its key belongs to another request, a {found.verb}.",
            remedy="Send the same request again under its key, or this one under a new key.",
            instance=job_id,
        )
    return VerbResult(job_id, Verb(found.verb), found.signal_id, PENDING, None, found.tasks)


async def signal(scope: Scope, store: OperationsStore, job_id: str, signal_id: int) -> SignalState:
    """What the owner of a job has answered to a signal, or that it has not answered yet."""
    row = await store.requests(scope.tenant).signal(job_id, signal_id)
    if row is None:
        await store.reads(scope.tenant).snapshot(job_id, whole=False)
        raise NotFound(
            f"Job {job_id} has no signal {signal_id}: none was sent, or its answer is older than a day.",
            remedy=Remedy("See how the job is now with", "status", job_id),
            instance=job_id,
        )
    return signal_view(job_id, row)


async def refuse_foreign_cancel(scope: Scope, store: OperationsStore, job_id: str) -> None:
    """Forbidden unless the identity submitted the job itself."""
    if scope.submitter is None or await store.requests(scope.tenant).submitter(job_id) != scope.submitter:
        await store.reads(scope.tenant).snapshot(job_id, whole=False)
        raise Forbidden(
            f"{scope.actor} did not submit job {job_id}, and to cancel the jobs of others needs the permission"
            f" {Permission.OPERATE}.",
            remedy="Use a key with one of these roles: operator, admin.",
            instance=job_id,
        )
