"""Tenants that an administrator makes, and the queues that a tenant is bound to.

A tenant needs no entry: without one it exists by its jobs, and may use every queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.define.bounds import checked_queue
from holdfast.define.definition import Definition, read_pinned
from holdfast.errors import Detail, InvalidInput, QueueRefused
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.keys import check_tenant
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.records import NewJob
from holdfast.views.identities import KeptTenant, Tenant, tenant_view

MOST_QUEUES = 100


async def tenants(store: OperationsStore) -> list[Tenant]:
    """The tenants that an administrator has made, by name."""
    return [tenant_view(row) for row in await store.identities().tenants()]


async def keep_tenant(
    scope: Scope, store: OperationsStore, name: str, *, queues: Sequence[str] | None = None
) -> KeptTenant:
    """Make a tenant, or bind one to other queues; None: it may use every queue. Jobs that exist stay as they are."""
    if check_tenant(name) == EVERY_TENANT:
        raise InvalidInput(f"'{EVERY_TENANT}' stands for every tenant: it is no name for one.")
    bound = list(dict.fromkeys(map(checked_queue, queues))) if queues is not None else None
    if bound is not None and not 0 < len(bound) <= MOST_QUEUES:
        raise InvalidInput(
            f"A tenant is bound to 1 to {MOST_QUEUES} queues.", remedy="Name no queues to let it use every queue."
        )
    row, is_new = await store.identities(scope.origin).keep_tenant(name, bound, scope.actor)
    return KeptTenant(tenant_view(row), is_new)


async def refuse_other_queues(store: OperationsStore, tenant: str, definition: Definition) -> None:
    """Refuse a definition with a queue that its tenant may not use."""
    allowed = (await store.identities().bound_queues([tenant])).get(tenant)
    problem = _refusal(tenant, definition, allowed) if allowed is not None else None
    if problem is not None:
        raise problem


async def refusals(store: OperationsStore, jobs: Iterable[NewJob]) -> dict[int, QueueRefused]:
    """Which of these submissions name a queue that their tenant may not use."""
    listed = list(jobs)
    bound = await store.identities().bound_queues({job.tenant for job in listed})
    found: dict[int, QueueRefused] = {}
    checked: dict[tuple[str, str], QueueRefused | None] = {}
    for number, job in enumerate(listed) if bound else ():
        key = (job.tenant, job.definition_hash)
        if job.tenant in bound and key not in checked:
            checked[key] = _refusal(job.tenant, read_pinned(job.definition), bound[job.tenant])
        problem = checked.get(key)
        if problem is not None:
            found[number] = problem
    return found


def _refusal(tenant: str, definition: Definition, allowed: Sequence[str]) -> QueueRefused | None:
    known = ", ".join(allowed)
    details = [
        Detail(f"'{node.name}' uses the queue '{task.queue}'.", path=f"nodes.{node.name}.queue")
        for node in definition.nodes
        for task in node.tasks
        if task.queue not in allowed
    ]
    if not details:
        return None
    return QueueRefused(
        f"Workflow {definition.workflow_id} uses queues that tenant {tenant} may not use.",
        remedy=f"Use one of its queues: {known}. An administrator of the installation can bind it to others.",
        errors=list(dict.fromkeys(details)),
        instance=definition.workflow_id,
    )
