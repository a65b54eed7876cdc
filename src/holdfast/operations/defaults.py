"""The defaults of an installation: showing and changing them, and filling them into what jobs pin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.define.defaults import BUILT_IN, Defaults, check_names, check_values, defaults_of, with_defaults
from holdfast.define.definition import read_pinned
from holdfast.errors import InvalidInput
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.records import NewJob
from holdfast.views.defaults import TenantDefaults, defaults_view


async def defaults(scope: Scope, store: OperationsStore) -> TenantDefaults:
    """What holds for workflows of the tenant that say nothing, and where each value comes from."""
    return defaults_view(scope.tenant, await store.defaults().read(scope.tenant))


async def set_defaults(
    scope: Scope, store: OperationsStore, values: Mapping[str, Any], *, reason: str = ""
) -> TenantDefaults:
    """Set defaults of the tenant, all or none. Jobs that exist keep what they have."""
    if not values:
        raise InvalidInput("No default is given.", remedy="Give one, such as: retry.max_retries=5")
    check_values(values)

    def decide(present: Mapping[str, Any]) -> Mapping[str, Any]:
        defaults_of(_known({**present, **values}))
        return values

    return defaults_view(
        scope.tenant, await store.defaults(scope.origin).change(scope.tenant, decide, scope.actor, reason)
    )


async def reset_defaults(
    scope: Scope, store: OperationsStore, names: Sequence[str] | None = None, *, reason: str = ""
) -> TenantDefaults:
    """Return to the built-in values of these names, or of all. Jobs that exist keep what they have."""
    check_names(names or ())

    def decide(present: Mapping[str, Any]) -> Mapping[str, Any]:
        gone = [name for name in present if names is None or name in names]
        defaults_of(_known({name: value for name, value in present.items() if name not in gone}))
        return dict.fromkeys(gone)

    return defaults_view(
        scope.tenant, await store.defaults(scope.origin).change(scope.tenant, decide, scope.actor, reason)
    )


async def defaults_now(scope: Scope, store: OperationsStore) -> Defaults:
    """The defaults of the tenant, as they are filled into a definition that a job pins."""
    return defaults_of(_known({row.name: row.value for row in await store.defaults().read(scope.tenant)}))


def resolved(store: OperationsStore, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The same submissions; where their tenants have defaults, with the definitions that the jobs pin."""
    known = {tenant: store.known_defaults(tenant) for tenant in {job.tenant for job in jobs}}
    defaults = {tenant: defaults_of(_known(one.values)) for tenant, one in known.items() if one.values}
    pinned: dict[tuple[str, str], tuple[str, bytes] | None] = {}
    for job in jobs:
        key = (job.tenant, job.definition_hash)
        if key not in pinned:
            pinned[key] = _pinned(job, defaults[job.tenant]) if job.tenant in defaults else None
    return [
        job._replace(resolved=pinned[job.tenant, job.definition_hash], defaults_mark=known[job.tenant].mark)
        for job in jobs
    ]


def _pinned(job: NewJob, defaults: Defaults) -> tuple[str, bytes] | None:
    definition = with_defaults(read_pinned(job.definition), defaults)
    found = definition.hash()
    return (found, definition.canonical_bytes()) if found != job.definition_hash else None


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """A later version may have set defaults that this one does not know."""
    return {name: value for name, value in values.items() if name in BUILT_IN}
