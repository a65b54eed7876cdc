"""Who may use the service, as people see it: API keys, tenants, and whom a request comes from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.store.identity_rows import KeyRow, TenantRow


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without the key itself."""

    prefix: str
    name: str
    tenant: str
    roles: tuple[str, ...]
    created_at: datetime | None
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None
    valid: bool
    """Whether it can be used now."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    key: str
    """The key itself, which can be read nowhere else and never again."""
    details: Key


@dataclass(frozen=True, slots=True)
class Session:
    """The caller of a request, and what the caller may do."""

    name: str
    tenant: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    """What its roles permit."""
    credential: str = "none"
    """How it shows who it is: `key`, `session`, `token` or `none`."""
    expires_at: datetime | None = None
    """When the credential ends."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant that an administrator has made."""

    name: str
    created_at: datetime | None
    created_by: str
    queues: tuple[str, ...] | None
    """The queues that its workflows may name; null: every queue."""


@dataclass(frozen=True, slots=True)
class KeptTenant:
    """A tenant as it is now."""

    tenant: Tenant
    is_new: bool


def tenant_view(row: TenantRow) -> Tenant:
    queues = tuple(row.queues) if row.queues is not None else None
    return Tenant(row.name, row.created_at, row.created_by, queues)


def key_view(row: KeyRow) -> Key:
    return Key(
        f"hf_{row.prefix}",
        row.name,
        row.tenant,
        tuple(row.roles),
        row.created_at,
        row.created_by,
        row.expires_at,
        row.revoked_at,
        row.revoked_by,
        row.last_used_at,
        not row.is_over,
    )
