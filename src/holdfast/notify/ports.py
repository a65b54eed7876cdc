"""What sending needs from outside: a store with the events and their deliveries.

The composition root passes the implementation in; `store/notify.py` has the one on Postgres. Every call may raise
Unreachable: then its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.store.notify_rows import ClaimedDelivery, Mark


class NotifyStore(Protocol):
    """The events that have receivers, and their deliveries. Any number of processes may use it at once."""

    async def claim(
        self, holder: str, ways: Sequence[str], most: int, *, at_once: int, lease_seconds: float, mail_seconds: float
    ) -> tuple[int, list[ClaimedDelivery]]:
        """Find the receivers of new events, gather mails, and take deliveries that are due.

        Returns the number of deliveries that new events have given, and those that the holder sends now: those with one
        of these `ways`. No destination gets more than `at_once` at the same time.
        """
        ...

    async def mark(self, delivery: ClaimedDelivery, holder: str, mark: Mark) -> float | None:
        """Note how a try has ended; for how long its destination has failed. None: another process has it now."""
        ...

    async def callback_secret(self, tenant: str, made: str) -> str:
        """The secret that signs the callbacks of a tenant; `made` if it has none yet."""
        ...

    async def disable_webhook(self, tenant: str, name: str, reason: str) -> bool:
        """Send nothing more to a webhook; False if it was disabled before."""
        ...

    async def forget(self, kept_seconds: float, unsent_seconds: float) -> None:
        """Delete what ended that long ago; end what no process could send for that long, and forget such hooks."""
        ...
