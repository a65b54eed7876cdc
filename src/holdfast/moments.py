"""How a time is written: RFC 3339, in UTC, with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(time: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def epoch_moment(seconds: float) -> str | None:
    return moment(datetime.fromtimestamp(seconds, UTC))
