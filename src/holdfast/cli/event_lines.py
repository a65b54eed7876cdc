"""How the events of a job look: one line each in a pipe; in a terminal, what does not fit continues below."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from holdfast.cli.marks import STYLES
from holdfast.cli.words import clock, value
from holdfast.views.history import Event

INDENT = 8
GONE = "gone"
"""Why tasks were skipped whose items a correction took away."""
_FIRST = (
    "workflow_id", "version", "verb", "actor", "by", "name", "breaker", "generation", "plan_id", "owner", "previous",
    "queue", "handler", "worker", "outcome", "width", "batch_size", "first", "last", "items", "count", "tasks",
    "completed", "undone", "failed", "skipped", "cancelled", "corrected", "gone", "stale", "taken", "rerun", "undo",
    "unknown", "evaluates_result", "epoch", "started_at", "retry_at", "since", "until", "duty", "requeued", "recounted",
    "ended", "disagreeing",
)  # fmt: skip
_LAST = ("reason", "code", "class", "message")
"""The database sorts the data of an event by the lengths of their names; people read it in this order."""


def event_line(event: Event, width: int | None = None) -> RenderableType:
    """`   12  10:41:03.123  node_completed  inventory  attempt 1, worker vm:123`

    Nothing is cut. Without a width it is one line, however long.
    """
    head, details = _head(event), ", ".join(_details(event))
    whole = head.copy().append(f"  {details}" if details else "")
    whole.rstrip()
    if width is None or len(whole) <= width:
        return whole
    head.rstrip()
    return Group(head, Padding(Text(details, overflow="fold"), (0, 0, 0, INDENT)))


def _head(event: Event) -> Text:
    state = event.event.rpartition("_")[2]
    where = event.node or ""
    if event.index is not None:
        where += f"[{event.index}]"
    text = Text(f"{event.seq:>6}  ", style="dim")
    text.append(f"{clock(event.at)}  ", style="dim")
    text.append(f"{event.event:<20}", style=STYLES.get(state, "yellow" if state == "scheduled" else ""))
    text.append(f"  {where:<20}")
    return text


def _details(event: Event) -> list[str]:
    attempt = [f"attempt {event.attempt}"] if event.attempt is not None else []
    data = {key: one for key, one in (event.data or {}).items() if one is not None}
    return attempt + [_detail(key, data[key]) for key in sorted(data, key=_place)]


def _detail(key: str, one: Any) -> str:
    """`rerun {"read": 3}`, `corrected inputs.limit; node read differs in params`, `items 2, 5-7`"""
    if (key, one) == ("reason", GONE):
        return "their items are gone"
    if key in ("corrected", "gone") and _has_only(one, str):
        return f"{key} {value('; '.join(one), sys.maxsize)}"
    if key == "items" and _has_only(one, list) and all(len(pair) == 2 for pair in one):
        return f"{key} {', '.join(str(first) if first == last else f'{first}-{last}' for first, last in one)}"
    return f"{key} {value(one, sys.maxsize)}"


def _has_only(one: Any, kind: type) -> bool:
    return isinstance(one, list) and all(isinstance(part, kind) for part in one)


def _place(key: str) -> tuple[int, str]:
    """What a later version adds stands before the reason and the error."""
    if key in _FIRST:
        return _FIRST.index(key), key
    return (len(_FIRST) + 1 + _LAST.index(key), key) if key in _LAST else (len(_FIRST), key)
