"""The part of `Client` about requests that happen once, and about signals."""

from __future__ import annotations

from holdfast.client_gates import Bound
from holdfast.operations import requests
from holdfast.operations.requests import Keyed
from holdfast.views.signals import SignalState
from holdfast.views.verbs import VerbResult


class Requests(Bound):
    """Requests that have a key, and signals."""

    async def earlier(self, job_id: str, keyed: Keyed) -> VerbResult | None:
        """What the same request has sent before; None if none was sent. Refused if its key belongs to another one."""
        return await requests.earlier(self._scope, self._store, job_id, keyed)

    async def signal(self, job_id: str, signal_id: int) -> SignalState:
        """What the owner of a job has answered to a signal, or that it has not answered yet."""
        return await requests.signal(self._scope, self._store, job_id, signal_id)

    async def refuse_foreign_cancel(self, job_id: str) -> None:
        """Forbidden unless the identity of this client submitted the job itself."""
        await requests.refuse_foreign_cancel(self._scope, self._store, job_id)
