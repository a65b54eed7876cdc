"""How a job looks in a terminal: its nodes as a table, its end as a summary, its failures with the next command."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.attempt_logs import log_lines
from holdfast.cli.failures import failure_lines, left_out
from holdfast.cli.streams import harmless
from holdfast.cli.words import age, clock, coming, counted, cut, day_and_clock, duration, elapsed, short, value, waited
from holdfast.define.definition import UNREADABLE_REMEDY
from holdfast.errors import Code
from holdfast.views.definitions import Corrected
from holdfast.views.fleet import UnservedTasks
from holdfast.views.held import PAUSED, Held
from holdfast.views.history import Attempt, FailedGroup, Failure
from holdfast.views.jobs import Acknowledgement, ByHand, Counts, Job, JobSummary, NodeState, Owner
from holdfast.views.outcome import Deliverable

STYLES = {
    "completed": "green",
    "failed": "red",
    "partial": "yellow",
    "cancelled": "magenta",
    "running": "cyan",
    "dispatched": "blue",
    "ready": "blue",
    "skipped": "dim",
    "pending": "dim",
    PAUSED: "yellow",
}
SYMBOLS = {
    "completed": "✔",
    "failed": "✘",
    "partial": "◐",
    "cancelled": "⊘",
    "running": "▶",
    "dispatched": "…",
    "ready": "…",
    "skipped": "↷",
    "pending": "·",
    PAUSED: "⏸",
}
DOUBTED = ("⚠", STYLES["partial"])
"""Completed, and its rows contradict each other."""
_URGENCY = ("running", "failed", "ready", "dispatched", "cancelled", "completed", "skipped", "pending")
_LABEL = 10

Command = Callable[[str], str]
"""Makes the whole command line of a command to type next."""


def job_mark(job: Job | JobSummary) -> tuple[str, str]:
    """The symbol of a job and its style. One that completed with an error is in doubt."""
    return DOUBTED if job.is_in_doubt else (SYMBOLS[job.state], STYLES[job.state])


def job_title(job: Job, width: int | None = None) -> Text:
    """`✔ demo completed in 6.3 s   job 1a2b3c4d`; if that is wider than `width`, in two lines."""
    state = job.state
    symbol, style = job_mark(job)
    text = Text(f"{symbol} ", style=style)
    text.append(cut(job.workflow_id, 60), style="bold")
    text.append(f" {state}", style=style)
    took = job_time(job)
    if job.pause is not None:
        text.append(f" for {elapsed(job.pause.since, None)}")
    else:
        text.append(f" in {took}" if job.finished_at else f" for {took}" if job.started_at else "")
    name = f"   job {job.job_id}"
    is_too_wide = width is not None and cell_len(text.plain + name) > width
    text.append(f"\n{name.strip()}" if is_too_wide else name, style="dim")
    return text


def job_time(job: Job | JobSummary) -> str:
    """`0.2 s (generation 2)`: the work of the present generation, without its time in the queue."""
    took = elapsed(job.began_at or job.queued_at or job.created_at, job.finished_at)
    return f"{took} (generation {job.generation})" if job.generation > 1 else took


def job_wait(job: Job | JobSummary) -> str:
    """`waited 31 s`, if the job waited for its first task to begin."""
    return waited(job.queued_at, job.began_at)


def node_table(job: Job, *, rows: int | None = None, bar_width: int = 20) -> RenderableType:
    """One line per node, in the order of the file; with `rows` only the most urgent ones."""
    nodes = steps(job)
    shown = _most_urgent(nodes, rows) if rows is not None else nodes
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for justify in ("left", "left", "left", "left", "right"):
        table.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    now = datetime.now(UTC)
    for node in shown:
        table.add_row(*_node_cells(node, now, bar_width))
        is_paused = node.held is not None and node.held.paused_queue is not None
        if node.unserved is not None and not is_paused:
            table.add_row("", "", "", Text(f"↳ {unserved_note(node.unserved, now)}", style="yellow"), "")
        elif node.held is not None and not node.counts.running:
            table.add_row("", "", "", Text(f"↳ {held_note(node.held, now)}", style="yellow"), "")
    left_out = Counter(node.status for node in nodes) - Counter(node.status for node in shown)
    if not left_out:
        return table
    rest = ", ".join(f"{count} {state}" for state, count in left_out.items())
    return Group(table, Text(f"  and {left_out.total()} more nodes: {rest}", style="dim"))


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


def _node_cells(node: NodeState, now: datetime, bar_width: int) -> list[RenderableType]:
    state = node.status
    is_doubted = state == "completed" and node.error is not None and node.error.code == Code.COUNTERS_DISAGREE
    symbol, style = DOUBTED if is_doubted else (SYMBOLS[state], STYLES[state])
    took = elapsed(node.began_at or node.started_at, node.finished_at, now)
    took = took if state not in ("pending", "skipped") else ""
    return [
        Text(f"{symbol} {cut(node.node, 32)}", style=style if state in ("pending", "skipped") else ""),
        Text(state, style=style),
        _bar(node, bar_width),
        Text(", ".join(_notes(node, now))),
        Text(took, style="dim"),
    ]


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


def _retry_note(node: NodeState, now: datetime) -> str:
    if node.retry_at is None:
        return "will be tried again"
    return f"again in {duration((node.retry_at - now).total_seconds())}"


def by_hand_note(one: ByHand) -> str:
    """`set by ann@laptop 4.0 s ago: the sensor was off`"""
    because = f": {one.reason}" if one.reason else ""
    return f"{'set' if one.verb == 'set' else 'skipped'} by {one.by} {age(one.at)}{because}"


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


def pause_text(pause: Held) -> str:
    """`by ann@laptop 4.0 s ago: CRM maintenance`"""
    because = f": {pause.reason}" if pause.reason else ""
    return f"by {pause.name} {age(pause.since)}{because}"


def held_text(held: Held) -> str:
    """`by breaker gateway since 12:03:11, tried again at 12:03:41`"""
    if held.paused_queue is not None:
        return held_note(held, datetime.now(UTC))
    text = f"by {held.by} {held.name} since {clock(held.since)}"
    return f"{text}, tried again at {coming(held.until)}" if held.until else text


def _number(number: Any) -> str:
    return f"{number:,g}" if isinstance(number, float) else f"{number:,}" if isinstance(number, int) else str(number)


def job_card(
    job: Job,
    *,
    retries: int,
    failed: Mapping[str, Sequence[FailedGroup]],
    command: Command,
    revive: str | None,
    advised: Sequence[tuple[str, str]],
    plan: str,
    width: int,
) -> RenderableType:
    """The whole job: what ran, how it ended, what is wrong, and what to type next.

    `revive` is the command without which an open job makes no progress; None if an orchestrator drives it.
    """
    parts: list[RenderableType] = [job_title(job, width), Text("")]
    parts.append(node_table(job, bar_width=20 if width >= 100 else 10))
    parts.append(Text(""))
    parts.append(_line("Tasks", task_summary(job.counts, retries)))
    if job.inputs:
        parts.append(_line("Inputs", value(job.inputs, width - _LABEL)))
    if wait := job_wait(job):
        parts.append(_line("Queued", f"{wait} before the first task began"))
    if job.labels:
        parts.append(_line("Labels", " ".join(f"{name}={text}" for name, text in sorted(job.labels.items()))))
    if job.corrected is not None:
        parts.append(_line("Corrected", corrected_text(job.corrected)))
    if job.acknowledged is not None:
        parts.append(_line("Seen", _seen(job.acknowledged)))
    if job.result is not None:
        parts.append(_line("Result", value(job.result, 3 * (width - _LABEL))))
    for name, deliverable in job.outcome.deliverables.items():
        parts.append(_line("Delivered", cut(f"{name}: {delivered_text(deliverable)}", width - _LABEL)))
    if job.finished_at is None:
        parts.append(_line("Created", day_and_clock(job.created_at)))
        parts.append(_line("Owner", owner_text(job.owner)))
    if job.pause is not None:
        parts.append(_line("Paused", pause_text(job.pause)))
    elif job.held is not None:
        parts.append(_line("Held", held_text(job.held)))
    parts += [_line("By hand", f"{one.node}: {by_hand_note(one.by_hand)}") for one in job.nodes if one.by_hand]
    if stale := [node.node for node in steps(job) if node.stale]:
        parts.append(_line("Stale", f"{', '.join(stale)}: completed before a node above ran again"))
    if job.problem is not None:
        parts.append(_line("Set aside", job.problem))
        parts.append(_line("", "Its orchestrator cannot advance it and tries again; its log has the details."))
    if job.unreadable:
        parts.append(_line("Workflow", f"{job.unreadable} Only nodes that have begun are known."))
        parts.append(_line("", UNREADABLE_REMEDY))
    parts += _failures(job, failed, command, width)
    parts += _next_commands(job, command, revive, advised, plan)
    return Group(*parts)


def corrected_text(corrected: Corrected) -> str:
    """`inputs.limit, workflow (generation 2, by ann@laptop: the limit was wrong)`"""
    names = [one for one in corrected.changes if one.startswith("inputs.")]
    names += ["workflow"] if len(names) < len(corrected.changes) else []
    by = f", by {corrected.by}" if corrected.by is not None else ""
    because = f": {corrected.reason}" if corrected.reason else ""
    return f"{', '.join(names)} (generation {corrected.generation}{by}{because})"


def _seen(acknowledged: Acknowledgement) -> str:
    reason = f": {acknowledged.reason}" if acknowledged.reason else ""
    return f"acknowledged by {acknowledged.by} at {day_and_clock(acknowledged.at)}{reason}"


def delivered_text(deliverable: Deliverable) -> str:
    if not deliverable.usable:
        return "nothing so far"
    at = f" in {deliverable.location}" if deliverable.location else ""
    return f"{deliverable.count:,}{at}"


def task_summary(counts: Counts, retries: int) -> str:
    """`303 done, 2 failed, 4 running; 47 attempts failed and were tried again`"""
    words = {"completed": "done", "failed": "failed", "skipped": "skipped", "cancelled": "cancelled"}
    words |= {"running": "running", "queued": "queued"}
    numbers = {word: getattr(counts, key) for key, word in words.items()}
    text = ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number or word == "done")
    if retries:
        text += f"; {counted(retries, 'attempt')} failed and {'was' if retries == 1 else 'were'} tried again"
    return text


def owner_text(owner: Owner | None) -> str:
    """`laptop:4711 (id 3) since 10:41:03`, or that there is none."""
    if owner is None:
        return "none yet"
    since = f" since {day_and_clock(owner.since)}" if owner.since else ""
    return f"{owner.name} (id {owner.id}){since}" + ("" if owner.alive else "; it has ended")


def _failures(
    job: Job, failed: Mapping[str, Sequence[FailedGroup]], command: Command, width: int
) -> Iterator[RenderableType]:
    error = job.error
    only_item = _only_item(error, failed)
    if error is not None:
        item = f"[{only_item}]" if only_item is not None else ""
        where = f" in {error.node}{item}" if error.node else ""
        yield _line("Error", f"{error.code}{where}: {error.message}", style=STYLES["failed"])
        if error.hint:
            yield _line("", error.hint)
    label = "" if error is not None else "Failed"
    for node in job.nodes:
        groups = failed.get(node.node, ())
        if error is not None and error.node == node.node and only_item is not None:
            continue
        for line in failure_lines(groups, node.counts.failed, in_batches=not node.has_task_per_item):
            yield _line(label, cut(f"{node.node}: {line}", width - _LABEL))
            label = ""
        if left_out(groups, node.counts.failed):
            yield _line("", command(f"tasks {short(job.job_id)} {node.node} --status failed"), note="all of them")
        if node.error is not None and not groups and node.error != error and node.status == "failed":
            text = f"{node.error.code}: {node.error.message}"
            yield _line(label, cut(f"{node.node}: {text}", width - _LABEL))
            label = ""


def _only_item(error: Failure | None, failed: Mapping[str, Sequence[FailedGroup]]) -> int | None:
    """The item whose failure is the job's error, if no other item of its node failed: one line then says it all."""
    if error is None or error.index is None or error.node is None:
        return None
    is_only = [(group.number, group.items) for group in failed.get(error.node, ())] == [(1, (error.index,))]
    return error.index if is_only else None


def _next_commands(
    job: Job, command: Command, revive: str | None, advised: Sequence[tuple[str, str]], plan: str
) -> Iterator[RenderableType]:
    job_name = short(job.job_id)
    yield Text("")
    if job.unreadable:
        yield _line("Next", command(f"events {job_name}"), note="everything that happened, in order")
        return
    if job.pause is not None:
        yield _line("Next", command(f"unpause {job_name}"), note="let it continue")
        if revive is not None:
            yield _line("", revive, note="no orchestrator drives it; it needs this, too")
        return
    if revive is not None:
        yield _line("Next", revive, note="no orchestrator drives it; it continues when this runs")
        return
    if job.held is not None and job.held.paused_queue is not None:
        yield _line(
            "Next",
            command(f"unpause --queue {shlex.quote(job.held.paused_queue)}"),
            note="let the tasks of its queue start",
        )
        return
    if job.finished_at is None:
        yield _line("Next", command(f"watch {job_name}"), note="follow it to its end")
        return
    bad = job.outcome.resume_from
    for number, (text, note) in enumerate(advised):
        yield _line("" if number else "Next", text, note=note)
    if job.outcome.resumable:
        yield _line("", plan, note="what that would do")
        if bad is not None:
            yield _line("", command(f"events {job_name} --node {bad}"), note=f"what happened in {bad}")
    elif advised:
        yield _line("", command(f"events {job_name}"), note="everything that happened, in order")
    else:
        yield _line("Next", command(f"events {job_name}"), note="everything that happened, in order")
        yield _line("", command("status"), note="this job and others")


def _line(label: str, text: str, *, style: str = "", note: str = "") -> Table:
    """A label and its text, which wraps beside it."""
    table = Table.grid(padding=0)
    table.add_column(width=_LABEL, no_wrap=True)
    table.add_column(overflow="fold")
    body = Text(" ".join(cut(text, 4000).split()) if not note else text, style=style)
    if note:
        body.append(f"   {note}", style="dim")
    table.add_row(Text(label, style="bold"), body)
    return table


def attempt_text(attempt: Attempt) -> str:
    """A heading for the attempt and, indented below it, why it failed and what its handler printed."""
    where = attempt.node if attempt.index is None else f"{attempt.node}[{attempt.index}]"
    lines = [f"{where}  attempt {attempt.attempt}  {attempt.outcome}  {attempt.worker or ''}".rstrip()]
    if attempt.error is not None:
        lines.append(f"  {attempt.error.code}: {attempt.error.message}")
    lines += [f"  {line}" for line in log_lines(attempt.log or "", attempt.log_times)]
    lines += [f"  warning: {warning}" for warning in (attempt.extra or {}).get("warnings", [])]
    return "\n".join(harmless(line) for line in lines)
