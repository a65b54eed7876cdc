"""The objects of a worker without a database: the service has them. Called from threads, in which handlers run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2

from holdfast.errors import PayloadUnavailable
from holdfast.service_address import API
from holdfast.store.payloads import CHUNK_BYTES, digest_of, digest_of_file, missing, receive, verify

CONNECT_SECONDS, STALLED_SECONDS = 5.0, 60.0
TokenOfJob = Callable[[str], str | None]
"""The token of a lease of that job that the worker holds."""


class RemoteObjects:
    """Keeps the promises of `store.payloads.Objects`. What is read is verified here."""

    def __init__(self, url: str, key: str | None, token_of_job: TokenOfJob) -> None:
        self.place = url
        self._token_of_job = token_of_job
        self._client = httpx2.Client(
            base_url=url + API,
            headers={"Authorization": f"Bearer {key}"} if key is not None else {},
            timeout=httpx2.Timeout(STALLED_SECONDS, connect=CONNECT_SECONDS),
        )

    def close(self) -> None:
        self._client.close()

    def write(self, job_id: str, digest: str, data: bytes) -> None:
        self._put(job_id, digest, iter([data]))

    def write_file(self, job_id: str, file: Path) -> tuple[str, int]:
        with file.open("rb") as source:
            digest, size = digest_of_file(source)
        with file.open("rb") as source:
            self._put(job_id, digest, iter(lambda: source.read(CHUNK_BYTES), b""))
        return digest, size

    def read(self, job_id: str, digest: str) -> bytes:
        data = b"".join(self._parts(job_id, digest))
        verify(job_id, digest, digest_of(data), self.place)
        return data

    def read_file(self, job_id: str, digest: str, target: Path) -> None:
        receive(job_id, digest, self._parts(job_id, digest), target, self.place)

    def parts(self, job_id: str, digest: str, first: int, length: int) -> Iterator[bytes]:
        raise missing(job_id, digest, self.place, "a worker reads whole objects")

    def remove_job(self, job_id: str) -> None:
        raise missing(job_id, "*", self.place, "a worker removes no objects")

    def _parts(self, job_id: str, digest: str) -> Iterator[bytes]:
        asking = self._client.stream("GET", f"/worker/payload/{digest}", headers=self._headers(job_id))
        with self._refusing(job_id, digest), asking as answer:
            self._check(job_id, digest, answer)
            yield from answer.iter_bytes(CHUNK_BYTES)

    def _put(self, job_id: str, digest: str, parts: Iterator[bytes]) -> None:
        with self._refusing(job_id, digest):
            answer = self._client.put(f"/worker/payload/{digest}", headers=self._headers(job_id), content=parts)
            self._check(job_id, digest, answer)

    def _headers(self, job_id: str) -> dict[str, str]:
        return {"Holdfast-Lease": self._token_of_job(job_id) or "-"}

    @contextlib.contextmanager
    def _refusing(self, job_id: str, digest: str) -> Iterator[None]:
        try:
            yield
        except httpx2.TransportError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise missing(job_id, digest, self.place, f"the service does not answer: {reason}") from None

    def _check(self, job_id: str, digest: str, answer: httpx2.Response) -> None:
        if answer.status_code >= 300:
            answer.read()
            try:
                reason = str(answer.json()["detail"])
            except (ValueError, KeyError, TypeError):
                reason = f"the service answered {answer.status_code}"
            raise PayloadUnavailable(
                f"Payload {digest} of job {job_id} cannot be passed on by {self.place}: {reason}",
                remedy="See the log of the service.",
                instance=job_id,
            )
