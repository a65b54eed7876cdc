"""Where log records go: to stderr, as text for people or as one JSON object a line for machines."""

from __future__ import annotations

import logging
import traceback
from contextvars import Context
from datetime import UTC, datetime

from holdfast.cli.streams import asides, harmless, say_json
from holdfast.masking import masked
from holdfast.settings import Settings

TEXT_LIMIT = 65_536
"""How much of one record is written, in characters."""


def configure_logging(settings: Settings) -> None:
    """Send every record of this process to stderr; repeating it changes nothing."""
    root = logging.getLogger()
    for known in [h for h in root.handlers if isinstance(h, _Handler)]:
        root.removeHandler(known)
    root.addHandler(_Handler(as_json=settings.log_format == "json"))
    root.setLevel(settings.log_level.upper())


class _Handler(logging.Handler):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        # Outside the handler's own context, in which whatever is written to stderr goes to its attempt.
        Context().run(self._write, record)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            if self._as_json:
                say_json(_fields(record))
            else:
                # Through the console: a live display makes room for the line.
                asides().print(harmless(_text_line(record)), soft_wrap=True)
        except Exception:
            self.handleError(record)


def _fields(record: logging.LogRecord) -> dict[str, str]:
    fields = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": masked(_bounded(record.getMessage())),
    }
    if record.exc_info:
        fields["traceback"] = masked(_bounded("".join(traceback.format_exception(*record.exc_info))))
    return fields


def _text_line(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
    line = f"{at} {record.levelname.lower():<7} {record.name}: {_bounded(record.getMessage())}"
    if record.exc_info:
        line += "\n" + _bounded("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return line


def _bounded(text: str) -> str:
    """Each step that a record goes through copies it: one of a hundred megabytes would cost a gigabyte."""
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}… (cut off: it has {len(text):,} characters)"
