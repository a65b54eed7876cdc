"""What operations on breakers and limits need from a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.core.breaking import Breaker
from holdfast.store.read_rows import BreakerView, LimitView


class GateStore(Protocol):
    """Breakers and limits, as people see and change them. Each change wakes the workers."""

    async def breakers(self, tenant: str) -> list[BreakerView]:
        """All breakers that workflows of a tenant have declared, by name."""
        ...

    async def change_breaker(
        self, tenant: str, name: str, verb: str, change: Callable[[Breaker, float], None], actor: str, reason: str
    ) -> BreakerView:
        """Change a breaker under its lock. `change` gets the breaker and the time; it may raise to change nothing."""
        ...

    async def limits(self, tenant: str | None = None) -> list[LimitView]:
        """The limits of a tenant and of the queues, with the tasks of the tenant; without one those of all."""
        ...

    async def set_limit(
        self,
        tenant: str,
        name: str,
        actor: str,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
        backlog: int | None = None,
    ) -> LimitView:
        """Set a limit; values that are None stay. A limit that workflows declare must exist already."""
        ...

    async def drop_limit(self, tenant: str, name: str, actor: str) -> LimitView:
        """Remove the limit that a person has set; returns it as it was. A paused queue stays paused."""
        ...

    async def pause_queue(self, queue: str, actor: str, reason: str) -> LimitView | None:
        """Let no task of the queue begin from now on, for all tenants; None if it is paused already."""
        ...

    async def unpause_queue(self, queue: str, actor: str) -> LimitView | None:
        """Let the tasks of the queue begin again, as its limit allows; returns it as it was, None if not paused."""
        ...
