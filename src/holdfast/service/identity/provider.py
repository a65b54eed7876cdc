"""The identity provider: its description and its keys, read over HTTP and kept for a while.

Answers are bounded in size and time, and redirects are not followed: the provider is who the settings say.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from holdfast.errors import Unreachable
from holdfast.service.identity.origins import is_loopback

ANSWER_SECONDS = 5.0
ANSWER_BYTES = 1 << 20
MOST_KEYS = 100
KEPT_SECONDS = 600.0
"""After so long, description and keys are read again."""
OLDEST_SECONDS = 3600.0
"""For so long the known keys are used while the provider does not answer."""
AGAIN_SECONDS = 5.0
"""How often the provider is asked at most, whatever tokens name."""
KEY_TYPES = ("RSA", "EC")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """What an administrator says about the provider."""

    issuer: str
    audience: str | None = None
    """For whom bearer tokens must be made; None: the client id."""
    client_id: str | None = None
    client_secret: str | None = None
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"


@dataclass(frozen=True, slots=True)
class Description:
    """What the provider says about itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    takes_basic: bool


class Provider:
    """One identity provider."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.issuer = issuer
        self._clock = clock
        self._reading = asyncio.Lock()
        self._description: Description | None = None
        self._keys: KeySet | None = None
        self._read_at = self._asked_at = float("-inf")

    async def description(self) -> Description:
        if self._description is None or self._age() > KEPT_SECONDS:
            await self._refresh()
        assert self._description is not None
        return self._description

    async def keys(self, kid: str | None) -> KeySet:
        """The keys with which the provider signs. They are read again if none has this id, but not all the time."""
        if self._keys is None or self._age() > KEPT_SECONDS or not _has(self._keys, kid):
            await self._refresh(lambda: self._keys is not None and _has(self._keys, kid))
        assert self._keys is not None
        return self._keys

    async def exchange(self, form: Mapping[str, str], credentials: tuple[str, str] | None) -> Mapping[str, Any] | None:
        """What the provider gives for the code of a sign-in; None if it refuses."""
        endpoint = (await self.description()).token_endpoint
        status, answer = await _request("POST", endpoint, data=dict(form), auth=credentials)
        if 400 <= status < 500:
            return None
        if status != 200:
            raise _unreachable(self.issuer, f"it answered {status}")
        return answer

    def _age(self) -> float:
        return self._clock() - self._read_at

    async def _refresh(self, is_done: Callable[[], bool] = lambda: True) -> None:
        """Read description and keys. One request reads for all that wait."""
        async with self._reading:
            if self._keys is not None and self._age() <= KEPT_SECONDS and is_done():
                return
            is_usable = self._keys is not None and self._age() < OLDEST_SECONDS
            waits = self._clock() - self._asked_at < AGAIN_SECONDS
            if waits and is_usable:
                return
            if waits:
                raise _unreachable(self.issuer, "it did not answer a moment ago")
            self._asked_at = self._clock()
            try:
                description = _checked(self.issuer, await _read(self.issuer, _well_known(self.issuer)))
                self._keys = _key_set(self.issuer, await _read(self.issuer, description.jwks_uri))
            except Unreachable:
                if not is_usable:
                    raise
                return
            self._description = description
            self._read_at = self._clock()


def _has(keys: KeySet, kid: str | None) -> bool:
    return kid is None or any(key.kid == kid for key in keys)


def _well_known(issuer: str) -> str:
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def _checked(issuer: str, document: Mapping[str, Any]) -> Description:
    """Refuse a description of another issuer, or with addresses that are not safe."""
    if document.get("issuer") != issuer:
        raise _unreachable(issuer, f"it calls itself {str(document.get('issuer'))[:200]!r}")
    addresses = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        address = document.get(name)
        if not isinstance(address, str) or not is_safe(address):
            raise _unreachable(issuer, f"its description has no usable {name}")
        addresses[name] = address
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Description(**addresses, takes_basic=isinstance(methods, list) and "client_secret_basic" in methods)


def is_safe(address: str) -> bool:
    """Whether no stranger on the way can change what comes from there: TLS, or this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _key_set(issuer: str, document: Mapping[str, Any]) -> KeySet:
    """The keys that can sign: asymmetric and long enough. Others are left out, so that no key can be confused."""
    listed = document.get("keys")
    found: list[Key] = []
    for one in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("kty") not in KEY_TYPES or one.get("use", "sig") != "sig":
            continue
        public = {name: value for name, value in one.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
        try:
            with warnings.catch_warnings():
                # A short key is a warning there; here it is no key.
                warnings.simplefilter("error")
                found.append(JWKRegistry.import_key(public))
        except (JoseError, ValueError, TypeError, KeyError, Warning):
            continue
    if not found:
        raise _unreachable(issuer, "it names no key that can sign")
    return KeySet(found)


async def _read(issuer: str, url: str) -> Mapping[str, Any]:
    status, answer = await _request("GET", url)
    if status != 200:
        raise _unreachable(issuer, f"{url} answered {status}")
    return answer


async def _request(method: str, url: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
    """Status and object of an answer; Unreachable if there is none in time, or if it is something else."""
    body = bytearray()
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx2.AsyncClient(follow_redirects=False, timeout=ANSWER_SECONDS) as client,
            client.stream(method, url, headers={"Accept": "application/json"}, **more) as response,
        ):
            async for part in response.aiter_bytes():
                body += part
                if len(body) > ANSWER_BYTES:
                    raise _unreachable(url, f"it answered more than {ANSWER_BYTES:,} bytes")
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        raise _unreachable(url, str(error) or type(error).__name__) from None
    try:
        answer = orjson.loads(body) if response.status_code == 200 else {}
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _unreachable(url, "its answer is not a JSON object")
    return response.status_code, answer


def _unreachable(what: str, why: str) -> Unreachable:
    return Unreachable(
        f"The identity provider {what} cannot be used: {why}.",
        remedy="Check HOLDFAST_OIDC_ISSUER, and whether the provider answers. API keys work without it.",
    )
