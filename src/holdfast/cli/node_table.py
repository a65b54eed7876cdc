"""The nodes of a job in a terminal: a line for each, with as much as the width allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.marks import DOUBTED, STYLES, SYMBOLS
from holdfast.cli.streams import harmless
from holdfast.cli.words import GAP, counted, cut, duration, elapsed, waited
from holdfast.errors import Code
from holdfast.views.fleet import UnservedTasks
from holdfast.views.held import Held
from holdfast.views.interventions import NodeUndone
from holdfast.views.jobs import Job, NodeState

_URGENCY = ("running", "failed", "ready", "dispatched", "cancelled", "completed", "skipped", "pending")
NOTES_WIDTH = 16
"""Columns that notes have in a table, if they need so many; what is longer wraps."""


def node_table(job: Job, width: int, *, rows: int | None = None, bar_width: int = 20) -> RenderableType:
    """One line per node, in the order of the file; with `rows` only the most urgent ones.

    What does not fit into `width` is left out, the times first, then the bars. No word is cut.
    """
    nodes = steps(job)
    shown = _most_urgent(nodes, rows) if rows is not None else nodes
    now = datetime.now(UTC)
    lines = [_node_line(node, now, bar_width) for node in shown]
    with_times = _table_width(lines, with_times=True) <= width
    if with_times or _table_width(lines, with_times=False) <= width:
        drawing: RenderableType = _table(lines, with_times=with_times)
    else:
        drawing = Group(*_without_columns(lines, width))
    left_out = Counter(node.status for node in nodes) - Counter(node.status for node in shown)
    if not left_out:
        return drawing
    rest = ", ".join(f"{count} {state}" for state, count in left_out.items())
    return Group(drawing, Text(f"  and {counted(left_out.total(), 'more node')}: {rest}", style="dim"))


class _NodeLine(NamedTuple):
    """A node as it is shown. The remark has a line of its own."""

    name: Text
    status: Text
    bar: RenderableType
    notes: Text
    took: Text
    remark: Text | None

    @property
    def bar_width(self) -> int:
        return self.bar.width or 0 if isinstance(self.bar, ProgressBar) else 0


def _table_width(lines: Sequence[_NodeLine], *, with_times: bool) -> int:
    """How wide a table is at least. Long notes can wrap."""
    texts = [text for line in lines for text in (line.notes, line.remark) if text is not None]
    columns = [
        _widest(line.name for line in lines),
        _widest(line.status for line in lines),
        max((line.bar_width for line in lines), default=0),
        min(NOTES_WIDTH, _widest(texts)),
        *([_widest(line.took for line in lines)] if with_times else []),
    ]
    return sum(columns) + len(GAP) * (len(columns) - 1)


def _widest(texts: Iterable[Text]) -> int:
    return max((text.cell_len for text in texts), default=0)


def _table(lines: Sequence[_NodeLine], *, with_times: bool) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for is_notes in (False, False, False, True):
        table.add_column(no_wrap=not is_notes, overflow="fold")
    if with_times:
        table.add_column(justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*line[: 5 if with_times else 4])
        if line.remark is not None:
            table.add_row("", "", "", line.remark)
    return table


def _without_columns(lines: Sequence[_NodeLine], width: int) -> Iterator[RenderableType]:
    """Name and status in columns, and notes on the next line if they are too long for this one."""
    names, statuses = _widest(line.name for line in lines), _widest(line.status for line in lines)
    for line in lines:
        head = Text.assemble(line.name, " " * (names - line.name.cell_len), GAP, line.status)
        begin = names + statuses + 2 * len(GAP)
        below = [text for text in (line.notes, line.remark) if text]
        if line.notes and begin + line.notes.cell_len <= width:
            head = Text.assemble(head, " " * (begin - head.cell_len), below.pop(0))
        yield head
        yield from (Padding(text, (0, 0, 0, 2 * len(GAP))) for text in below)


def steps(job: Job) -> list[NodeState]:
    """The nodes without start and end; all that are known if the definition cannot be read."""
    return [node for node in job.nodes if node.stage is not None or job.unreadable]


def _most_urgent(nodes: list[NodeState], rows: int) -> list[NodeState]:
    if len(nodes) <= rows:
        return nodes
    chosen = sorted(range(len(nodes)), key=lambda i: (_URGENCY.index(nodes[i].status), _lateness(nodes[i]), i))
    return [nodes[i] for i in sorted(chosen[: max(1, rows)])]


def _lateness(node: NodeState) -> float:
    """What ended last is shown first."""
    return -node.finished_at.timestamp() if node.finished_at is not None else 0.0


def _node_line(node: NodeState, now: datetime, bar_width: int) -> _NodeLine:
    state = node.status
    is_doubted = state == "completed" and node.error is not None and node.error.code == Code.COUNTERS_DISAGREE
    symbol, style = DOUBTED if is_doubted else (SYMBOLS[state], STYLES[state])
    took = elapsed(node.began_at or node.started_at, node.finished_at, now)
    return _NodeLine(
        Text(f"{symbol} {harmless(node.node)}", style=style if state in ("pending", "skipped") else ""),
        Text(state, style=style),
        _bar(node, bar_width),
        Text(", ".join(_notes(node, now))),
        Text(took if state not in ("pending", "skipped") else "", style="dim"),
        _remark(node, now),
    )


def _remark(node: NodeState, now: datetime) -> Text | None:
    """What the node waits for, if it makes no progress."""
    is_paused = node.held is not None and node.held.paused_queue is not None
    if node.unserved is not None and not is_paused:
        return Text(f"↳ {unserved_note(node.unserved, now)}", style="yellow")
    if node.held is not None and not node.counts.running:
        return Text(f"↳ {held_note(node.held, now)}", style="yellow")
    return None


def _bar(node: NodeState, width: int) -> RenderableType:
    """How far it is: for fan-outs always, for single tasks if they report progress."""
    progress = node.progress
    if not isinstance(progress, dict) or not width:
        return Text("")
    done, total = progress.get("done"), progress.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return Text("")
    style = STYLES["failed"] if node.counts.failed else STYLES["completed"]
    return ProgressBar(total=total, completed=min(done, total), width=width, complete_style=style, finished_style=style)


def _notes(node: NodeState, now: datetime) -> Iterator[str]:
    counts, progress = node.counts, node.progress
    if node.width:
        yield f"{min(counts.completed, node.width):,}/{node.width:,}"
        for number, word in ((counts.failed, "failed"), (counts.skipped, "skipped"), (counts.cancelled, "cancelled")):
            if number:
                yield f"{number:,} {word}"
        if node.gone:
            yield f"{node.gone:,} gone"
    elif isinstance(progress, dict) and "done" in progress:
        yield f"{_number(progress['done'])}/{_number(progress.get('total'))}"
        if progress.get("text"):
            yield cut(str(progress["text"]), 30)
    if node.retrying:
        yield f"{node.retrying:,} retrying" if node.has_task_per_item else _retry_note(node, now)
    if not node.has_task_per_item and (node.attempt or 0) > 1:
        yield f"attempt {node.attempt}"
    if wait := waited(node.started_at, node.began_at):
        yield wait
    if node.stale:
        yield "stale"
    if node.corrected:
        yield f"{node.corrected:,} corrected" if node.has_task_per_item else "corrected"
    if node.undo is not None:
        yield from _undo_notes(node.undo)


def _undo_notes(undo: NodeUndone) -> Iterator[str]:
    if not undo.is_over:
        yield "undoing"
    if undo.undone:
        yield f"{undo.undone:,} undone"
    if undo.failed:
        yield f"{undo.failed:,} not undone"


def _retry_note(node: NodeState, now: datetime) -> str:
    if node.retry_at is None:
        return "will be tried again"
    return f"again in {duration((node.retry_at - now).total_seconds())}"


def unserved_note(unserved: UnservedTasks, now: datetime) -> str:
    """In few words, for the line below the node: what it waits for, and since when."""
    lacks = f"serves '{cut(unserved.queue, 30)}'"
    if unserved.cause == "no_worker_for_handler":
        lacks = f"has '{cut(unserved.handler, 30)}'"
    return f"no worker {lacks}, for {elapsed(unserved.since, None, now)}"


def held_note(held: Held, now: datetime) -> str:
    if held.paused_queue is not None:
        because = f": {cut(held.reason, 60)}" if held.reason else ""
        since = elapsed(held.since, None, now)
        return f"queue {cut(held.paused_queue, 30)} is paused, by {held.paused_by} {since} ago{because}"
    return f"held by {held.by} {cut(held.name, 30)}, for {elapsed(held.since, None, now)}"


def _number(number: Any) -> str:
    return f"{number:,g}" if isinstance(number, float) else f"{number:,}" if isinstance(number, int) else str(number)
