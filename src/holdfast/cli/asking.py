"""Questions to a person at a terminal."""

from __future__ import annotations

import signal

import typer


def confirmed(question: str) -> bool:
    """Whether a person says yes. The event loop does not run meanwhile, so Ctrl-C ends the command here, at once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, default=False, err=True)
    finally:
        signal.signal(signal.SIGINT, before)
