"""The audit: who changed what."""

from __future__ import annotations

from datetime import datetime

from holdfast.operations.cursors import number_of_cursor
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.ports import OperationsStore
from holdfast.operations.reading import checked_limit
from holdfast.operations.scope import Scope
from holdfast.store.audit_rows import AuditFilter
from holdfast.views.audit import AuditPage, audit_view

PAGE_LENGTH = 50


async def audit(
    scope: Scope,
    store: OperationsStore,
    *,
    since: datetime | None = None,
    actor: str | None = None,
    action: str | None = None,
    instance: str | None = None,
    limit: int = PAGE_LENGTH,
    after: str | None = None,
) -> AuditPage:
    """One page of changes, newest first; `after` is the cursor of the page before.

    Those of the tenant; an administrator of the installation who looks at the tenant * sees those of all.
    """
    tenant = None if scope.administers and scope.tenant == EVERY_TENANT else scope.tenant
    wanted = AuditFilter(tenant, since, actor, action, instance)
    before = number_of_cursor(after) if after is not None else None
    return audit_view(await store.audit().read(wanted, before, checked_limit(limit)), limit)
