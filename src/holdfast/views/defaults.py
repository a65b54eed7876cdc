"""The defaults of an installation: what holds where a workflow says nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.define.defaults import BUILT_IN
from holdfast.store.read_rows import DefaultRow


@dataclass(frozen=True, slots=True)
class Default:
    """A value that workflows get if they say nothing else, and the person who set it or reset it last."""

    name: str
    value: Any
    built_in: Any
    source: str
    """`set` by a person, or `built_in`."""
    actor: str | None = None
    reason: str | None = None
    set_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TenantDefaults:
    """All defaults of a tenant."""

    tenant: str
    defaults: tuple[Default, ...] = ()


def defaults_view(tenant: str, rows: Iterable[DefaultRow]) -> TenantDefaults:
    found = {row.name: row for row in rows}
    return TenantDefaults(tenant, tuple(_view(name, found.get(name)) for name in BUILT_IN))


def _view(name: str, row: DefaultRow | None) -> Default:
    if row is None:
        return Default(name, BUILT_IN[name], BUILT_IN[name], "built_in")
    value, source = (row.value, "set") if row.is_set else (BUILT_IN[name], "built_in")
    return Default(name, value, BUILT_IN[name], source, row.actor, row.reason or None, row.set_at)
