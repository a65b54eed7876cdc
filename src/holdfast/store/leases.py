"""How a lease is named, and in which order the queue rows of leases are locked. Knows no database."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from holdfast.store.records import Report

Held = tuple[str, str, int, int]
"""A lease by job, node, item and epoch."""


def in_lock_order(reports: Iterable[Report]) -> list[Report]:
    """Sorted by job, node and item: every statement that must lock several queue rows locks them in this order."""
    return sorted(reports, key=itemgetter(0, 1, 2))
