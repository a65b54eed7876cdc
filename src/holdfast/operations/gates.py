"""Breakers and limits, as people see and change them."""

from __future__ import annotations

from typing import Literal

from holdfast.core import breaking
from holdfast.define.bounds import MAX_NAME_LENGTH, MAX_SECONDS, checked_queue
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.define.named_file import shown_name
from holdfast.errors import InvalidInput, Refused
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.views.gates import Breaker, Limit, breaker_view, limit_view

MAX_LIMIT = 2_147_483_647
MIN_RATE_SECONDS = 0.001

BreakerVerb = Literal["open", "close", "reset"]


async def breakers(scope: Scope, store: OperationsStore) -> list[Breaker]:
    """All breakers that workflows of the tenant have declared, by name."""
    return [breaker_view(row) for row in await store.gates().breakers(scope.tenant)]


async def change_breaker(
    scope: Scope, store: OperationsStore, name: str, verb: BreakerVerb, *, reason: str = ""
) -> Breaker:
    """Open a breaker until a person closes it, close it, or close it with an empty window. Who and why is kept."""

    def change(breaker: breaking.Breaker, now: float) -> None:
        _change(breaker, verb, now, reason)

    gates = store.gates(scope.origin)
    return breaker_view(await gates.change_breaker(scope.tenant, name, verb, change, scope.actor, reason))


async def limits(scope: Scope, store: OperationsStore) -> list[Limit]:
    """The limits that workflows have declared, and those that people have set.

    An administrator of the installation sees those of all tenants. Others see the limits of their tenant and of the
    queues, with the tasks of their tenant.
    """
    return [limit_view(row) for row in await store.gates().limits(scope.looks_at)]


async def set_limit(
    scope: Scope,
    store: OperationsStore,
    name: str,
    *,
    tenant: str | None = None,
    concurrency: int | None = None,
    rate: tuple[int, float] | None = None,
    backlog: int | None = None,
) -> Limit:
    """Limit a queue (`queue:NAME`), a tenant (`tenant`), or a node or a key otherwise than its workflow does.

    `rate` is how many tasks may begin in how many seconds; `backlog` is how many jobs of a tenant may be open.
    """
    check_limit(name, tenant, concurrency=concurrency, rate=rate, backlog=backlog)
    owner = _owner(scope, name, tenant)
    burst, seconds = rate or (None, None)
    changed = await store.gates(scope.origin).set_limit(
        owner,
        name,
        scope.actor,
        concurrency=concurrency,
        rate=burst / seconds if burst is not None and seconds is not None else None,
        burst=burst,
        backlog=backlog,
    )
    return limit_view(changed)


async def drop_limit(scope: Scope, store: OperationsStore, name: str, *, tenant: str | None = None) -> Limit:
    """Remove a limit that a person has set; returns it as it was."""
    return limit_view(await store.gates(scope.origin).drop_limit(_owner(scope, name, tenant), name, scope.actor))


def check_limit(
    name: str,
    tenant: str | None,
    *,
    concurrency: int | None = None,
    rate: tuple[int, float] | None = None,
    backlog: int | None = None,
) -> None:
    """Refuse values that no limit can have."""
    _tenant_of_limit(name, tenant, DEFAULT_TENANT)
    if concurrency is None and rate is None and backlog is None:
        raise InvalidInput(f"No value given for limit {name}.", remedy="Give a concurrency, a rate or a backlog.")
    if backlog is not None and name != "tenant":
        raise InvalidInput(
            f"The limit {name} has no backlog: only a tenant's jobs are counted.",
            remedy="Use: holdfast limits set tenant --backlog N",
        )
    burst, seconds = rate or (None, None)
    if any(number is not None and number <= 0 for number in (concurrency, burst, seconds, backlog)):
        raise InvalidInput(
            f"The limit {name} must be above zero.",
            remedy="To hold back all tasks, pause the queue: holdfast pause --queue QUEUE",
        )
    if any(number is not None and number > MAX_LIMIT for number in (concurrency, burst, backlog)):
        raise InvalidInput(f"The limit {name} is too large.", remedy=f"Give at most {MAX_LIMIT:,}, or no limit.")
    # Written so that NaN is refused too.
    if seconds is not None and not MIN_RATE_SECONDS <= seconds <= MAX_SECONDS:
        raise InvalidInput(
            f"The rate of limit {name} is over a time that cannot be measured.",
            remedy=f"Give between {MIN_RATE_SECONDS:g} and {MAX_SECONDS:,} seconds: 100/60",
        )


def _owner(scope: Scope, name: str, tenant: str | None) -> str:
    """The tenant of a limit. What a tenant may use of the installation, only the installation's administrators set."""
    owner = _tenant_of_limit(name, tenant, scope.tenant)
    if not owner:
        scope.refuse_unless_administrator(f"the limit {name}")
    elif name == "tenant" or owner != scope.tenant:
        scope.refuse_unless_administrator(f"the limit of tenant {owner}")
    return owner


def _tenant_of_limit(name: str, tenant: str | None, default: str) -> str:
    """The tenant that the limit belongs to; a queue belongs to none."""
    if tenant is not None and not (0 < len(tenant) <= MAX_NAME_LENGTH and tenant.isprintable()):
        raise InvalidInput(
            f"'{shown_name(tenant)}' is not the name of a tenant.",
            remedy=f"It has 1 to {MAX_NAME_LENGTH} characters that can be printed.",
        )
    kind, _, rest = name.partition(":")
    if kind == "queue" and rest:
        checked_queue(rest)
        if tenant is not None:
            raise InvalidInput(f"The limit {name} is for all tenants.", remedy="Leave the tenant out.")
        return ""
    if name == "tenant" or (kind in ("node", "key") and rest):
        return tenant or default
    raise InvalidInput(
        f"'{shown_name(name)}' is not the name of a limit.",
        remedy="Use queue:QUEUE, tenant, node:WORKFLOW.NODE or key:KEY; list them with: holdfast limits",
    )


def _change(breaker: breaking.Breaker, verb: BreakerVerb, now: float, reason: str) -> None:
    if verb == "open":
        if breaker.held:
            raise Refused(
                f"Breaker {breaker.name} is held open already.",
                remedy=f"Close it with: holdfast breakers close {breaker.name}",
                instance=breaker.name,
            )
        breaking.open_breaker(breaker, now, reason or "opened by hand", held=True)
        return
    if verb == "close" and breaker.state is breaking.BreakerState.CLOSED:
        raise Refused(
            f"Breaker {breaker.name} is closed already.",
            remedy=f"Clear the failures that it has counted with: holdfast breakers reset {breaker.name}",
            instance=breaker.name,
        )
    breaking.close_breaker(breaker, now, reason or ("closed by hand" if verb == "close" else "reset by hand"))
