"""How a job looks in a terminal: its title, its end as a summary, its failures with the next command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli.attempt_logs import log_lines
from holdfast.cli.failures import failure_lines, left_out
from holdfast.cli.marks import DOUBTED, STYLES, SYMBOLS
from holdfast.cli.node_table import held_note, node_table, steps
from holdfast.cli.streams import harmless
from holdfast.cli.words import age, clock, coming, counted, cut, day_and_clock, elapsed, short, value, waited
from holdfast.define.definition import UNREADABLE_REMEDY
from holdfast.views.definitions import Corrected
from holdfast.views.held import Held
from holdfast.views.history import Attempt, FailedGroup, Failure, Retries
from holdfast.views.interventions import Acknowledgement, ByHand
from holdfast.views.jobs import Counts, Job, JobSummary, Owner
from holdfast.views.outcome import Deliverable

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
    text.append(f" ({job.reason})" if job.is_undone else "", style=style)
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


def by_hand_note(one: ByHand) -> str:
    """`set by ann@laptop 4.0 s ago: the sensor was off`"""
    because = f": {one.reason}" if one.reason else ""
    return f"{'set' if one.verb == 'set' else 'skipped'} by {one.by} {age(one.at)}{because}"


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


def job_card(
    job: Job,
    *,
    retries: Retries,
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
    parts.append(node_table(job, width, bar_width=20 if width >= 100 else 10))
    parts.append(Text(""))
    parts.append(_line("Tasks", task_summary(job.counts, retries)))
    if job.inputs:
        parts.append(_line("Inputs", value(job.inputs, width - _LABEL)))
    if wait := job_wait(job):
        parts.append(_line("Queued", f"{wait} before the first task began"))
    if job.labels:
        parts.append(_line("Labels", " ".join(f"{name}={text}" for name, text in sorted(job.labels.items()))))
    ids = [f"correlation id {job.correlation_id}"] if job.correlation_id is not None else []
    ids += [f"{namespace}={text}" for namespace, text in sorted((job.external_ids or {}).items())]
    if ids:
        parts.append(_line("Ids", ", ".join(ids)))
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
    parts += [_line("Look at", f"{node}: {why}") for node, why in (job.look_by_hand or {}).items()]
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


def task_summary(counts: Counts, retries: Retries) -> str:
    """`303 done, 2 failed, 4 running; 47 attempts failed and were tried again`"""
    words = {"completed": "done", "failed": "failed", "skipped": "skipped", "cancelled": "cancelled"}
    words |= {"running": "running", "queued": "queued"}
    numbers = {word: getattr(counts, key) for key, word in words.items()}
    text = ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number or word == "done")
    return text + (f"; {_tried_again(retries)}" if retries.retries else "")


def _tried_again(retries: Retries) -> str:
    failed, lost = retries.retries - retries.lost, retries.lost
    were = "was" if retries.retries == 1 else "were"
    without = "lost its worker" if lost == 1 else "lost their worker"
    if not lost:
        return f"{counted(failed, 'attempt')} failed and {were} tried again"
    if not failed:
        return f"{counted(lost, 'attempt')} {without} and {were} tried again"
    return f"{counted(failed, 'attempt')} failed and {lost:,} {without}; they were tried again"


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
    left = [node.node for node in job.nodes if job.is_undone and node.undo is not None and node.undo.failed]
    bad = left[0] if left else job.outcome.resume_from
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
