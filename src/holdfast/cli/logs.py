"""Where log records go: to stderr, as text for people or as one JSON object a line for machines.

structlog renders the lines. It is imported with the first line, because a command that writes none must start quickly.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime
from functools import cache
from typing import Any

from holdfast.cli.streams import asides, harmless, json_line, say, say_line
from holdfast.log_events import ACTIVITY, Line
from holdfast.masking import beginning, masked
from holdfast.settings import Settings

TEXT_LIMIT = 65_536
"""How much of one text of a record is written, in characters."""
EVENT_WIDTH = 20


def configure_logging(settings: Settings, *, is_service: bool = False) -> None:
    """Send every record of this process to stderr; repeating it changes nothing.

    Unless a level is set, a service logs each attempt and each job. Any other command only logs what is wrong with
    itself: `run` shows a job that fails in its own way.
    """
    default = "info" if is_service else "warning"
    number = logging.getLevelNamesMapping()[(settings.log_level or default).upper()]
    activity = number if is_service or settings.log_level is not None else logging.CRITICAL
    root = logging.getLogger()
    for known in [h for h in root.handlers if isinstance(h, _Handler)]:
        root.removeHandler(known)
    root.addHandler(_Handler(number, as_json=settings.log_format == "json", has_view=not is_service))
    # What handlers log at `info` goes into the logs of their attempts, even if stderr shows less.
    handlers = min(number, logging.INFO)
    # The library for HTTP logs every request that a worker sends.
    quiet = max(number, logging.WARNING)
    for name, lowest in (
        ("", handlers),
        ("holdfast", number),
        ("holdfast.handler", handlers),
        (ACTIVITY, activity),
        ("httpx2", quiet),
        ("httpcore2", quiet),
    ):
        logging.getLogger(name).setLevel(lowest)


class _Handler(logging.Handler):
    def __init__(self, level: int, *, as_json: bool, has_view: bool) -> None:
        """`has_view`: the command may show its progress in the terminal; a line must leave the display intact."""
        super().__init__(level)
        self._as_json = as_json
        self._has_view = has_view

    def emit(self, record: logging.LogRecord) -> None:
        # Outside the handler's own context, in which whatever is written to stderr goes to its attempt.
        Context().run(self._write, record)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            if self._as_json:
                say_line(_json_renderer()(None, "", _json_fields(record)))
                return
            line = _text_line(record)
            if self._has_view:
                # Through the console: a live display makes room for the line.
                asides().print(harmless(line), soft_wrap=True)
            else:
                say(line)
        except Exception:
            self.handleError(record)


@cache
def _json_renderer() -> Callable[..., Any]:
    from structlog.processors import JSONRenderer

    return JSONRenderer(serializer=lambda fields, **_: json_line(fields))


@cache
def _text_renderer() -> Callable[..., Any]:
    # Not its ConsoleRenderer, which takes more than twice the time of one line.
    from structlog.processors import LogfmtRenderer

    return LogfmtRenderer()


def _json_fields(record: logging.LogRecord) -> dict[str, Any]:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
    fields["message"] = masked(_bounded(record.getMessage()))
    if isinstance(record.msg, Line):
        fields["event"] = record.msg.event
    fields |= {name: masked(value) if isinstance(value, str) else value for name, value in _own_fields(record).items()}
    if record.exc_info:
        fields["traceback"] = masked(_bounded("".join(traceback.format_exception(*record.exc_info))))
    return fields


def _text_line(record: logging.LogRecord) -> str:
    """`12:03:11 warning  attempt_failed       job=… node=send attempt=1 code=GATEWAY_DOWN`"""
    at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
    message: Any = record.msg
    event = message.event if isinstance(message, Line) else f"{record.name}: {_bounded(record.getMessage())}"
    fields = _text_renderer()(None, "", _own_fields(record))
    line = f"{at} {record.levelname.lower():<8} {event:<{EVENT_WIDTH}} {fields}".rstrip()
    if record.exc_info:
        line += "\n" + _bounded("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return line


def _own_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of an event, or those that name the attempt whose handler logged the record."""
    fields = record.msg.fields if isinstance(record.msg, Line) else getattr(record, "attempt_fields", {})
    return {
        name: value if isinstance(value, int | float) else _bounded(str(value))
        for name, value in fields.items()
        if value is not None
    }


def _bounded(text: str) -> str:
    """Each step that a record goes through copies it: one of a hundred megabytes would cost a gigabyte."""
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{beginning(text, TEXT_LIMIT)}… (cut off: it has {len(text):,} characters)"
