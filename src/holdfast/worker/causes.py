"""What an exception tells beyond its message: a command's exit code, and when an upstream wants to be asked again."""

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
    except Exception:
        # Whatever a handler calls a time.
        return None
    return None if seconds != seconds else max(0.0, min(seconds, RETRY_AFTER_LIMIT_SECONDS))


def attribute(error: BaseException, name: str) -> Any:
    """What an exception has under this name; None also where looking at it fails."""
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
    """As a shell tells it: a command that signal 9 ended has 137, and `sys.exit("words")` ends with 1."""
    if isinstance(error, SystemExit):
        code = attribute(error, "code")
        code = int(code) & 0xFF if isinstance(code, int) else int(code is not None)
    else:
        code = attribute(error, "returncode")
    if not isinstance(code, int) or isinstance(code, bool) or abs(code) >= EXIT_CODE_LIMIT:
        return None
    return 128 - code if code < 0 else int(code)


def _retry_after(error: BaseException) -> float | None:
    """The header of a response that the exception carries, as the usual HTTP clients raise it."""
    response = attribute(error, "response")
    try:
        headers: Any = getattr(response if response is not None else error, "headers", None)
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
        return waitable(email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
