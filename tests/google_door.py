"""A stand-in for Google Cloud Storage: a proxy that accepts tokens signed with the service account's key.

moto serves the requests behind it, because Google's XML interface is a dialect of S3. The proxy adds the differences
that a client sees: the token, and the generation of every object.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

SCOPES = {f"https://www.googleapis.com/auth/{name}" for name in ("cloud-platform", "devstorage.full_control")}
SIGNED_FOR_S3 = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
HOP_BY_HOP = {"connection", "content-length", "date", "server", "transfer-encoding"}


@contextmanager
def opened(key: rsa.RSAPublicKey, email: str, behind: tuple[str, int], certificate: Path) -> Iterator[int]:
    """The port of the proxy. The certificate is a file that includes its key."""
    server = _Server(key, email, behind)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate)
    server.socket = secure.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, name="google door")
    serving.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class _Server(ThreadingHTTPServer):
    def __init__(self, key: rsa.RSAPublicKey, email: str, behind: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.key = key
        self.email = email
        self.behind = behind
        self.generations: Counter[str] = Counter()


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *words: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not is_signed(token, self.server.key, self.server.email):
            self._answer(401, {}, b"<Error><Code>AuthenticationRequired</Code></Error>")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("authorization", "host")}
        behind = http.client.HTTPConnection(*self.server.behind, timeout=30)
        try:
            behind.request(self.command, self.path, body, headers | {"Authorization": SIGNED_FOR_S3})
            answer = behind.getresponse()
            content = answer.read()
        finally:
            behind.close()
        forwarded = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, forwarded | self._generation(answer.status), content, length)

    def _generation(self, status: int) -> dict[str, str]:
        """The header with the object's generation, which grows with each version."""
        target = urlsplit(self.path)
        if status >= 300 or target.path.count("/") < 2:
            return {}
        is_upload = self.command == "PUT" and not target.query
        if is_upload or (self.command == "POST" and "uploadId" in target.query):
            self.server.generations[target.path] += 1
        return {"x-goog-generation": str(1_700_000_000_000_000 + self.server.generations[target.path])}

    def _answer(self, status: int, headers: dict[str, str], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815


def is_signed(token: str, key: rsa.RSAPublicKey, email: str) -> bool:
    """Whether the token is a valid JWT for storage, signed by the account itself."""
    try:
        head, body, signature = token.split(".")
        key.verify(_decoded(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, InvalidSignature):
        return False
    header, claims = json.loads(_decoded(head)), json.loads(_decoded(body))
    is_now = claims["iat"] - 60 <= time.time() < claims["exp"] <= claims["iat"] + 3600
    is_ours = claims["iss"] == claims["sub"] == email and claims["scope"] in SCOPES
    return header["alg"] == "RS256" and is_ours and is_now


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
