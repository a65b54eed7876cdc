"""The traceback of a handler's exception, without the engine's frames above the handler."""

from __future__ import annotations

import traceback
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_ENGINE, _APPS = f"{_PACKAGE}/", f"{_PACKAGE / 'apps'}/"


def without_engine(trace: traceback.TracebackException) -> None:
    """Remove the frames of ours that called the handler, here and in the causes. If all are ours, all stay."""
    pending, seen = [trace], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        first = next((n for n, frame in enumerate(one.stack) if not _is_ours(frame.filename)), 0)
        del one.stack[:first]
        pending += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]


def _is_ours(filename: str) -> bool:
    return filename.startswith(_ENGINE) and not filename.startswith(_APPS)
