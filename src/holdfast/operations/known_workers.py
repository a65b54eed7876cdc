"""Who the workers over HTTP are, and what their leases say. A worker is bound to the credential that registered it."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from holdfast.errors import NotFound, WorkerGone
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.lease_tokens import LeaseFacts, facts_of
from holdfast.operations.scope import Scope
from holdfast.operations.work_ports import BoundWorkers
from holdfast.store.bound_rows import BoundWorker
from holdfast.store.leases import Held

MOST_KNOWN = 10_000


def tenant_of(scope: Scope) -> str | None:
    """Whose tasks a worker gets; None: those of all tenants."""
    return None if scope.tenant == EVERY_TENANT else scope.tenant


def credential_of(scope: Scope) -> str:
    """To what a worker is bound."""
    return scope.submitter or f"name:{scope.actor}"


def gone(worker: BoundWorker) -> WorkerGone:
    return WorkerGone(
        f"The lease of worker {worker.worker_id} has ended: it holds no task any more.",
        remedy="Stop what it runs, and register again.",
    )


class KnownWorkers:
    """The workers that this process has met, and the secret with which leases are signed. Neither ever changes."""

    def __init__(self, store: BoundWorkers) -> None:
        self._store = store
        self._secret: bytes | None = None
        self._workers: dict[int, BoundWorker] = {}

    async def secret(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.lease_secret()
        return self._secret

    async def new_id(self, scope: Scope, registration_id: str | None) -> int:
        """An id as all processes draw it, of 48 bits. One registration always gets the same."""
        if registration_id is None:
            return 1 + secrets.randbelow(2**48)
        name = f"worker {credential_of(scope)} {registration_id}"
        return 1 + int.from_bytes(hmac.digest(await self.secret(), name.encode(), hashlib.sha256)[:6], "big")

    def remember(self, worker: BoundWorker) -> None:
        while len(self._workers) >= MOST_KNOWN:
            del self._workers[next(iter(self._workers))]
        self._workers[worker.worker_id] = worker

    async def find(self, worker_id: int) -> BoundWorker | None:
        known = self._workers.get(worker_id)
        if known is None and (known := await self._store.find(worker_id)) is not None:
            self.remember(known)
        return known

    async def worker(self, scope: Scope, worker_id: int) -> BoundWorker:
        """A worker of the credential with which the request came; that of another one does not exist."""
        worker = await self.find(worker_id)
        if worker is None or worker.bound_to != credential_of(scope):
            raise NotFound(
                f"There is no worker {worker_id} of this key.", remedy="Register it: POST /api/v1/worker/register."
            )
        return worker

    async def facts(self, token: str) -> LeaseFacts | None:
        """What a token says; None if the installation has not made it."""
        return facts_of(await self.secret(), token)

    async def facts_for(self, worker: BoundWorker, token: str) -> LeaseFacts | None:
        """The same, if the lease is one of this worker."""
        facts = await self.facts(token)
        return facts if facts is not None and facts.holder == worker.worker_id else None

    async def held(self, worker: BoundWorker, lease: str | Held) -> Held | None:
        """A lease that a worker lists, by its token or by its names: who holds it, the database knows."""
        if not isinstance(lease, str):
            return lease
        facts = await self.facts_for(worker, lease)
        return facts.held if facts is not None else None
