"""The part of the client over a URL that reads the data of jobs, and what holds tasks back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from holdfast.errors import NotFound
from holdfast.operations.reading import LONGEST_PAGE
from holdfast.remedies import Remedy
from holdfast.remote.base import Remote, path_of, query_of
from holdfast.views.data import Checkpoint, DataValue
from holdfast.views.defaults import TenantDefaults
from holdfast.views.gates import Breaker
from holdfast.views.history import Artifact
from holdfast.views.jobs import Job


class RemoteData(Remote):
    """The data of a job: params, outputs, files and checkpoints."""

    async def output(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        return await self._get(DataValue, path_of("jobs", job_id, "nodes", node, "output"), index=index)

    async def params(self, job_id: str, node: str, *, index: int | None = None) -> DataValue:
        return await self._get(DataValue, path_of("jobs", job_id, "nodes", node, "params"), index=index)

    async def checkpoints(self, job_id: str, node: str, *, index: int | None = None) -> AsyncIterator[Checkpoint]:
        path = path_of("jobs", job_id, "nodes", node, "checkpoints")
        async for one in self._every(Checkpoint, path, index=index, limit=LONGEST_PAGE):
            yield one

    async def artifacts(
        self,
        job_id: str,
        *,
        node: str | None = None,
        index: int | None = None,
        name: str | None = None,
        limit: int | None = None,
        after: Artifact | None = None,
    ) -> list[Artifact]:
        known = await self._node_name(job_id, node) if node is not None else None
        found = [
            one
            for one in await self._list(Artifact, path_of("jobs", job_id, "artifacts"))
            if known in (None, one.node)
            and index in (None, one.index)
            and name in (None, one.name)
            and (after is None or _place(one) > _place(after))
        ]
        return found[:limit]

    async def _node_name(self, job_id: str, text: str) -> str:
        job = await self._get(Job, path_of("jobs", job_id), whole=False)
        node = job.node(text)
        if node is None:
            raise NotFound(
                f"Job {job_id} has no node '{text}'.",
                remedy=Remedy("See its nodes with", "status", job_id),
                instance=job_id,
            )
        return node.node


class RemoteGates(Remote):
    """What holds tasks back."""

    async def breakers(self) -> list[Breaker]:
        return await self._list(Breaker, "/breakers")

    async def defaults(self) -> TenantDefaults:
        return await self._get(TenantDefaults, "/defaults")

    async def set_defaults(self, values: Mapping[str, Any], *, reason: str = "") -> TenantDefaults:
        body = {"values": dict(values), "reason": reason}
        return self._read(TenantDefaults, await self._send("PUT", "/defaults", body=body, is_repeatable=True))

    async def reset_defaults(self, names: Sequence[str] | None = None, *, reason: str = "") -> TenantDefaults:
        query = query_of(name=list(names) if names is not None else None, reason=reason or None)
        return self._read(TenantDefaults, await self._send("DELETE", "/defaults", query=query, is_repeatable=True))


def _place(artifact: Artifact) -> tuple[str, int, str]:
    """The order of the list."""
    return artifact.node, -1 if artifact.index is None else artifact.index, artifact.name
