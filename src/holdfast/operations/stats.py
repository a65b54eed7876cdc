"""What happened over time: the minutes that the janitor has counted, summed to steps."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.errors import InvalidInput
from holdfast.operations.identity import EVERY_TENANT
from holdfast.operations.ports import OperationsStore
from holdfast.operations.scope import Scope
from holdfast.store.stats_rows import StatsRow
from holdfast.views.stats import StatsStep, stats_view

MINUTE_SECONDS = 60
SHOWN_STEPS = 60
MOST_STEPS = 1500
LONGEST_STEP_SECONDS = 7 * 86_400


async def stats(
    scope: Scope, store: OperationsStore, *, since: datetime | None = None, step_seconds: int = MINUTE_SECONDS
) -> list[StatsStep]:
    """What happened since then, step by step, up to now; without `since` the last 60 steps.

    A step is a number of minutes. The last step is not over, and what happened within the last seconds is not counted
    yet. An administrator of the installation who looks at the tenant * sees the sums of all tenants.
    """
    if step_seconds % MINUTE_SECONDS or not MINUTE_SECONDS <= step_seconds <= LONGEST_STEP_SECONDS:
        raise InvalidInput(
            f"A step of {step_seconds:,} s is not possible.",
            remedy=f"Give a multiple of {MINUTE_SECONDS}, at most {LONGEST_STEP_SECONDS:,}.",
        )
    last = _start(await store.reads(scope.tenant).now(), step_seconds)
    first = last - (SHOWN_STEPS - 1) * step_seconds if since is None else _start(since.timestamp(), step_seconds)
    number = max(0, (last - first) // step_seconds + 1)
    if number > MOST_STEPS:
        raise InvalidInput(
            f"These are {number:,} steps, and an answer has at most {MOST_STEPS:,}.",
            remedy="Give a longer `step`, or a later `since`.",
        )
    starts = [datetime.fromtimestamp(first + place * step_seconds, UTC) for place in range(number)]
    if not starts:
        return []
    tenant = None if scope.administers and scope.tenant == EVERY_TENANT else scope.tenant
    rows = {row.start: row for row in await store.oversight(tenant).stats(starts[0], step_seconds)}
    return [stats_view(rows.get(start, StatsRow(start))) for start in starts]


def _start(seconds: float, step_seconds: int) -> int:
    """The beginning of the step in which a moment lies, in seconds since 1970."""
    return int(seconds // step_seconds) * step_seconds
