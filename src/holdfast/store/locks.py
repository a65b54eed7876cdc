"""Sessions that keep rows of ours locked, as people see them. Plain data; reads nothing."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

HELD_SECONDS = 2.0
"""How long a transaction is open before its locks are worth telling: ours are shorter."""
SHOWN_QUERY = 120
_LITERAL = re.compile(r"(\$\w*\$).*?(\1|\Z)|'(?:[^']|'')*('|\Z)", re.DOTALL)


class LockHolder(NamedTuple):
    """A session, since when its transaction is open, what it did last, and the tables of which it holds rows."""

    pid: int
    application: str
    user: str
    state: str | None
    since: datetime | None
    query: str
    tables: list[str]

    @property
    def name(self) -> str:
        return self.application or self.user or "a session"

    @property
    def ending(self) -> str:
        """The statement that ends it."""
        return f"select pg_terminate_backend({self.pid})"

    @property
    def shown_query(self) -> str:
        """In one line and not long; what stands in quotes may be a secret and is left out."""
        text = " ".join(_LITERAL.sub("'…'", self.query).split())
        return text if len(text) <= SHOWN_QUERY else f"{text[: SHOWN_QUERY - 1]}…"

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "application": self.application,
            "user": self.user,
            "state": self.state,
            "query": self.shown_query,
            "tables": self.tables,
        }
