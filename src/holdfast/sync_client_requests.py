"""The part of `SyncClient` about requests that happen once, and about signals."""

from __future__ import annotations

from holdfast.operations.requests import Keyed
from holdfast.sync_client_gates import Face
from holdfast.views.signals import SignalState
from holdfast.views.verbs import VerbResult


class SyncRequests(Face):
    """Requests that have a key, and signals."""

    def earlier(self, job_id: str, keyed: Keyed) -> VerbResult | None:
        """What the same request has sent before; None if none was sent. Refused if its key belongs to another one."""
        return self._loop.run(self._client.earlier(job_id, keyed))

    def signal(self, job_id: str, signal_id: int) -> SignalState:
        """What the owner of a job has answered to a signal, or that it has not answered yet."""
        return self._loop.run(self._client.signal(job_id, signal_id))

    def refuse_foreign_cancel(self, job_id: str) -> None:
        """Forbidden unless the identity of this client submitted the job itself."""
        self._loop.run(self._client.refuse_foreign_cancel(job_id))
