"""What handlers print and log goes to their attempts; everything else goes where it always went."""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING, TextIO

from holdfast.log_events import Line
from holdfast.masking import without_task_secrets
from holdfast.worker.containing import current

if TYPE_CHECKING:
    from holdfast.worker.context import Attempt

HANDLER_LOGGER = "holdfast.handler."
"""How the name of `ctx.logger` begins; the name of the handler follows."""


class _Captured(io.TextIOBase):
    """Replaces stdout or stderr."""

    def __init__(self, real: TextIO) -> None:
        self.real = real

    def write(self, text: str) -> int:
        attempt = current.get()
        if attempt is None:
            # A thread that a handler has started, for example.
            self.real.write(without_task_secrets(text))
            return len(text)
        attempt.write(text)
        return len(text)

    def flush(self) -> None:
        self.real.flush()

    def fileno(self) -> int:
        return self.real.fileno()

    def isatty(self) -> bool:
        return self.real.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.real.encoding


class LogCapture(logging.Handler):
    """Writes the records of handlers into their attempts, and names the attempt for the handlers after it."""

    def emit(self, record: logging.LogRecord) -> None:
        attempt = current.get()
        if attempt is not None:
            record.attempt_fields = attempt.log_fields()
            # A service's own line is not the handler's, although the handler has caused it.
            if not isinstance(record.msg, Line):
                self._write(attempt, record)
                _mask(record)
        elif logging.getLogger().handlers == [self] and logging.lastResort is not None:
            # As if this handler was not there: warnings of a program that has not set up logging go to stderr.
            _handle_by_level(logging.lastResort, record)

    def _write(self, attempt: Attempt, record: logging.LogRecord) -> None:
        try:
            attempt.write(logged_text(record))
        except Exception:
            # Arguments that do not fit the message must not fail the handler: the attempt's log says what is wrong.
            self.handleError(record)


def _mask(record: logging.LogRecord) -> None:
    """For whatever handlers of log records come after ours, in a program with a set-up of its own."""
    try:
        text = record.getMessage()
    except Exception:
        # Said already.
        return
    shown = without_task_secrets(text)
    if shown != text:
        record.msg, record.args = shown, ()
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
        record.exc_text = without_task_secrets(trace)
        if record.exc_text != trace:
            record.exc_info = None


def _handle_by_level(handler: logging.Handler, record: logging.LogRecord) -> None:
    if record.levelno >= handler.level:
        handler.handle(record)


def logged_text(record: logging.LogRecord) -> str:
    """`WARNING crm: no answer`; for `ctx.logger` without a name."""
    text = logging.Formatter().format(record)
    name = "" if record.name.startswith(HANDLER_LOGGER) else f" {record.name}:"
    return f"{record.levelname}{name} {text}\n"


def capture_output() -> None:
    """Route what handlers print and log to their attempts, for the rest of this process.

    A second call changes nothing.
    """
    if not isinstance(sys.stdout, _Captured):
        sys.stdout = _Captured(sys.stdout)
    if not isinstance(sys.stderr, _Captured):
        sys.stderr = _Captured(sys.stderr)
    root = logging.getLogger()
    if not any(isinstance(known, LogCapture) for known in root.handlers):
        root.handlers.insert(0, LogCapture())
