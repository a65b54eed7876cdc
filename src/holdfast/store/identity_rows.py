"""Rows of identities: API keys, tenants, and browsers that are signed in."""

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


class TenantRow(NamedTuple):
    """A tenant that an administrator has made."""

    name: str
    created_by: str
    queues: tuple[str, ...] | None = None
    """The queues that its workflows may name; None: any."""
    created_at: datetime | None = None


class SessionRow(NamedTuple):
    """A browser that is signed in, without its cookie."""

    token_hash: str
    name: str
    tenant: str
    roles: tuple[str, ...]
    key_prefix: str | None = None
    expires_at: datetime | None = None
    is_over: bool = False
    """Whether it has ended, or the key that it stands for, by the clock of the database."""
