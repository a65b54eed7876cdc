"""Cursors that are numbers: where a page of a list ended."""

from __future__ import annotations

from holdfast.errors import InvalidInput, cut

LARGEST = 2**63 - 1


def number_of_cursor(cursor: str) -> int:
    """The number in a cursor that a page gave."""
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 19 or int(cursor) > LARGEST:
        raise InvalidInput(f"'{cut(cursor)}' is not a cursor.", remedy="Use the cursor that the page before gave.")
    return int(cursor)
