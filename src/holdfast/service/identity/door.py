"""Who sends a request, and whether it may: credentials, rates, and writes that come from other pages."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

from fastapi import Request

from holdfast.errors import Unauthenticated
from holdfast.operations import keys, sessions
from holdfast.operations.identity import Identity, Permission
from holdfast.operations.ports import OperationsStore
from holdfast.service.identity.limits import RateLimits, Rates
from holdfast.service.identity.liveness import Liveness
from holdfast.service.identity.origins import Origins, address_of

ANONYMOUS = Identity("anonymous", "", ())
COOKIE = "holdfast_session"
READING = ("GET", "HEAD", "OPTIONS")
REMEMBERED_SECONDS = 4.0
"""How long an identity is not read again: a key that is revoked ends within five seconds."""
MOST_REMEMBERED = 10_000
Find = Callable[[], Awaitable[Identity | None]]
HOW_TO_GET_ONE = "Make a key with: holdfast keys add NAME --role ROLE"


class TokenReader(Protocol):
    """Reads the tokens of an identity provider."""

    async def identity_of_token(self, token: str) -> Identity | None:
        """The identity that a token stands for; None if it is not valid."""
        ...


class Door:
    """Lets requests in. It remembers identities for a few seconds, by the hashes of their credentials."""

    def __init__(
        self,
        store: OperationsStore,
        *,
        origins: Origins | None = None,
        rates: Rates | None = None,
        tokens: TokenReader | None = None,
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._limits = RateLimits(rates or Rates())
        self._liveness = Liveness(store)
        self._known: dict[bytes, tuple[float, Identity]] = {}
        self._reading: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self.origins = origins or Origins()

    async def admit(self, request: Request, permission: Permission, *, is_file: bool = False) -> Identity:
        """The identity of a request that may have what it asks for; others are refused."""
        if is_file:
            self._limits.count_file(address_of(request))
        elif permission is Permission.PUBLIC or not has_credential(request):
            self._limits.count_address(address_of(request))
        if permission is Permission.PUBLIC:
            return ANONYMOUS
        identity = await self.identify(request)
        self._limits.count_identity(identity.credential, identity.name)
        if identity.session is not None and request.method not in READING:
            self.origins.refuse_foreign(request)
        identity.refuse_without(permission)
        return identity

    async def identify(self, request: Request) -> Identity:
        """Whose credential a request brings. A header counts more than a cookie."""
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, credential = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise Unauthenticated(
                    "The credential is not a bearer token.", remedy="Send `Authorization: Bearer KEY`."
                )
            return await self._remembered(request, "bearer", credential.strip())
        cookie = request.cookies.get(COOKIE)
        if cookie:
            return await self._remembered(request, "cookie", cookie)
        raise Unauthenticated("This needs a credential.", remedy=f"Send `Authorization: Bearer KEY`. {HOW_TO_GET_ONE}")

    async def identity_of_key(self, request: Request, key: str) -> Identity:
        """Whose key a sign-in brings."""
        return await self._checked(request, partial(keys.identity_of_key, self._store, key))

    async def identity_of_code(self, request: Request, code: str) -> Identity:
        """Whose code a sign-in brings. It works once."""
        return await self._checked(request, partial(sessions.identity_of_code, self._store, code))

    async def is_still_valid(self, identity: Identity) -> bool:
        """Whether the credential of a request that is still open holds. Ask each few seconds."""
        return await self._liveness.is_still_valid(identity)

    def forget(self, session: str | None = None) -> None:
        """Read the identity of a session again, or every identity."""
        is_kept = (lambda identity: identity.session != session) if session is not None else (lambda identity: False)
        self._known = {digest: known for digest, known in self._known.items() if is_kept(known[1])}

    async def _remembered(self, request: Request, kind: str, credential: str) -> Identity:
        digest = hashlib.sha256(f"{kind} {credential}".encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        # Requests that come at once with one credential wait for the first: they are one guess, and one statement.
        async with self._reading.setdefault(digest, asyncio.Lock()):
            return await self._read(request, digest, partial(self._find, kind, credential))

    async def _read(self, request: Request, digest: bytes, find: Find) -> Identity:
        known = self._known.get(digest)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        try:
            # One that was right before is no guess: those who guess from the same address cannot lock it out.
            identity = await (self._checked(request, find) if known is None else _valid(find))
        except Unauthenticated:
            self._known.pop(digest, None)
            raise
        if len(self._known) >= MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[digest] = (time.monotonic() + REMEMBERED_SECONDS, identity)
        return identity

    async def _find(self, kind: str, credential: str) -> Identity | None:
        if kind == "cookie":
            return await sessions.identity_of_session(self._store, credential)
        if keys.is_key(credential):
            return await keys.identity_of_key(self._store, credential)
        return await self._tokens.identity_of_token(credential) if self._tokens is not None else None

    async def _checked(self, request: Request, find: Find) -> Identity:
        """One that turns out wrong counts as a guess of its address."""
        address = address_of(request)
        self._limits.count_guess(address)
        try:
            identity = await _valid(find)
        except Unauthenticated:
            raise
        except BaseException:
            self._limits.was_no_guess(address)
            raise
        self._limits.was_no_guess(address)
        return identity


async def _valid(find: Find) -> Identity:
    identity = await find()
    if identity is None:
        raise Unauthenticated("The credential is not valid, or it has ended.", remedy=HOW_TO_GET_ONE)
    return identity


def has_credential(request: Request) -> bool:
    return "authorization" in request.headers or COOKIE in request.cookies
