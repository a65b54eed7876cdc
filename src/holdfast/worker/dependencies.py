"""Dependencies that may be down: `ctx.breaker` for handlers, and the probe of an open breaker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.client import HTTPException
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.define.gates import BreakerRules
from holdfast.define.registry import ContractViolation, Registry
from holdfast.errors import Code, DependencyDown, HandlerFailure, Permanent
from holdfast.outgoing import Outgoing
from holdfast.worker.causes import attribute
from holdfast.worker.values import failure_code

if TYPE_CHECKING:
    from holdfast.worker.context import Attempt

PROBE_SECONDS = 10.0
CALLS_LIMIT = 1000


class SeenBreaker(NamedTuple):
    """A breaker as a handler sees it."""

    rules: BreakerRules
    is_open: bool

    def to_json(self) -> dict[str, Any]:
        return {"rules": self.rules.to_json(), "is_open": self.is_open}

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> SeenBreaker | None:
        return cls(BreakerRules.from_json(data["rules"]), data["is_open"]) if data is not None else None


class Guard:
    """Guards one call of a dependency: refuses it while the breaker is open, and records how it ended."""

    def __init__(self, attempt: Attempt, name: str) -> None:
        self._attempt = attempt
        self._name = name
        self._rules: BreakerRules | None = None

    def enter(self, breaker: SeenBreaker | None) -> None:
        if breaker is None:
            message = f"there is no breaker '{self._name}'; declare it under 'breakers' in the workflow"
            raise Permanent(message, Code.CONTRACT_VIOLATION)
        if breaker.is_open:
            raise DependencyDown(self._name, f"the breaker '{self._name}' is open")
        self._rules = breaker.rules

    def leave(self, error: BaseException | None) -> None:
        assert self._rules is not None
        if error is not None and (not isinstance(error, Exception) or type(error).__name__ == "LeaseLost"):
            # The call was interrupted: that says nothing about the dependency.
            return
        calls = self._attempt.calls.setdefault(self._name, [])
        if len(calls) < CALLS_LIMIT:
            calls.append(error is not None and self._counts(self._rules, error))

    @staticmethod
    def _counts(rules: BreakerRules, error: BaseException) -> bool:
        if isinstance(error, DependencyDown):
            return True
        code, _ = failure_code(attribute(error, "code") if isinstance(error, HandlerFailure) else None)
        return rules.counts(code, is_permanent=isinstance(error, Permanent))


class SyncGuard(Guard):
    def __init__(self, attempt: Attempt, name: str, look: Callable[[], SeenBreaker | None]) -> None:
        super().__init__(attempt, name)
        self._look = look

    def __enter__(self) -> None:
        self.enter(self._look())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(error)


class AsyncGuard(Guard):
    def __init__(self, attempt: Attempt, name: str, look: Callable[[], Any]) -> None:
        super().__init__(attempt, name)
        self._look = look

    async def __aenter__(self) -> None:
        self.enter(await self._look())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(error)


async def probe(rules: BreakerRules, registry: Registry, outgoing: Outgoing) -> str | None:
    """Probe the dependency; returns what is wrong with it, or None."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            if rules.probe_url is not None:
                return await asyncio.to_thread(_ask, rules.probe_url, outgoing)
            assert rules.probe_handler is not None
            await _call(rules.probe_handler, registry)
    except TimeoutError:
        return f"no answer within {PROBE_SECONDS:g} s"
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        # The probe may raise anything, even by `sys.exit`: the worker goes on.
        return f"{type(error).__name__}: {error}"
    return None


def _ask(url: str, outgoing: Outgoing) -> str | None:
    try:
        status = outgoing.get_status(url, PROBE_SECONDS)
    except (OSError, HTTPException) as error:
        return f"{url}: {str(error) or type(error).__name__}"
    return None if 200 <= status < 300 else f"{url} answered {status}"


async def _call(name: str, registry: Registry) -> None:
    handler = registry.get(name)
    assert handler is not None, f"a probe was claimed for {name}, which this worker does not have"
    if handler.context_parameter is not None:
        raise ContractViolation(f"the probe {name} must do without ctx: it runs outside of any job")
    arguments = handler.arguments({})
    if handler.is_async:
        await handler.function(**arguments)
    else:
        await asyncio.to_thread(handler.function, **arguments)
