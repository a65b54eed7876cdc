"""Browsers that sign in: a session stands for an identity until it ends, and a code signs a browser in once.

The cookie and the code are random; the database has only their hashes.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace

from holdfast.errors import NotFound
from holdfast.operations.identity import Identity, Role
from holdfast.operations.keys import identity_of_row
from holdfast.operations.ports import OperationsStore
from holdfast.store.identity_rows import SessionRow

SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 60.0
TOKEN_BYTES = 32


async def sign_in(store: OperationsStore, identity: Identity) -> tuple[str, Identity]:
    """The cookie of a new session, and the identity as the session shows it."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    row = await store.identities().add_session(
        SessionRow(
            _hash(token),
            identity.name,
            identity.tenant,
            tuple(map(str, identity.roles)),
            identity.key,
            # The database looks at the key itself; a token's end is known only from the token.
            expires_at=identity.expires_at if identity.key is not None else None,
        ),
        SESSION_SECONDS,
    )
    return token, replace(identity, session=row.token_hash, expires_at=row.expires_at)


async def identity_of_session(store: OperationsStore, token: str) -> Identity | None:
    """The identity that a cookie stands for; None if the session has ended, or its key."""
    row = await store.identities().session(_hash(token))
    if row is None or row.is_over:
        return None
    roles = tuple(Role(role) for role in row.roles)
    return Identity(row.name, row.tenant, roles, row.key_prefix, row.token_hash, row.expires_at)


async def sign_out(store: OperationsStore, identity: Identity) -> None:
    """End the session of this identity; other sessions of the same key stay."""
    if identity.session is not None:
        await store.identities().end_session(identity.session)


async def new_code(store: OperationsStore, key_prefix: str) -> str:
    """A code with which a browser signs in once, within a minute, for the holder of a key."""
    code = secrets.token_urlsafe(TOKEN_BYTES)
    if not await store.identities().add_sign_in_code(_hash(code), key_prefix.removeprefix("hf_"), CODE_SECONDS):
        raise NotFound(f"There is no key {key_prefix}.", remedy="List the keys with: holdfast keys")
    return code


async def identity_of_code(store: OperationsStore, code: str) -> Identity | None:
    """The identity that a code stands for. It works once, also if several requests bring it at the same time."""
    row = await store.identities().use_sign_in_code(_hash(code))
    return identity_of_row(row) if row is not None and not row.is_over else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
