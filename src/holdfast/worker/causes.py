"""What an exception tells beyond its message: a command's exit code, and when an upstream wants to be asked again."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from typing import Any

RETRY_AFTER_LIMIT_SECONDS = 366 * 86_400.0
CAUSES_LIMIT = 10


def causes(error: BaseException) -> dict[str, Any]:
    """The first exit code and the first Retry-After among an exception and its causes."""
    found: dict[str, Any] = {}
    for one in _chain(error):
        if "exit_code" not in found and (code := _exit_code(one)) is not None:
            found["exit_code"] = code
        if "retry_after_seconds" not in found and (seconds := _retry_after(one)) is not None:
            found["retry_after_seconds"] = seconds
    return found


def waitable(given: Any) -> float | None:
    """A number of seconds, if it is a time that can be waited for."""
    try:
        seconds = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if seconds != seconds else max(0.0, min(seconds, RETRY_AFTER_LIMIT_SECONDS))


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(CAUSES_LIMIT):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _exit_code(error: BaseException) -> int | None:
    """As a shell tells it: a command that signal 9 ended has 137."""
    code = getattr(error, "returncode", None)
    if isinstance(error, SystemExit) or not isinstance(code, int) or isinstance(code, bool):
        return None
    return 128 - code if code < 0 else code


def _retry_after(error: BaseException) -> float | None:
    """The header of a response that the exception carries, as the usual HTTP clients raise it."""
    response = getattr(error, "response", None)
    headers: Any = getattr(response if response is not None else error, "headers", None)
    try:
        value = headers.get("Retry-After") or headers.get("retry-after")
    except Exception:
        # Whatever a foreign exception calls its headers: none that we can read.
        return None
    return _header_seconds(value) if isinstance(value, str) else None


def _header_seconds(value: str) -> float | None:
    """Seconds, or a date."""
    if value.strip().isdigit():
        return waitable(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return waitable(moment.timestamp() - time.time())
