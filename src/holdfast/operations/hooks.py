"""Hooks: functions of apps that are called when a job has ended.

A hook is idempotent, because it is called at least once: a process may die between the call and noting it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from holdfast.errors import InvalidInput
from holdfast.log_events import EventLog
from holdfast.operations.app_functions import check_name, mark_of, offered

ENTRY_POINT_GROUP = "holdfast.hooks"
HOOK = "hook"
Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])
_log = EventLog("holdfast.notify")


@dataclass(frozen=True)
class Hook:
    """A function that gets the end of every job."""

    name: str
    function: Callable[[Any, Any], Awaitable[Any]]

    @property
    def way(self) -> str:
        """The receiver of its deliveries."""
        return f"{HOOK}:{self.name}"


def hook(name: str) -> Callable[[Function], Function]:
    """Make a coroutine function a hook: it is called with an EndedJob, and a Client for the job's tenant.

    It is called for each end of a job, of every tenant, after the end is committed, and again until it returns. It may
    run twice with the same end, and must then do its work once.
    """
    check_name(name, HOOK, "catalog.tidy")

    def mark(function: Function) -> Function:
        is_coroutine: bool = inspect.iscoroutinefunction(function)
        if not is_coroutine:
            raise InvalidInput(f"The hook {name} is no coroutine function.", remedy="Write it with `async def`.")
        setattr(function, mark_of(HOOK), Hook(name, function))
        return function

    return mark


@cache
def known_hooks() -> Mapping[str, Hook]:
    """The hooks of all installed packages by name. A package that is broken is left out, and the log says so."""
    return offered(ENTRY_POINT_GROUP, HOOK, Hook, _log)
