"""The failed items of a node in words: those that failed in the same way together, and how many are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.views.history import FailedGroup


def failure_lines(groups: Sequence[FailedGroup], failed: int, *, in_batches: bool) -> Iterator[str]:
    """A line for each group, and one for the failures that belong to none of them."""
    one, several = ("batch", "batches") if in_batches else ("item", "items")
    for group in groups:
        yield f"{_number(group, one, several)}: {group.code}: {group.message}"
    rest = left_out(groups, failed)
    if rest:
        yield f"{rest:,} more {one if rest == 1 else several} failed in other ways"


def left_out(groups: Sequence[FailedGroup], failed: int) -> int:
    """How many failures belong to none of the groups."""
    # The two were read one after the other, and the job may have changed in between.
    return max(0, failed - sum(group.number for group in groups)) if groups else 0


def _number(group: FailedGroup, one: str, several: str) -> str:
    """`item 7 failed`, `12 items failed (7, 19, 20, …)`"""
    if group.number == 1:
        return f"{one} {group.items[0]} failed"
    more = ", …" if group.number > len(group.items) else ""
    return f"{group.number:,} {several} failed ({', '.join(map(str, group.items))}{more})"
