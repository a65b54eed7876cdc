"""How many requests of one tenant may stay open at once: streams, and requests that wait for something.

Without that, one tenant could take all connections of a process. It knows neither routes nor sockets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import TooManyRequests

RETRY_SECONDS = 5.0
"""Streams stay open for long: who comes again at once finds no place."""


class TooManyOpen(TooManyRequests):
    code = "TOO_MANY_OPEN_REQUESTS"
    title = "The tenant keeps as many requests open as it may"


class OpenRequests:
    """The requests of one process that stay open, by tenant."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def of(self, tenant: str) -> int:
        return self._open[tenant]

    def take(self, tenant: str) -> None:
        """Take a place, which must be left. Refused if the tenant has as many as it may."""
        if self._open[tenant] >= self._most:
            raise TooManyOpen(
                f"Tenant {tenant} keeps {self._most:,} requests open at this process: streams, and requests that wait.",
                seconds=RETRY_SECONDS,
            )
        self._open[tenant] += 1

    def leave(self, tenant: str) -> None:
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]

    @contextmanager
    def held(self, tenant: str) -> Iterator[None]:
        """A place for the duration of the block."""
        self.take(tenant)
        try:
            yield
        finally:
            self.leave(tenant)
