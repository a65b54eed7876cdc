"""What is asked for a worker that cannot ask itself, without an event loop: renewals, and that leases go back.

A process of its own imports this, for every worker. It gets its statements ready made, and imports little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from holdfast.store.connection import CONNECT_TIMEOUT_SECONDS, LEASE_LOCK_SECONDS, session_settings
from holdfast.store.leases import Held, held_columns
from holdfast.store.listener import SIGNAL
from holdfast.store.outage import unreachable
from holdfast.store.records import WorkerIdentity

RENEW, RELEASE, NOTIFY = "renew_worker", "release_strays", "notify"


def renewal_statements() -> dict[str, bytes]:
    """What a `Renewal` executes, by name; made in the worker, which has the statements already."""
    from holdfast.store.queries import query

    return {name: query(name) for name in (RENEW, RELEASE, NOTIFY)}


class Renewal:
    """Connects when it is needed, and again after a loss. Raises Unreachable; a silent network is one after a lease."""

    def __init__(self, url: str, lease_seconds: float, statements: Mapping[str, bytes]) -> None:
        self._url = url
        self._statements = statements
        self._lease_seconds = lease_seconds
        self._connection: psycopg.Connection[Any] | None = None

    def renew(self, worker: WorkerIdentity) -> bool:
        """False: the worker was declared gone."""
        return self._execute(RENEW, me=worker.worker_id, lease=self._lease_seconds, changed=None) == 1

    def release_all_but(self, worker: WorkerIdentity, held: Sequence[Held]) -> None:
        """Give back every lease of the worker but these."""
        if self._execute(RELEASE, me=worker.worker_id, worker=worker.name, until=None, **held_columns(held)):
            self._execute(NOTIFY, channel=SIGNAL, payload="")

    def _execute(self, statement: str, **parameters: Any) -> int:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    tcp_user_timeout=int(self._lease_seconds * 1000),
                    application_name="holdfast worker pulse",
                )
                # By a statement and not by options of the connection: a pooler passes none on.
                settings = session_settings(self._lease_seconds, min(LEASE_LOCK_SECONDS, self._lease_seconds / 4))
                self._connection.execute(settings, prepare=False)
            return self._connection.execute(self._statements[statement], parameters).rowcount
        except psycopg.Error as error:
            self.disconnect()
            raise unreachable(self._url, error) from None

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
