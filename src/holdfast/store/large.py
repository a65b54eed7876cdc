"""The large values of an owner's cycle: taken out of rows on their way in, put back on their way out.

The core sees values and never references; readers of rows see small ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from holdfast import failpoint
from holdfast.core.effects import FinishTask
from holdfast.errors import PayloadUnavailable
from holdfast.store.arrays import plain, texts
from holdfast.store.connection import Statement
from holdfast.store.payloads import Payloads, digest_of
from holdfast.store.queries import query
from holdfast.store.records import SignalRow


class LargeValues:
    """What one cycle has met. Without an object store every value stays in its row."""

    def __init__(self, payloads: Payloads | None) -> None:
        self._payloads = payloads
        self._taken_out: dict[tuple[str, str], bytes] = {}
        self._reports: dict[int, SignalRow] = {}

    def forget(self) -> None:
        """A new cycle begins."""
        self._taken_out.clear()
        self._reports.clear()

    async def text(self, job_id: str, digest: str) -> bytes:
        if self._payloads is None:
            raise PayloadUnavailable(
                f"Payload {digest} of job {job_id} lies in an object store, and this process has none.",
                remedy="Give the process its settings: HOLDFAST_HOME or HOLDFAST_STORAGE_URL.",
                instance=job_id,
            )
        return await self._payloads.get(job_id, digest)

    async def value(self, job_id: str, digest: str) -> Any:
        return orjson.loads(await self.text(job_id, digest))

    def saw(self, signals: Iterable[SignalRow]) -> None:
        """Remember which reports tell of objects: if they are taken, rows refer to these from then on."""
        for signal in signals:
            if signal.data is not None and ("output_ref" in signal.data or "artifacts" in signal.data):
                self._reports[signal.id] = signal

    def taken_out(self, job_ids: Sequence[str], values: Iterable[Any]) -> tuple[list[bytes | None], str]:
        """A column of values as JSON without those that are too large for a row, and their digests as an array."""
        encoded = [v if v is None or isinstance(v, bytes) else orjson.dumps(v) for v in values]
        if self._payloads is None:
            return encoded, "{}"
        limit = self._payloads.inline_bytes
        large = [n for n, v in enumerate(encoded) if v is not None and len(v) > limit]
        if not large:
            return encoded, "{}"
        digests: list[str | None] = [None] * len(encoded)
        for number in large:
            value, encoded[number] = encoded[number], None
            assert value is not None
            digests[number] = digest = digest_of(value)
            self._taken_out[job_ids[number], digest] = value
        return encoded, plain(digests)

    async def store(self, finished: Sequence[FinishTask]) -> list[Statement]:
        """Make objects of what was taken out; returns what must be written with the rows that refer to them."""
        payloads, artifacts = [], []
        if self._taken_out and self._payloads is not None:
            await asyncio.gather(*(self._payloads.put(key[0], value) for key, value in self._taken_out.items()))
            await failpoint.hit("commit.stored")
            payloads += [(*key, len(value)) for key, value in self._taken_out.items()]
            self._taken_out.clear()
        completed = [task.signal_id for task in finished if task.status == "completed"]
        reports = [self._reports[signal_id] for signal_id in completed if signal_id in self._reports]
        for signal in reports:
            data = signal.data or {}
            if "output_ref" in data:
                payloads.append((signal.job_id, data["output_ref"], data["output_bytes"]))
            artifacts += [(signal, artifact) for artifact in data.get("artifacts", ())]
        payloads += [(signal.job_id, a["digest"], a["bytes"]) for signal, a in artifacts]
        return [*_payload_rows(payloads), *_artifact_rows(artifacts)]


def _payload_rows(rows: Sequence[tuple[str, str, int]]) -> list[Statement]:
    if not rows:
        return []
    job_id, digest, size = zip(*dict.fromkeys(rows), strict=True)
    return [(query("write_payloads"), {"job_id": plain(job_id), "digest": plain(digest), "bytes": plain(size)})]


def _artifact_rows(rows: Sequence[tuple[SignalRow, dict[str, Any]]]) -> list[Statement]:
    if not rows:
        return []
    columns = {
        "job_id": plain(signal.job_id for signal, _ in rows),
        "node": texts(signal.node for signal, _ in rows),
        "item": plain(signal.item for signal, _ in rows),
        "attempt": plain(signal.attempt for signal, _ in rows),
        "name": texts(a["artifact"] for _, a in rows),
        "digest": plain(a["digest"] for _, a in rows),
        "bytes": plain(a["bytes"] for _, a in rows),
    }
    return [(query("write_artifacts"), columns)]
