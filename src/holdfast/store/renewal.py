"""Renewing a worker's lease without an event loop, for the process that does it when the worker cannot."""

from __future__ import annotations

from typing import Any

import psycopg

from holdfast.store.connection import CONNECT_TIMEOUT_SECONDS, unreachable
from holdfast.store.queries import query


class Renewal:
    """Connects when it is needed, and again after a loss."""

    def __init__(self, url: str, lease_seconds: float) -> None:
        self._url = url
        self._lease_seconds = lease_seconds
        self._connection: psycopg.Connection[Any] | None = None

    def renew(self, worker_id: int) -> bool:
        """False: the worker was declared gone. Raises Unreachable; a silent network is one after a lease's time."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    tcp_user_timeout=int(self._lease_seconds * 1000),
                    application_name="holdfast worker pulse",
                    options="-c search_path=holdfast",
                )
            parameters = {"me": worker_id, "lease": self._lease_seconds}
            return self._connection.execute(query("renew_worker"), parameters).rowcount == 1
        except psycopg.Error as error:
            self.disconnect()
            raise unreachable(self._url, error) from None

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
