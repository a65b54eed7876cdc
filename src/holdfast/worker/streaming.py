"""Makes what running attempts print visible: at most one write a second for all attempts of the worker together."""

from __future__ import annotations

import asyncio
import time

from holdfast.errors import Unreachable
from holdfast.masking import masked
from holdfast.store.leases import Held
from holdfast.store.output_rows import OutputPart
from holdfast.store.records import WorkerIdentity
from holdfast.worker.context import Attempt
from holdfast.worker.held_leases import HeldLeases
from holdfast.worker.output import PART_LIMIT
from holdfast.worker.own_lease import OwnLease
from holdfast.worker.ports import OutputStore
from holdfast.worker.values import storable

SECONDS = 1.0
"""How often output is saved, and how long an attempt runs before its output is."""


class OutputStream:
    """Saves parts of the output of attempts that run, and deletes them when the attempts have ended."""

    def __init__(self, store: OutputStore, own_lease: OwnLease, leases: HeldLeases) -> None:
        self._store = store
        self._own_lease = own_lease
        self._leases = leases
        self._saved: dict[Held, tuple[Attempt, int]] = {}
        """The attempts of which parts were saved, and how many."""
        self._unsent: list[OutputPart] = []

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            await self.send()

    async def send(self) -> None:
        """Save what is new. If the database is out of reach, the parts stay for the next time."""
        worker = self._own_lease.identity
        if worker is None:
            return
        gone = {
            key: attempt for key, (attempt, _) in self._saved.items() if self._leases.by_key.get(key) is not attempt
        }
        # No report of a lost attempt is accepted: its parts are all that remains of its output.
        for key in [key for key, attempt in gone.items() if attempt.lost]:
            del self._saved[key]
        ended = [key for key, attempt in gone.items() if not attempt.lost]
        parts = self._unsent = [part for part in self._unsent if part.held not in gone] + self._new_parts()
        if not parts and not ended:
            return
        try:
            await self._store.save(worker, parts, ended)
        except Unreachable:
            return
        self._unsent = []
        for key in ended:
            self._saved.pop(key, None)

    async def end(self, worker: WorkerIdentity) -> None:
        """Delete what was saved: every attempt has reported, and its report has the output."""
        if self._saved:
            await self._store.save(worker, (), list(self._saved))

    def _new_parts(self) -> list[OutputPart]:
        since = time.monotonic() - SECONDS
        parts = []
        for key, attempt in self._leases.attempts():
            output = attempt.output
            if output is None or not output.is_unsent or attempt.started_monotonic > since:
                continue
            part = output.next_part()
            if part is not None:
                number = self._saved.get(key, (attempt, 0))[1] + 1
                self._saved[key] = attempt, number
                log = masked(storable(part.text, PART_LIMIT + len(part.text)))
                parts.append(OutputPart(key, number, attempt.started_at, log, part.times))
        return parts
