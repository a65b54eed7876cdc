"""What an exception carries beyond its message: the exit code of a command, and the Retry-After of a server."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from typing import Any

RETRY_AFTER_LIMIT_SECONDS = 366 * 86_400.0
CAUSES_LIMIT = 10
EXIT_CODE_LIMIT = 2**32


def causes(error: BaseException) -> dict[str, Any]:
    """The first exit code and the first Retry-After among an exception and its causes."""
    details: dict[str, Any] = {}
    for one in _chain(error):
        if "exit_code" not in details and (code := _exit_code(one)) is not None:
            details["exit_code"] = code
        if "retry_after_seconds" not in details and (seconds := _retry_after(one)) is not None:
            details["retry_after_seconds"] = seconds
    return details


def waitable(value: Any) -> float | None:
    """The value as a number of seconds to wait, from 0 to a year; None if it is no number."""
    try:
        seconds = float(value)
    except Exception:
        # The value comes from a handler and may be anything.
        return None
    return None if seconds != seconds else max(0.0, min(seconds, RETRY_AFTER_LIMIT_SECONDS))


def attribute(error: BaseException, name: str) -> Any:
    """An attribute of an exception; None if it has none, or if reading it fails."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it was raised from, and the members of a group, the nearest first."""
    waiting = [error]
    for _ in range(CAUSES_LIMIT):
        if not waiting:
            return
        current = waiting.pop(0)
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions[:CAUSES_LIMIT]
        if (cause := current.__cause__ or current.__context__) is not None:
            waiting.append(cause)


def _exit_code(error: BaseException) -> int | None:
    """The exit code as a shell shows it: 137 for a command that signal 9 ended, 1 for `sys.exit("some text")`."""
    if isinstance(error, SystemExit):
        code = attribute(error, "code")
        code = int(code) & 0xFF if isinstance(code, int) else int(code is not None)
    else:
        code = attribute(error, "returncode")
    if not isinstance(code, int) or isinstance(code, bool) or abs(code) >= EXIT_CODE_LIMIT:
        return None
    return 128 - code if code < 0 else int(code)


def _retry_after(error: BaseException) -> float | None:
    """The Retry-After header of the response that the exception of a common HTTP client carries."""
    response = attribute(error, "response")
    try:
        headers: Any = getattr(response if response is not None else error, "headers", None)
        value = headers.get("Retry-After") or headers.get("retry-after")
    except Exception:
        # An exception that we do not know may call anything its headers.
        return None
    return _header_seconds(value) if isinstance(value, str) else None


def _header_seconds(value: str) -> float | None:
    """Seconds, or a date."""
    if value.strip().isdigit():
        return waitable(value)
    try:
        return waitable(email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
