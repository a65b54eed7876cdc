"""The files of a job: pages of them, one by its name, and its bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.errors import Detail, NotFound, Refused, cut
from holdfast.operations.data import OWN_TASK
from holdfast.operations.nodes import find_node
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.remedies import Remedy
from holdfast.store.data_rows import ArtifactView
from holdfast.views.history import Artifact, artifact_view

SHOWN = 20
"""How many files of one name an error lists."""


async def find_artifact(
    scope: Scope, store: OperationsStore, job_id: str, name: str, *, node: str | None = None, index: int | None = None
) -> Artifact:
    """The file of that name. Refused if several tasks have published one; the error says which."""
    if node is not None:
        node = find_node(await store.reads(scope.tenant).snapshot(job_id, whole=False), node).name
    # Item -1 is a node's own task.
    reader = store.job_reads(scope.tenant)
    rows = await reader.artifacts_of_name(job_id, name, node=node, item=index, limit=SHOWN + 1)
    if not rows:
        await store.reads(scope.tenant).find_job(job_id)
        raise _missing(job_id, name, node, index)
    if len(rows) > 1:
        raise _ambiguous(job_id, name, rows)
    return artifact_view(rows[0])


async def artifact_parts(
    scope: Scope, store: OperationsStore, job_id: str, artifact: Artifact, *, first: int = 0, length: int | None = None
) -> AsyncIterator[bytes]:
    """The bytes of a file, or of a range of it, part by part. The last part of a whole file comes if all is intact."""
    wanted = artifact.bytes - first if length is None else length
    reader = store.job_reads(scope.tenant)
    async for part in reader.artifact_parts(job_id, artifact.digest, first, wanted, artifact.bytes):
        yield part


async def artifact_page(
    scope: Scope, store: OperationsStore, job_id: str, *, limit: int = 100, after: tuple[str, int, str] | None = None
) -> tuple[list[Artifact], tuple[str, int, str] | None]:
    """One page of the files of a job by node, item and name, and where the next one begins."""
    reader = store.reads(scope.tenant)
    rows = await reader.artifacts(job_id, after=after or ("", OWN_TASK - 1, ""), limit=checked_limit(limit))
    if not rows:
        await reader.find_job(job_id)
    last = rows[-1] if len(rows) == limit else None
    return [artifact_view(row) for row in rows], (last.node, last.item, last.name) if last is not None else None


def _missing(job_id: str, name: str, node: str | None, index: int | None) -> NotFound:
    where = f" of {node}" if node is not None else ""
    item = f" of item {index}" if index is not None else ""
    return NotFound(
        f"Job {job_id} has no artifact '{cut(name)}'{item}{where}.",
        remedy=Remedy("List the artifacts with", "artifacts", job_id),
        instance=job_id,
    )


def _ambiguous(job_id: str, name: str, rows: Sequence[ArtifactView]) -> Refused:
    number = f"{len(rows)}" if len(rows) <= SHOWN else f"More than {SHOWN}"
    return Refused(
        f"{number} tasks of job {job_id} have published an artifact '{cut(name)}'.",
        remedy="Name the node, and its item if it has items; a node's own task is item -1.",
        errors=[
            Detail(f"{row.node}[{row.item}]: {row.bytes:,} bytes", path=f"node={row.node}&item={row.item}")
            for row in rows[:SHOWN]
        ],
        instance=job_id,
    )
