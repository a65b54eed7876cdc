"""A small OpenID provider on a real port. It signs whatever a test wants, and misbehaves on request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "holdfast", "quiet secret"
AUDIENCE = "holdfast-api"
DESCRIPTION = "/.well-known/openid-configuration"


class Issuer:
    """One provider with its keys, its people and the codes that it gave out."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {"one": RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})}
        self.person: dict[str, Any] = {"sub": "ann", "email": "ann@example.com", "tenant": "acme", "roles": ["viewer"]}
        self.codes: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        """What it answers instead, by path."""
        self.nonce: str | None = None
        """Another nonce than that of the sign-in."""

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        whole = {**self.person, "iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 600, **changes}
        return {name: value for name, value in whole.items() if value is not None}

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
        chosen = key if key is not None else self.keys["one"]
        return jwt.encode(
            {"alg": "RS256", "kid": "one", **(header or {})},
            self.claims(**changes),
            chosen,
            algorithms=["RS256", "ES256", "PS256"],
        )

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }

    def public_keys(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self.keys.values()]}

    def answer(self, method: str, target: str, form: dict[str, str], authorization: str) -> tuple[int, bytes, str]:
        """Status, body and, for a redirect, where to."""
        path, query = urlsplit(target).path, {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        self.requests.append(path)
        if path in self.answers:
            status, body = self.answers[path]
            return status, body, f"{self.url}/elsewhere" if status in (301, 302, 307) else ""
        if path == DESCRIPTION:
            return 200, json.dumps(self.description()).encode(), ""
        if path == "/jwks":
            return 200, json.dumps(self.public_keys()).encode(), ""
        if path == "/authorize":
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            return 302, b"", f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        if path == "/token" and method == "POST":
            return *self._exchange(form, authorization), ""
        return 404, b"{}", ""

    def _exchange(self, form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        """A code works once, for its client, with the verifier of its challenge."""
        asked = self.codes.pop(form.get("code", ""), None)
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_right = (
            asked is not None
            and authorization == f"Basic {expected}"
            and asked["code_challenge"] == challenge
            and asked["code_challenge_method"] == "S256"
            and asked["redirect_uri"] == form.get("redirect_uri")
        )
        if asked is None or not is_right:
            return 400, b'{"error": "invalid_grant"}'
        token = self.token(aud=CLIENT_ID, nonce=self.nonce or asked["nonce"])
        return 200, json.dumps({"access_token": "a", "token_type": "Bearer", "id_token": token}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    issuer: Issuer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
        self._answer({name: values[0] for name, values in parse_qs(body).items()})

    def _answer(self, form: dict[str, str]) -> None:
        authorization = self.headers.get("authorization", "")
        status, body, location = self.server.issuer.answer(self.command, self.path, form, authorization)
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.issuer = issuer
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def unsigned(claims: dict[str, Any], **header: Any) -> str:
    """A token with this header and no signature."""
    return f"{_joined({'alg': 'none', **header}, claims)}."


def confused(claims: dict[str, Any], public: bytes) -> str:
    """A token that is signed with a public key, as if that were a secret."""
    signed = _joined({"alg": "HS256", "typ": "JWT", "kid": "one"}, claims)
    signature = hmac.digest(public, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _joined(*parts: dict[str, Any]) -> str:
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(text.rstrip(b"=").decode() for text in texts)


def elliptic(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})
