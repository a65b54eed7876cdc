"""What the audit needs from a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.store.audit_rows import AuditFilter, AuditRow, Origin


class AuditStore(Protocol):
    """Who changed what. Most lines are written with the change itself, by the part of the store that changes."""

    async def read(self, wanted: AuditFilter, before: int | None, limit: int) -> list[AuditRow]:
        """One page of lines, newest first: those before the line with that number."""
        ...

    async def write(
        self,
        action: str,
        tenant: str,
        actor: str,
        origin: Origin,
        *,
        instance: str | None = None,
        after: Mapping[str, Any],
        reason: str = "",
    ) -> None:
        """Write a line about a change that is many transactions, or that is made elsewhere."""
        ...
