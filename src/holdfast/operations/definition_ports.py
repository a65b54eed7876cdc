"""What operations need to read of definitions. Never writes."""

from __future__ import annotations

from typing import Protocol

from holdfast.store.definition_rows import JobStatisticsRow, NodeStatisticsRow, SourceRow, VersionRow


class DefinitionStore(Protocol):
    """The definitions of one tenant."""

    async def versions(
        self, workflow_id: str, definition_hash: str | None, offset: int, limit: int
    ) -> list[VersionRow]:
        """The definitions that an id stood for, the last one first; or the one with that hash."""
        ...

    async def source(self, definition_hash: str) -> SourceRow | None:
        """The text from which a definition of the tenant was read; None if it was built by a program."""
        ...

    async def statistics(self, workflow_id: str, most: int) -> tuple[JobStatisticsRow, list[NodeStatisticsRow]]:
        """How the last jobs of a workflow went, at most that many, and their nodes."""
        ...
