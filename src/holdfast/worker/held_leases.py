"""The leases that a worker holds: which attempts have begun, which tasks wait for a slot, and how a lease is lost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from holdfast.store.leases import Held
from holdfast.store.records import Lease
from holdfast.worker.clock import lease_clock
from holdfast.worker.context import Attempt
from holdfast.worker.execute import begin
from holdfast.worker.pulse import Pulse
from holdfast.worker.reports import given_back
from holdfast.worker.unsent_reports import UnsentReports

WAIT_SECONDS = 0.5
"""How long a claimed task may wait for a slot. After that it goes back to the queue: another worker may be free, and
its job may have been paused."""


class HeldLeases:
    """A lease is held from its claim until its report is accepted, or until it is given back or lost."""

    def __init__(self, reports: UnsentReports, pulse: Pulse | None, wake: asyncio.Event) -> None:
        self._reports = reports
        self._pulse = pulse
        self._wake = wake
        self._overdue: asyncio.TimerHandle | None = None
        self.by_key: dict[Held, Lease | Attempt] = {}
        """In the order of the claims: attempts that have begun, then leases that wait for a slot."""
        self.waiting: deque[tuple[Lease, float]] = deque()
        """Leases that wait for a slot, each with the time at which the worker accepted it."""
        self.may_have_strays = False
        """Whether the database may say that the worker holds a task which it does not hold."""

    def __len__(self) -> int:
        return len(self.by_key)

    def attempts(self) -> list[tuple[Held, Attempt]]:
        return [(key, held) for key, held in self.by_key.items() if isinstance(held, Attempt)]

    def add(self, leases: Sequence[Lease]) -> None:
        """Hold what was just claimed."""
        for lease in leases:
            key = key_of(lease)
            if key in self.by_key:
                # The database went back to an earlier state: only what happens under the new claim counts.
                self._reports.drop(key)
                self.lose(key)
            self.by_key[key] = lease
        self._show_to_pulse()

    def let_wait(self, leases: Sequence[Lease], accepted_at: float) -> None:
        """Queue the leases for the slots, those left out that were lost meanwhile."""
        self.waiting.extend((lease, accepted_at) for lease in leases if self.by_key.get(key_of(lease)) is lease)
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._give_back_overdue)

    def begin(self, key: Held, attempt: Attempt) -> bool:
        """Let a waiting lease become an attempt; False: the pulse has given it back, so it is no longer held."""
        self.by_key[key] = attempt
        if self._pulse is None or self._pulse.begin():
            return True
        self.discard(key, attempt)
        return False

    def discard(self, key: Held, held: Lease | Attempt) -> None:
        """Stop holding a task that does not begin here. The next turn gives it back as a stray."""
        if self.by_key.get(key) is held:
            del self.by_key[key]
            self._show_to_pulse()
            self.may_have_strays = True
            self._wake.set()

    def lose(self, key: Held) -> None:
        """The lease has ended: stop its attempt, which reports nothing. A finished attempt keeps its report."""
        if key in self._reports:
            return
        attempt = self.by_key.pop(key, None)
        if isinstance(attempt, Attempt):
            attempt.lost = attempt.cancelled = True
            if attempt.cancel_running is not None:
                attempt.cancel_running()

    def lose_all(self) -> None:
        """The worker's own lease has ended, and every lease with it."""
        self.waiting.clear()
        self._reports.clear()
        for key in list(self.by_key):
            self.lose(key)
        self.by_key.clear()
        self._wake.set()

    def give_back_waiting(self) -> None:
        """Report every task that waits for a slot as given back."""
        waiting = [lease for lease, _ in self.waiting if self.by_key.get(key_of(lease)) is lease]
        self._reports.add(given_back(begin(lease)) for lease in waiting)
        self.waiting.clear()

    def _give_back_overdue(self) -> None:
        self._overdue = None
        latest = lease_clock() - WAIT_SECONDS
        while self.waiting and self.waiting[0][1] <= latest:
            lease, _ = self.waiting.popleft()
            self.discard(key_of(lease), lease)
        if self.waiting:
            self._overdue = asyncio.get_running_loop().call_later(WAIT_SECONDS / 2, self._give_back_overdue)

    def _show_to_pulse(self) -> None:
        """Tell the pulse what is held: it gives back what has not begun while the worker hangs.

        If the pulse has done so since the last time, those leases are no longer held.
        """
        if self._pulse is None:
            return
        begun = [key for key, held in self.by_key.items() if isinstance(held, Attempt)]
        waiting = [key for key, held in self.by_key.items() if not isinstance(held, Attempt)]
        if not self._pulse.show([*begun, *waiting], len(begun)):
            for key in waiting:
                del self.by_key[key]
            self.may_have_strays = True
            self._show_to_pulse()


def key_of(lease: Lease) -> Held:
    return (lease.job_id, lease.node, lease.item, lease.epoch)
