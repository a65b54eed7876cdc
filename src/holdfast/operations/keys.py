"""API keys: making, listing and revoking them, and finding the identity that a key stands for.

A key is shown once. The database has only its hash: of 256 random bits a fast hash is enough, and it costs a request
nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Sequence
from datetime import datetime

from holdfast.define.bounds import MAX_NAME_LENGTH
from holdfast.errors import InvalidInput, NotFound, Refused
from holdfast.operations.identity import EVERY_TENANT, Identity, Role
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.identity_rows import KeyRow
from holdfast.views.identities import Key, NewKey, key_view

_ALPHABET = string.digits + string.ascii_letters
PREFIX_LENGTH, _SECRET_LENGTH = 8, 43
_SHAPE = re.compile(rf"hf_([0-9A-Za-z]{{{PREFIX_LENGTH}}})[0-9A-Za-z]{{{_SECRET_LENGTH}}}", re.ASCII)
_PREFIX = re.compile(rf"(?:hf_)?([0-9A-Za-z]{{{PREFIX_LENGTH}}})", re.ASCII)
_TENANT = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


async def add_key(
    scope: Scope,
    store: OperationsStore,
    name: str,
    *,
    roles: Sequence[str],
    tenant: str | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """Make a key. What it returns has the key itself, which can be read nowhere else and never again."""
    wanted = tuple(dict.fromkeys(_role(role) for role in roles))
    if not wanted:
        raise InvalidInput("A key needs a role.", remedy=f"Use one of: {', '.join(Role)}")
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidInput(f"A key needs a name of at most {MAX_NAME_LENGTH} printable characters.")
    owner = check_tenant(tenant or scope.tenant)
    if owner == EVERY_TENANT and wanted != (Role.ADMIN,):
        raise InvalidInput(
            "A key for every tenant administers the installation: its role is admin.",
            remedy="Name the tenant that the key is for.",
        )
    if expires_at is not None and expires_at.timestamp() <= await store.reads().now():
        raise InvalidInput(
            f"The key was not made: it would expire at {expires_at:%Y-%m-%d %H:%M:%S %Z}, which is in the past.",
            remedy="Give a time in the future, or none.",
        )
    prefix, secret = _random(PREFIX_LENGTH), _random_secret()
    key = f"hf_{prefix}{secret}"
    row = await store.identities(scope.origin).add_key(
        KeyRow(prefix, _hash(key), name, owner, tuple(map(str, wanted)), created_by=scope.actor, expires_at=expires_at)
    )
    return NewKey(key, key_view(row))


async def keys(scope: Scope, store: OperationsStore) -> list[Key]:
    """The keys of the tenant, newest first; with the tenant * the keys of all."""
    tenant = None if scope.tenant == EVERY_TENANT else scope.tenant
    return [key_view(row) for row in await store.identities().keys(tenant)]


async def revoke_key(scope: Scope, store: OperationsStore, prefix: str) -> Key:
    """End a key. Processes that know it forget it within five seconds."""
    tenant = None if scope.tenant == EVERY_TENANT else scope.tenant
    shape = _PREFIX.fullmatch(prefix) or _SHAPE.fullmatch(prefix)
    if shape is None:
        raise NotFound(
            "There is no such key: what names one is hf_ and eight characters, or the key itself.",
            remedy="List the keys with: holdfast keys",
        )
    wanted = shape[1]
    found = next((row for row in await store.identities().keys(tenant) if row.prefix == wanted), None)
    if found is None or (is_key(prefix) and not hmac.compare_digest(found.secret_hash, _hash(prefix))):
        raise NotFound(f"There is no key hf_{wanted}.", remedy="List the keys with: holdfast keys")
    revoked = await store.identities(scope.origin).revoke_key(wanted, scope.actor)
    if revoked is None:
        by = f", by {found.revoked_by}" if found.revoked_by is not None else ""
        raise Refused(f"Key hf_{wanted} was revoked already{by}.", instance=f"hf_{wanted}")
    return key_view(revoked)


async def identity_of_key(store: OperationsStore, key: str) -> Identity | None:
    """The identity that a key stands for; None if there is no such key, or if it has ended."""
    shape = _SHAPE.fullmatch(key)
    if shape is None:
        return None
    hashed = _hash(key)
    row = await store.identities().key(shape[1], hashed)
    # Compared in any case: the time does not tell whether the prefix exists.
    is_same = hmac.compare_digest(row.secret_hash if row is not None else "", hashed)
    return identity_of_row(row) if row is not None and is_same and not row.is_over else None


def identity_of_row(row: KeyRow) -> Identity:
    """The identity that a valid key stands for."""
    roles = tuple(Role(role) for role in row.roles)
    return Identity(f"{row.name} (hf_{row.prefix})", row.tenant, roles, row.prefix, expires_at=row.expires_at)


def is_key(text: str) -> bool:
    """Whether this has the form of a key."""
    return _SHAPE.fullmatch(text) is not None


def check_tenant(name: str) -> str:
    """Refuse what cannot be the name of a tenant."""
    if not _TENANT.fullmatch(name):
        raise InvalidInput("A tenant has 1 to 100 printable characters.")
    return name


def _role(text: str) -> Role:
    if text not in tuple(Role):
        raise InvalidInput(f"'{text}' is not a role.", remedy=f"Use one of: {', '.join(Role)}")
    return Role(text)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _random_secret() -> str:
    """256 random bits in base 62."""
    number, digits = secrets.randbits(256), []
    for _ in range(_SECRET_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
