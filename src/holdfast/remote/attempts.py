"""What attempts of a worker without a database read and write while they run, over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

import orjson

from holdfast import failpoint
from holdfast.core.breaking import Breaker, BreakerState
from holdfast.define.gates import BreakerRules
from holdfast.errors import LeaseEnded, NotFound, Unreachable
from holdfast.remote.work import Tokens, WorkConnection
from holdfast.store.leases import Held
from holdfast.store.output_rows import OutputPart
from holdfast.store.records import ItemResult, JobFacts, Lease, WorkerIdentity
from holdfast.worker.context import LeaseLost


class RemoteAttempts:
    """The part of a source of tasks that serves running attempts, and `worker.ports.OutputStore`."""

    def __init__(self, url: str, key: str | None, patience_seconds: float) -> None:
        """`patience_seconds` is how long what an attempt reads is asked for again, while the service is away."""
        self._patience_seconds = patience_seconds
        self.tokens = Tokens()
        self._connection = WorkConnection(url, key)
        self._worker_id = 0
        self._facts: dict[str, JobFacts] = {}
        self._definitions: dict[str, str] = {}
        """A lease of a job that follows it, by the hash of each definition."""

    async def job_facts(self, job_ids: Sequence[str]) -> dict[str, JobFacts]:
        """Of the jobs whose tasks were claimed last: the claim brought them."""
        return {job_id: self._facts[job_id] for job_id in job_ids if job_id in self._facts}

    async def definition(self, definition_hash: str) -> bytes:
        """That of a job whose tasks were claimed last."""
        try:
            answer = await self._connection.get("definition", self._definitions.get(definition_hash, "-"))
        except LeaseEnded:
            raise Unreachable("The leases of the tasks that were just claimed have ended.") from None
        return orjson.dumps(answer["definition"])

    async def results_page(self, job_id: str, node: str, after: int, until: int, limit: int) -> list[ItemResult] | None:
        try:
            path = f"results/{quote(node, safe='')}"
            answer = await self._get(path, lambda: self.tokens.of_job(job_id), after=after, until=until, limit=limit)
        except NotFound:
            return None
        except LeaseEnded:
            raise LeaseLost("the results were refused: the lease is no longer held") from None
        return [
            ItemResult(
                one["index"],
                orjson.dumps(one["output"]) if one["output_ref"] is None else None,
                one["output_ref"],
            )
            for one in answer["items"]
        ]

    async def _get(self, path: str, find: Callable[[], str | None], **query: Any) -> Any:
        """What the holder of a lease may read. The next lease stands in for one that has ended meanwhile."""
        while True:
            lease = find()
            try:
                return await self._connection.get(path, lease or "-", patience_seconds=self._patience_seconds, **query)
            except LeaseEnded:
                if lease is None:
                    raise
                self.tokens.refused(lease)

    async def save_checkpoint(self, worker: WorkerIdentity, lease: Lease, seq: int, name: str, data: bytes) -> bool:
        token = self.tokens.of((lease.job_id, lease.node, lease.item, lease.epoch))
        if token is None:
            return False
        body = {"worker_id": worker.worker_id, "lease": token, "seq": seq, "name": name, "data": orjson.Fragment(data)}
        await failpoint.hit("checkpoint.before")
        try:
            saved = bool((await self._connection.send("checkpoint", body))["saved"])
        except NotFound:
            saved = False
        await failpoint.hit("checkpoint.after")
        return saved

    async def save_progress(self, worker: WorkerIdentity, progress: Sequence[tuple[Held, bytes]]) -> None:
        found = [(self.tokens.of(held), orjson.loads(text)) for held, text in progress]
        shown = [{"lease": token, **values} for token, values in found if token is not None]
        with contextlib.suppress(NotFound):
            await self._connection.send("progress", {"worker_id": worker.worker_id, "progress": shown})

    async def save(self, worker: WorkerIdentity, parts: Sequence[OutputPart], ended: Sequence[Held]) -> None:
        """What attempts have printed, as `OutputStore` promises it."""
        printed = [
            {
                "lease": token,
                "part": one.part,
                "started_at": one.started_at,
                "log": one.log,
                "log_times": one.log_times,
            }
            for one in parts
            if (token := self.tokens.of(one.held)) is not None
        ]
        gone = [token for held in ended if (token := self.tokens.of(held)) is not None]
        remaining = iter(printed)
        with contextlib.suppress(NotFound):
            # Each part may be as long as a page.
            while group := list(islice(remaining, 16)):
                await self._connection.send("progress", {"worker_id": worker.worker_id, "printed": group})
            if gone:
                await self._connection.send("progress", {"worker_id": worker.worker_id, "ended": gone})

    async def breaker(self, tenant: str, name: str) -> Breaker | None:
        try:
            seen = await self._get(f"breakers/{quote(name, safe='')}", lambda: self.tokens.of_tenant(tenant))
        except NotFound:
            return None
        except LeaseEnded:
            raise LeaseLost("the breaker was refused: the lease is no longer held") from None
        state = BreakerState.OPEN if seen["is_open"] else BreakerState.CLOSED
        return Breaker(rules=BreakerRules.from_json(seen["rules"]), tenant=tenant, state=state)

    async def claim_probe(self, handlers: Sequence[str], seconds: float) -> tuple[str, BreakerRules] | None:
        try:
            found = await self._connection.send("probe", {"worker_id": self._worker_id, "seconds": seconds})
        except NotFound:
            return None
        if found["breaker"] is None:
            return None
        return found["breaker"], BreakerRules.from_json(found["rules"])

    async def probed(self, key: str, problem: str | None) -> None:
        with contextlib.suppress(NotFound):
            body = {"worker_id": self._worker_id, "breaker": key, "problem": problem}
            await self._connection.send("probed", body)
