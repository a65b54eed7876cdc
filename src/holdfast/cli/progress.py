"""Following a job while it runs: a live table on a terminal, else a line per change."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from holdfast.cli.node_table import node_table, steps
from holdfast.cli.render import job_title, pause_text
from holdfast.cli.streams import asides, say
from holdfast.cli.words import counted, cut, elapsed, short, waited
from holdfast.client import Client
from holdfast.errors import Unreachable
from holdfast.views.jobs import Job, NodeState

FAN_OUT_LINE_SECONDS = 2.0
_OTHER_LINES = 4


class View(Protocol):
    """Shows a job again and again until it is closed."""

    def show(self, job: Job) -> None: ...
    def close(self) -> None: ...


class Unseen:
    """For machines: nothing but the answer."""

    def show(self, job: Job) -> None: ...
    def close(self) -> None: ...


class LiveTable:
    """Redraws the nodes in place and leaves nothing behind."""

    def __init__(self, footer: str) -> None:
        self._footer = Text(footer, style="dim")
        # What handlers print belongs to their attempts: the display must not redirect the streams.
        self._live = Live(
            console=asides(), transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def show(self, job: Job) -> None:
        size = self._live.console.size
        rows, bar_width = max(3, size.height - _OTHER_LINES), 30 if size.width >= 110 else 16
        table = node_table(job, size.width, rows=rows, bar_width=bar_width)
        paused = [Text(f"  ↳ paused {cut(pause_text(job.pause), 200)}", style="yellow")] if job.pause else []
        self._live.update(Group(job_title(job), *paused, table, self._footer), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Lines:
    """One line when a node changes; a running fan-out gets one every two seconds if it has moved."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._spoken: dict[str, float] = {}
        self._done: dict[str, int] = {}

    def show(self, job: Job) -> None:
        if self._states.get("") != job.state:
            self._states[""] = job.state
            paused = f" {pause_text(job.pause)}" if job.pause is not None else ""
            say(f"job {short(job.job_id)} ({job.workflow_id}) {job.state}{paused}")
        for node in steps(job):
            self._show_node(node)

    def _show_node(self, node: NodeState) -> None:
        changed = self._states.get(node.node, "pending") != node.status
        if changed or self._has_news(node):
            self._states[node.node] = node.status
            self._spoken[node.node] = time.monotonic()
            self._done[node.node] = _done(node)
            say(_node_line(node))

    def _has_news(self, node: NodeState) -> bool:
        """A fan-out that is still running, has moved, and had no line for a while."""
        return (
            node.has_task_per_item
            and node.status == "running"
            and _done(node) != self._done.get(node.node)
            and time.monotonic() - self._spoken.get(node.node, 0.0) >= FAN_OUT_LINE_SECONDS
        )

    def close(self) -> None:
        pass


def _done(node: NodeState) -> int:
    return node.counts.completed + node.counts.failed


def _node_line(node: NodeState) -> str:
    parts = [f"  {node.node}: {node.status}"]
    if node.width:
        width = counted(node.width, "item") if node.has_task_per_item else counted(node.width, "batch", "batches")
        parts.append(f"{min(node.counts.completed, node.width):,}/{width}")
        if node.counts.failed:
            parts.append(f"{node.counts.failed:,} failed")
    if node.retrying:
        parts.append(f"{node.retrying:,} retrying")
    if node.finished_at and node.status != "skipped":
        parts.append(elapsed(node.began_at or node.started_at, node.finished_at))
        parts += [wait for wait in [waited(node.started_at, node.began_at)] if wait]
    if node.error and node.status in ("failed", "ready"):
        parts.append(cut(f"{node.error.code}: {node.error.message}", 200))
    return ", ".join(parts)


def make_view(*, as_json: bool, footer: str = "Ctrl-C ends the watching; the job continues.") -> View:
    if as_json:
        return Unseen()
    return LiveTable(footer) if asides().is_terminal else Lines()


async def follow(client: Client, job_id: str, view: View, *, finished: asyncio.Event | None = None) -> None:
    """Show the job until it has ended. `finished` may say so earlier than the next look."""
    looks = client.watch(job_id, whole=False, every_look=True, wake=finished, on_outage=say_outage)
    async for job in looks:
        view.show(job)


def say_outage(reason: Unreachable) -> None:
    say(f"{reason.message} Waiting for it to come back.")
