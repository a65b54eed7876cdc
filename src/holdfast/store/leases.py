"""How a lease is named, and in which order the queue rows of leases are locked. Knows no database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from holdfast.store.arrays import plain, texts

if TYPE_CHECKING:
    from holdfast.store.records import Report

LEASE_SLACK_SECONDS = 10.0
"""How much longer than its timeout an attempt's lease lives. The worker's own timer, which starts when the handler
begins, ends the attempt. The deadline in the row is there for a worker that does not. It is reckoned from the claim, so
it leaves time for the claim's answer, for the bounded wait for a slot, and for the report."""

Held = tuple[str, str, int, int]
"""A lease by job, node, item and epoch."""


def in_lock_order(reports: Iterable[Report]) -> list[Report]:
    """Sorted by job, node and item: every statement that must lock several queue rows locks them in this order."""
    return sorted(reports, key=itemgetter(0, 1, 2))


def held_columns(held: Sequence[Held]) -> dict[str, str]:
    """The leases as the arrays that statements take."""
    return {
        "job_id": plain(h[0] for h in held),
        "node": texts(h[1] for h in held),
        "item": plain(h[2] for h in held),
        "epoch": plain(h[3] for h in held),
    }
