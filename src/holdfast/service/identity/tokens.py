"""Tokens of the identity provider: whether they are genuine, and for whom they stand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from joserfc import jws, jwt
from joserfc.errors import JoseError

from holdfast.errors import Forbidden, InvalidInput
from holdfast.operations.identity import EVERY_TENANT, Identity, Role
from holdfast.operations.keys import check_tenant
from holdfast.service.identity.provider import OidcSettings, Provider

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Only those with a public and a private key: a public key must never verify what it could have signed."""
LEEWAY_SECONDS = 10
"""How much the clocks of the provider and of this machine may differ."""
LONGEST_TOKEN = 16_384
LONGEST_NAME = 100
LONGEST_SUBJECT = 255
"""As the standard allows. Two people must never have one name."""
LATEST = 253_402_300_799
"""The last second of the year 9999."""
NAME_CLAIMS = ("email", "preferred_username", "name", "sub")


class _Registry(jws.JWSRegistry):
    max_header_length: ClassVar[int] = 4096  # type: ignore[misc]


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


class Tokens:
    """Reads the tokens of one provider."""

    def __init__(self, settings: OidcSettings, provider: Provider) -> None:
        self._settings = settings
        self._provider = provider

    async def identity_of_token(self, token: str) -> Identity | None:
        """The identity that a bearer token stands for; None if it is not valid."""
        audience = self._settings.audience or self._settings.client_id
        claims = await self.claims(token, audience) if audience is not None else None
        return self.identity_of(claims) if claims is not None else None

    async def claims(self, token: str, audience: str) -> Mapping[str, Any] | None:
        """What a token says, if the provider has signed it for this audience and it holds now."""
        if len(token) > LONGEST_TOKEN or token.count(".") != 2 or not token.isascii():
            return None
        try:
            kid = _kid(token)
            keys = await self._provider.keys(kid)
            claims = jwt.decode(token, keys, registry=_REGISTRY).claims
            jwt.JWTClaimsRegistry(
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
                sub={"essential": True},
            ).validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # Whatever strangers write into a token, the answer is the same.
            return None
        return claims

    def identity_of(self, claims: Mapping[str, Any]) -> Identity:
        """The person or program of a genuine token. Forbidden if the provider does not say what they may do."""
        subject = str(claims["sub"])
        name = f"{_shown(_name(claims))} (oidc {_own(subject)})"
        roles = self._roles(claims, name)
        tenant = self._tenant(claims, name)
        if tenant == EVERY_TENANT and roles != (Role.ADMIN,):
            raise Forbidden(
                f"The token of {name} is for every tenant, which only the role admin alone is.",
                remedy=f"Have the provider put one tenant into the claim '{self._settings.tenant_claim}'.",
            )
        ends = datetime.fromtimestamp(min(float(claims["exp"]), LATEST), UTC)
        return Identity(name, tenant, roles, expires_at=ends)

    def _tenant(self, claims: Mapping[str, Any], name: str) -> str:
        wanted = self._settings.tenant_claim
        value = _claim(claims, wanted)
        if not isinstance(value, str) or not value:
            raise _missing(name, wanted, "the tenant, as a text")
        try:
            return check_tenant(value)
        except InvalidInput:
            raise _missing(name, wanted, "the tenant, with 1 to 100 printable characters") from None

    def _roles(self, claims: Mapping[str, Any], name: str) -> tuple[Role, ...]:
        """Those of its roles that are ours: a provider has roles for other programs, too."""
        wanted = self._settings.roles_claim
        value = _claim(claims, wanted)
        listed = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        roles = tuple(role for role in Role if str(role) in listed)
        if not roles:
            raise _missing(name, wanted, f"at least one of {', '.join(Role)}")
        return roles


def _kid(token: str) -> str | None:
    header = jws.extract_compact(token.encode(), registry=_REGISTRY).headers()
    kid = header.get("kid")
    if header.get("alg") not in ALGORITHMS or not isinstance(kid, str | None):
        raise ValueError("the header names no algorithm or key of ours")
    return kid


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path with dots through objects."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _missing(name: str, claim: str, what: str) -> Forbidden:
    return Forbidden(
        f"The token of {name} lacks the claim '{claim}', which must have {what}.",
        remedy="Have the provider add the claim; HOLDFAST_OIDC_TENANT_CLAIM and HOLDFAST_OIDC_ROLES_CLAIM name them.",
    )


def _name(claims: Mapping[str, Any]) -> str:
    found = (claims.get(name) for name in NAME_CLAIMS)
    return next(text for text in found if isinstance(text, str) and text)


def _own(subject: str) -> str:
    """A subject as part of a name that no other one has: where it cannot stand as it is, with a part of its hash."""
    shown = _shown(subject, LONGEST_SUBJECT)
    return shown if shown == subject else f"{shown} {_hash(subject)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _shown(text: str, length: int = LONGEST_NAME) -> str:
    """A text from outside, as part of a name: it can neither end the brackets nor look like a key."""
    plain = "".join(one if one.isprintable() and one not in "()" else "_" for one in text)
    return plain[:length]
