"""Reads the definitions of a tenant, and how their jobs go. Never writes."""

from __future__ import annotations

from holdfast.store.arrays import plain
from holdfast.store.definition_rows import JobStatisticsRow, NodeStatisticsRow, SourceRow, VersionRow
from holdfast.store.job_filter import JobFilter
from holdfast.store.listing import PostgresJobLists


class PostgresDefinitions(PostgresJobLists):
    """Keeps the promises of `operations.definition_ports.DefinitionStore`."""

    async def versions(
        self, workflow_id: str, definition_hash: str | None, offset: int, limit: int
    ) -> list[VersionRow]:
        """The definitions that an id stood for, the last one first; or the one with that hash."""
        return await self._records(
            VersionRow,
            "registered_versions",
            workflow_id=workflow_id,
            hash=definition_hash,
            offset=offset,
            limit=limit,
        )

    async def source(self, definition_hash: str) -> SourceRow | None:
        """The text from which a definition of the tenant was read; None if it was built by a program."""
        return next(iter(await self._records(SourceRow, "definition_source", hash=definition_hash)), None)

    async def statistics(self, workflow_id: str, most: int) -> tuple[JobStatisticsRow, list[NodeStatisticsRow]]:
        """How the last jobs of a workflow went, and their nodes; they are looked for among the newest jobs."""
        ids = await self._newest_ids(most, JobFilter(workflow_id=workflow_id))
        jobs = plain(ids)
        (row,) = await self._records(JobStatisticsRow, "statistics_of_jobs", jobs=jobs)
        return row, await self._records(NodeStatisticsRow, "statistics_of_nodes", jobs=jobs)
