"""The sources of a copy: files in storage, https addresses, object stores. Each can be read from any offset.

The operator, not the person who submits a job, decides what may be read from a network. An https host must have public
IP addresses only. An object store is read with the worker's credentials, so the operator must list it in
HOLDFAST_RASTER_SOURCES. Messages show only the host and path of an address: its query may be a signature.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urljoin, urlsplit

from holdfast import Permanent, RetryAfter, Transient
from holdfast.apps.raster.objects import CHUNK_BYTES, SCHEMES, Bucket, scrubbed, shown
from holdfast.apps.raster.storage import readable
from holdfast.extend.addresses import is_public
from holdfast.extend.settings import variable

TIMEOUT_SECONDS = 60.0
LONGEST_ADDRESS = 8000
MAX_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """The bytes of a source from an offset on. `version` changes with the source; `size` is its full size."""

    size: int | None
    version: str
    chunks: Iterator[bytes]


class Source(Protocol):
    """Something that can be copied. The label has no secrets: anybody may see it."""

    label: str

    def read(self, offset: int) -> AbstractContextManager[Reading]: ...


def source_of(name: str) -> Source:
    """The source for a name or an address; raises Permanent if it must not be read."""
    if "://" not in name:
        return _File(name, readable(name))
    parts = _split(name)
    if parts.scheme in ("https", "http") and parts.hostname:
        return _Web(name)
    if parts.scheme in SCHEMES and parts.netloc and parts.path.strip("/"):
        return _Object(name)
    raise Permanent(
        f"The source {shown(name)} is refused: use CONTAINER/BLOB, https://, s3://, gs:// or az://",
        code="SOURCE_REFUSED",
    )


def _split(address: str) -> SplitResult:
    """The parts of an address; raises Permanent if it is malformed."""
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https"):
            # urlsplit checks these lazily: a port that is no number, a host label that is empty or too long.
            _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        raise Permanent("The source is refused: its address is malformed", "SOURCE_REFUSED") from None
    request_target = f"{parts.path}{parts.query}" if parts.scheme in ("http", "https") else ""
    is_encoded = " " not in request_target and request_target.isascii()
    if len(address) > LONGEST_ADDRESS or not address.isprintable() or not is_encoded:
        raise Permanent(
            f"The source {shown(address)[:200]!r} is refused: it is longer than {LONGEST_ADDRESS:,} characters, or has"
            " characters that must be percent-encoded",
            code="SOURCE_REFUSED",
        )
    return parts


def _is_named(address: str) -> bool:
    """Whether HOLDFAST_RASTER_SOURCES lists this address or a folder above it."""
    prefixes = variable("RASTER_SOURCES").split()
    if ".." in urlsplit(address).path.split("/"):
        return False
    return any(address.split("?")[0].startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


class _File:
    def __init__(self, name: str, path: Path) -> None:
        self.label = name
        self._path = path

    @contextmanager
    def read(self, offset: int) -> Iterator[Reading]:
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(offset)
            chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
            yield Reading(status.st_size, f"{status.st_size}-{status.st_mtime_ns}", chunks)


class _Object:
    def __init__(self, address: str) -> None:
        self.label = shown(address)
        if not _is_named(address):
            raise Permanent(
                f"The source {self.label} is refused: the operator has not allowed it. "
                "Add the bucket to HOLDFAST_RASTER_SOURCES of the workers, such as: s3://BUCKET/",
                code="SOURCE_REFUSED",
            )
        parts = urlsplit(address)
        self._key = parts.path.strip("/")
        self._bucket = Bucket(f"{parts.scheme}://{parts.netloc}")

    @contextmanager
    def read(self, offset: int) -> Iterator[Reading]:
        yield Reading(*self._bucket.get(self._key, offset))


class _Web:
    def __init__(self, address: str) -> None:
        self.label = shown(address)
        self._address = address
        self._check(address)

    @contextmanager
    def read(self, offset: int) -> Iterator[Reading]:
        try:
            answer = self._answer(offset)
        except (OSError, http.client.HTTPException) as problem:
            raise self._unavailable(problem) from None
        with answer:
            size = _size(answer)
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or str(size)
            # A server without support for ranges sends the whole file.
            skip = 0 if answer.status == 206 else offset
            yield Reading(size, version, self._chunks(answer, skip))

    def _answer(self, offset: int) -> http.client.HTTPResponse:
        address = self._address
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._ask(address, offset)
            location = answer.headers.get("Location")
            if answer.status not in (301, 302, 303, 307, 308) or location is None:
                self._refuse_failures(answer)
                return answer
            answer.close()
            address = _joined(address, location)
            self._check(address)
        raise Permanent(f"{self.label} redirects more than {MAX_REDIRECTS} times", code="SOURCE_REFUSED")

    def _check(self, address: str) -> None:
        if _split(address).scheme != "https" and not _is_named(address):
            raise Permanent(
                f"The source {shown(address)} is refused: it is not https. "
                "An operator can allow it in HOLDFAST_RASTER_SOURCES",
                code="SOURCE_REFUSED",
            )

    def _ask(self, address: str, offset: int) -> http.client.HTTPResponse:
        parts = urlsplit(address)
        connection = _connect(parts, trusted=_is_named(address))
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"User-Agent": "holdfast", "Accept-Encoding": "identity", "Connection": "close"}
            connection.request("GET", target, headers=headers | ({"Range": f"bytes={offset}-"} if offset else {}))
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _refuse_failures(self, answer: http.client.HTTPResponse) -> None:
        if answer.status in (200, 206):
            return
        message = f"{self.label} answers {answer.status} {answer.reason}"
        answer.close()
        if answer.status in (404, 410):
            raise Permanent(message, code="SOURCE_NOT_FOUND")
        if answer.status in (408, 425, 429) or answer.status >= 500:
            pause = answer.headers.get("Retry-After") or ""
            if pause.isdigit():
                raise RetryAfter(min(int(pause), 3600), message, code="SOURCE_UNAVAILABLE")
            raise Transient(message, code="SOURCE_UNAVAILABLE")
        raise Permanent(message, code="SOURCE_FORBIDDEN")

    def _chunks(self, answer: http.client.HTTPResponse, skip: int) -> Iterator[bytes]:
        try:
            while skip and (skipped := answer.read(min(CHUNK_BYTES, skip))):
                skip -= len(skipped)
            while chunk := answer.read(CHUNK_BYTES):
                yield chunk
        except (OSError, http.client.HTTPException) as problem:
            raise self._unavailable(problem) from None

    def _unavailable(self, problem: Exception) -> Transient:
        return Transient(
            f"{self.label} cannot be read: {type(problem).__name__}: {scrubbed(problem)}", code="SOURCE_UNAVAILABLE"
        )


def _joined(address: str, location: str) -> str:
    try:
        return urljoin(address, location)
    except ValueError:
        # The caller checks the location like any address, and refuses it there.
        return location


def _size(answer: http.client.HTTPResponse) -> int | None:
    total = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    if total.isdigit():
        return int(total)
    return answer.length if answer.status == 200 else None


def _connect(parts: SplitResult, trusted: bool) -> http.client.HTTPConnection:
    """Connect to the very IP address that was checked: a second DNS lookup could give another one."""
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not trusted and not all(map(is_public, addresses)):
        raise Permanent(
            f"The source {parts.scheme}://{host} is refused: it is not a public address. "
            "An operator can allow it in HOLDFAST_RASTER_SOURCES",
            code="SOURCE_REFUSED",
        )
    connected = socket.create_connection((addresses[0], port), timeout=TIMEOUT_SECONDS)
    if parts.scheme != "https":
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        connection.sock = connected
        return connection
    secured = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS)
    secured.sock = ssl.create_default_context().wrap_socket(connected, server_hostname=host)
    return secured
