"""What is asked of the service for a worker that cannot ask itself, without an event loop: as `store/renewal.py`.

A process of its own imports this, for every worker over HTTP. It imports little.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast.errors import Unreachable
from holdfast.service_address import API
from holdfast.store.leases import Held
from holdfast.store.records import WorkerIdentity

GONE = (404, 409)
EVERYTHING = 2**53
"""A time after every claim, in microseconds since 1970."""


class RemoteRenewal:
    """Connects when it is needed, and again after a loss. Raises Unreachable; a silent network is one after a lease."""

    def __init__(self, url: str, key: str | None, lease_seconds: float) -> None:
        self._url, self._key, self._lease_seconds = url, key, lease_seconds
        self._connection: http.client.HTTPConnection | None = None

    def renew(self, worker: WorkerIdentity) -> bool:
        """False: the worker's lease was ended."""
        return self._ask({"worker_id": worker.worker_id}) not in GONE

    def release_all_but(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        """Give back every lease of the worker but these."""
        self._ask({"worker_id": worker.worker_id, "leases": list(held), "claimed_at": EVERYTHING})

    def _ask(self, body: dict[str, Any]) -> int:
        """The status of the answer."""
        place = urlsplit(self._url)
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            if self._connection is None:
                kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
                self._connection = kind(str(place.hostname), place.port, timeout=self._lease_seconds)
            self._connection.request("POST", f"{place.path}{API}/worker/renew", json.dumps(body), headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.disconnect()
            raise Unreachable(f"The service at {self._url} does not answer: {error}.") from None
        if answer.status >= 300 and answer.status not in GONE:
            raise Unreachable(f"The service at {self._url} answered {answer.status}.")
        return answer.status

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
