"""The named statements of the store, from `sql/*.sql`."""

from __future__ import annotations

from functools import cache

from holdfast.errors import Bug
from holdfast.sql_files import statements_in
from holdfast.store.columns import filled_in


@cache
def query(name: str) -> bytes:
    """The statement of that name, with the lists of columns that it names."""
    return filled_in(_text(name), _text).encode()


def _text(name: str) -> str:
    found = _all_queries().get(name)
    if found is None:
        raise Bug(f"there is no statement named {name} in store/sql")
    return found.decode()


@cache
def _all_queries() -> dict[str, bytes]:
    return statements_in("holdfast.store.sql")
