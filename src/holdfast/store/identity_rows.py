"""Rows of identities: API keys."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class KeyRow(NamedTuple):
    """An API key, without the key."""

    prefix: str
    secret_hash: str
    name: str
    tenant: str
    roles: tuple[str, ...]
    created_by: str
    expires_at: datetime | None = None
    created_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    last_used_at: datetime | None = None
    is_over: bool = False
    """Whether it was revoked or has expired, by the clock of the database."""
