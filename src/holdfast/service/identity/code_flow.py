"""Signing a browser in at the identity provider: by code, with PKCE, state and nonce.

Between the two visits all that is needed is in a cookie of the browser itself, so that any process can go on.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson

from holdfast.errors import InvalidInput, Refused, Unauthenticated
from holdfast.operations.identity import Identity
from holdfast.service.identity.origins import safe_target
from holdfast.service.identity.provider import OidcSettings, Provider
from holdfast.service.identity.tokens import Tokens

COOKIE = "holdfast_sign_in"
FLOW_SECONDS = 600
SCOPES = "openid profile email"
LONGEST_CODE = 4096
AGAIN = "Start the sign-in again."


@dataclass(frozen=True, slots=True)
class Visit:
    """What the browser keeps while it is at the provider."""

    state: str
    nonce: str
    verifier: str
    target: str
    """Where to go afterwards: a path of ours."""

    @classmethod
    def new(cls, target: str | None) -> Visit:
        return cls(_random(), _random(), _random(), safe_target(target))

    def to_cookie(self) -> str:
        return _base64(orjson.dumps([self.state, self.nonce, self.verifier, self.target]))

    @classmethod
    def from_cookie(cls, text: str | None) -> Visit | None:
        try:
            parts = orjson.loads(base64.urlsafe_b64decode(f"{text or ''}==="))
            state, nonce, verifier, target = (part for part in parts if isinstance(part, str) and part)
        except (ValueError, TypeError):
            return None
        return cls(state, nonce, verifier, safe_target(target))


class CodeFlow:
    """Sends browsers to one provider, and takes them back."""

    def __init__(self, settings: OidcSettings, provider: Provider, tokens: Tokens) -> None:
        self._settings = settings
        self._provider = provider
        self._tokens = tokens

    @property
    def issuer(self) -> str:
        return self._settings.issuer

    async def address(self, visit: Visit, redirect_uri: str) -> str:
        """Where the browser signs in."""
        endpoint = (await self._provider.description()).authorization_endpoint
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPES,
            "state": visit.state,
            "nonce": visit.nonce,
            "code_challenge": _base64(hashlib.sha256(visit.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def finish(self, visit: Visit | None, state: str, code: str, redirect_uri: str) -> Identity:
        """Who has signed in. The code, the state and the token must all belong to this browser's visit."""
        if visit is None or not hmac.compare_digest(visit.state.encode(), state.encode()):
            raise Unauthenticated("This sign-in was not started in this browser, or too long ago.", remedy=AGAIN)
        if not code or len(code) > LONGEST_CODE:
            raise InvalidInput("The sign-in brings no code.", remedy=AGAIN)
        secret = self._settings.client_secret
        takes_basic = (await self._provider.description()).takes_basic
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._client_id,
            "code_verifier": visit.verifier,
        }
        if secret is not None and not takes_basic:
            form["client_secret"] = secret
        basic = (self._client_id, secret) if secret is not None and takes_basic else None
        answer = await self._provider.exchange(form, basic)
        token = answer.get("id_token") if answer is not None else None
        if not isinstance(token, str):
            raise Unauthenticated("The identity provider does not accept the code of this sign-in.", remedy=AGAIN)
        claims = await self._tokens.claims(token, self._client_id)
        nonce = claims.get("nonce") if claims is not None else None
        is_ours = isinstance(nonce, str) and hmac.compare_digest(nonce.encode(), visit.nonce.encode())
        if claims is None or not is_ours or claims.get("azp", self._client_id) != self._client_id:
            raise Unauthenticated("The token of this sign-in is not valid.", remedy=AGAIN)
        return self._tokens.identity_of(claims)

    @property
    def _client_id(self) -> str:
        if self._settings.client_id is None:
            raise Refused(
                "Browsers cannot sign in at the identity provider: this service is no client of it.",
                remedy="Set HOLDFAST_OIDC_CLIENT_ID.",
            )
        return self._settings.client_id


def _random() -> str:
    return secrets.token_urlsafe(32)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
