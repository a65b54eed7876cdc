"""The objects of a worker without a database: the service has them. Called from threads, in which handlers run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx2

from holdfast.errors import LeaseEnded, PayloadUnavailable
from holdfast.log_events import EventLog
from holdfast.remote.connection import BUSY, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS
from holdfast.remote.work import Tokens
from holdfast.service_address import API
from holdfast.store.payloads import CHUNK_BYTES, digest_of, digest_of_file, missing, receive, verify

CONNECT_SECONDS, STALLED_SECONDS = 5.0, 60.0
TOO_MANY = 429
Found = TypeVar("Found")
log = EventLog("holdfast.worker")


class _Away(Exception):
    """The service does not answer, or not now. The same request can be sent again."""


class _Ended(Exception):
    """The lease that the request named has ended. Another one of the same job may stand in for it."""


class RemoteObjects:
    """Keeps the promises of `store.payloads.Objects`. What is read is verified here.

    While the service restarts, a request is sent again: the same object stored twice is one object.
    """

    def __init__(
        self, url: str, key: str | None, tokens: Tokens, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """`patience_seconds` is how long a request is sent again: for longer than a lease lasts, that is of no use."""
        self.place = url
        self._tokens = tokens
        self._patience_seconds = patience_seconds
        self._client = httpx2.Client(
            base_url=url + API,
            headers={"Authorization": f"Bearer {key}"} if key is not None else {},
            timeout=httpx2.Timeout(STALLED_SECONDS, connect=CONNECT_SECONDS),
        )

    def close(self) -> None:
        self._client.close()

    def write(self, job_id: str, digest: str, data: bytes) -> None:
        self._again(job_id, digest, lambda: self._put(job_id, digest, iter([data])))

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with file.open("rb") as source:
            digest, size = digest_of_file(source)

        def put() -> None:
            with file.open("rb") as source:
                self._put(job_id, digest, iter(lambda: source.read(CHUNK_BYTES), b""))

        self._again(job_id, digest, put)
        return digest, size

    def read(self, job_id: str, digest: str) -> bytes:
        data = self._again(job_id, digest, lambda: b"".join(self._parts(job_id, digest)))
        verify(job_id, digest, digest_of(data), self.place)
        return data

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        self._again(job_id, digest, lambda: receive(job_id, digest, self._parts(job_id, digest), target, self.place))

    def parts(self, job_id: str, digest: str, first: int, length: int) -> Iterator[bytes]:
        raise missing(job_id, digest, self.place, "a worker reads whole objects")

    def remove_job(self, job_id: str) -> None:
        raise missing(job_id, "*", self.place, "a worker removes no objects")

    def _parts(self, job_id: str, digest: str) -> Iterator[bytes]:
        token = self._tokens.of_job(job_id)
        with self._client.stream("GET", f"/worker/payload/{digest}", headers=_headers(token)) as answer:
            self._check(job_id, digest, token, answer)
            yield from answer.iter_bytes(CHUNK_BYTES)

    def _put(self, job_id: str, digest: str, parts: Iterator[bytes]) -> None:
        token = self._tokens.of_job(job_id)
        answer = self._client.put(f"/worker/payload/{digest}", headers=_headers(token), content=parts)
        self._check(job_id, digest, token, answer)

    def _again(self, job_id: str, digest: str, request: Callable[[], Found]) -> Found:
        """What the request gives. It is made again while the service does not answer, but not for ever."""
        until, pause = time.monotonic() + self._patience_seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                return request()
            except _Ended:
                continue
            except (httpx2.TransportError, _Away) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                problem = missing(job_id, digest, self.place, f"the service does not answer: {reason}")
                if time.monotonic() + pause > until:
                    raise problem from None
            if pause == FIRST_PAUSE_SECONDS:
                log.write("payload_unavailable", reason=problem)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _check(self, job_id: str, digest: str, token: str | None, answer: httpx2.Response) -> None:
        if answer.status_code >= 300:
            answer.read()
            try:
                problem = answer.json()
                reason, code = str(problem["detail"]), problem["code"]
            except (ValueError, KeyError, TypeError):
                reason, code = f"the service answered {answer.status_code}", None
            if code == LeaseEnded.code and token is not None:
                self._tokens.refused(token)
                raise _Ended
            if answer.status_code in (*BUSY, TOO_MANY) and code != PayloadUnavailable.code:
                raise _Away(reason)
            raise PayloadUnavailable(
                f"Payload {digest} of job {job_id} cannot be passed on by {self.place}: {reason}",
                remedy="See the log of the service.",
                instance=job_id,
            )


def _headers(token: str | None) -> dict[str, str]:
    return {"Holdfast-Lease": token or "-"}
