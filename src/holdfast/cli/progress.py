"""Following a job while it runs: a live table on a terminal, a line per change when nobody looks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from holdfast.cli.render import job_title, node_table, steps
from holdfast.cli.streams import asides, say
from holdfast.cli.words import cut, elapsed, short
from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import Unreachable
from holdfast.store.reading import Reader, Snapshot
from holdfast.views.jobs import status_json

LOOK_SECONDS = 0.2
FAN_OUT_LINE_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""How long a database may be away before the watcher gives up; the job itself waits for it."""
_OTHER_LINES = 4


class View(Protocol):
    """Shows how a job stands, again and again, until it is closed."""

    def show(self, status: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class Unseen:
    """For machines: nothing but the answer."""

    def show(self, status: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class LiveTable:
    """Redraws the nodes in place and leaves nothing behind."""

    def __init__(self, footer: str) -> None:
        self._footer = Text(footer, style="dim")
        # Handlers' prints go to their attempts; the display must not take the streams away from that.
        self._live = Live(
            console=asides(), transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def show(self, status: dict[str, Any]) -> None:
        size = self._live.console.size
        table = node_table(status, rows=max(3, size.height - _OTHER_LINES), bar_width=30 if size.width >= 110 else 16)
        self._live.update(Group(job_title(status), table, self._footer), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Lines:
    """One line when a node changes; wide fan-outs speak up every two seconds."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._spoken: dict[str, float] = {}
        self._done: dict[str, int] = {}

    def show(self, status: dict[str, Any]) -> None:
        job = status["status"]
        if self._states.get("") != job:
            self._states[""] = job
            say(f"job {short(status['job_id'])} ({status['workflow_id']}) {job}")
        for node in steps(status):
            self._show_node(node)

    def _show_node(self, node: dict[str, Any]) -> None:
        name, state = node["node"], node["status"]
        changed = self._states.get(name, "pending") != state
        if changed or self._has_news(node):
            self._states[name] = state
            self._spoken[name] = time.monotonic()
            self._done[name] = _done(node)
            say(_node_line(node))

    def _has_news(self, node: dict[str, Any]) -> bool:
        """A fan-out that is still running, has moved, and has been silent for a while."""
        name = node["node"]
        return (
            node["type"] == "fan_out"
            and node["status"] == "running"
            and _done(node) != self._done.get(name)
            and time.monotonic() - self._spoken.get(name, 0.0) >= FAN_OUT_LINE_SECONDS
        )

    def close(self) -> None:
        pass


def _done(node: dict[str, Any]) -> int:
    return int(node["counts"]["completed"] + node["counts"]["failed"])


def _node_line(node: dict[str, Any]) -> str:
    parts = [f"  {node['node']}: {node['status']}"]
    counts = node["counts"]
    if node["type"] == "fan_out" and counts["total"]:
        parts.append(f"{_done(node):,}/{counts['total']:,} items")
        if counts["failed"]:
            parts.append(f"{counts['failed']:,} failed")
    if node["retrying"]:
        parts.append(f"{node['retrying']:,} retrying")
    if node["finished_at"] and node["status"] != "skipped":
        parts.append(elapsed(node["started_at"], node["finished_at"]))
    if node["error"] and node["status"] in ("failed", "ready"):
        parts.append(cut(f"{node['error']['code']}: {node['error']['message']}", 200))
    return ", ".join(parts)


def make_view(*, as_json: bool, footer: str = "Ctrl-C ends the watching; the job goes on.") -> View:
    if as_json:
        return Unseen()
    return LiveTable(footer) if asides().is_terminal else Lines()


def shown_status(snapshot: Snapshot) -> dict[str, Any]:
    """The status object with one more key for each node, for displays: how many of its tasks wait to be tried again."""
    status = status_json(snapshot)
    for node in status["nodes"]:
        queued = snapshot.queue.get(node["node"])
        node["retrying"] = queued.waiting if queued else 0
    return status


async def follow(
    reader: Reader,
    job_id: str,
    view: View,
    *,
    finished: asyncio.Event | None = None,
    on_status: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Show the job until it is terminal. `finished` may say so earlier than the next look."""
    away_since: float | None = None
    while True:
        try:
            snapshot = await reader.snapshot(job_id, whole=on_status is not None)
        except Unreachable as reason:
            away_since = _still_patient(away_since, reason)
        else:
            away_since = None
            view.show(shown_status(snapshot))
            if on_status is not None:
                on_status(status_json(snapshot))
            if snapshot.job.status in JOB_TERMINAL:
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(finished.wait() if finished else asyncio.sleep(LOOK_SECONDS), LOOK_SECONDS)
        if finished is not None:
            finished.clear()


def _still_patient(since: float | None, reason: Unreachable) -> float:
    now = time.monotonic()
    if since is None:
        say(f"{reason.message} Waiting for it to come back.")
        return now
    if now - since > PATIENCE_SECONDS:
        raise reason
    return since
