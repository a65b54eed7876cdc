"""The numbers of lanes, and the limits that are declared with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from holdfast.core.effects import Lane
from holdfast.store.arrays import plain, texts
from holdfast.store.columns import by_name
from holdfast.store.connection import SYNC, Connections, Statement
from holdfast.store.outage import unreachable
from holdfast.store.queries import query


class LaneIds:
    """The numbers of lanes, learnt once; new lanes are made outside the cycle, so that a rollback loses none."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: dict[Lane, int] = {}
        self._used: set[Lane] = set()
        self._used_before: set[Lane] = set()

    async def of(self, lanes: set[Lane]) -> dict[Lane, int]:
        # Again if another owner of this process forgets them meanwhile.
        while missing := [lane for lane in lanes if lane not in self._known]:
            ensured = (
                query("ensure_lanes"),
                {
                    "queue": texts(lane.queue for lane in missing),
                    "handler": texts(lane.handler for lane in missing),
                    "tenant": texts(lane.tenant for lane in missing),
                    "breaker": texts(lane.breaker for lane in missing),
                    "limit_key": texts(lane.limit_key for lane in missing),
                },
            )
            try:
                *_, known = await self._connections.exchange(
                    "main", ensured, SYNC, *_limits_of(missing), (query("all_lanes"), {})
                )
            except psycopg.OperationalError as error:
                raise unreachable(self._connections.url, error) from None
            ids = {_key(row): row["lane_id"] for row in by_name(known)}
            self._known |= {
                lane: ids[lane.queue, lane.handler, lane.tenant, lane.breaker, lane.limit_key] for lane in missing
            }
        self._used |= lanes
        return self._known

    def forget_all(self) -> None:
        """In another history the same numbers may be those of other lanes."""
        self._known.clear()
        self._used.clear()
        self._used_before.clear()

    def recently_used(self) -> list[int]:
        """The lanes that rows were put into since the last call but one: a floor is raised in two steps."""
        used = self._used | self._used_before
        self._used_before, self._used = self._used, set()
        return sorted(self._known[lane] for lane in used if lane in self._known)

    def forget(self) -> None:
        """A person may have deleted some: the next call asks again, and makes those that are missing."""
        self._known = {}


def _limits_of(lanes: Sequence[Lane]) -> list[Statement | None]:
    """Limits are declared with the lanes that they hold back."""
    declared = {(lane.tenant, limit.name): limit for lane in lanes for limit in lane.limits}
    if not declared:
        return []
    limits = list(declared.values())
    columns = {
        "tenant": texts(tenant for tenant, _ in declared),
        "name": texts(limit.name for limit in limits),
        "concurrency": plain(limit.concurrency for limit in limits),
        "rate": plain(limit.rate for limit in limits),
        "burst": plain(limit.burst for limit in limits),
    }
    return [(query("declare_limits"), columns), SYNC]


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    return row["queue"], row["handler"], row["tenant"], row["breaker"], row["limit_key"]
