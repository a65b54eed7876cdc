"""How a job looks in a terminal: its nodes as a table, its end as a summary, its failures with what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.streams import harmless
from holdfast.cli.words import clock, counted, cut, day_and_clock, duration, elapsed, parsed, short, value
from holdfast.define.definition import UNREADABLE_REMEDY
from holdfast.errors import Code
from holdfast.store.reading import FailedItems

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
}
DOUBTED = ("⚠", STYLES["partial"])
"""Completed, and its rows contradict each other."""
_URGENCY = ("running", "failed", "ready", "dispatched", "cancelled", "completed", "skipped", "pending")
_LABEL = 10
SET_ASIDE = "orchestrator_error: "

Command = Callable[[str], str]
"""Makes the whole command line of a command to type next."""


def job_mark(job: dict[str, Any]) -> tuple[str, str]:
    """The symbol of a job and its style. One that completed with an error is in doubt."""
    state = job["status"]
    return DOUBTED if state == "completed" and job["error"] else (SYMBOLS[state], STYLES[state])


def job_title(status: dict[str, Any]) -> Text:
    """`✔ demo completed in 6.3 s   job 1a2b3c4d`"""
    state = status["status"]
    symbol, style = job_mark(status)
    text = Text(f"{symbol} ", style=style)
    text.append(cut(status["workflow_id"], 60), style="bold")
    text.append(f" {state}", style=style)
    took = elapsed(status["started_at"] or status["created_at"], status["finished_at"])
    text.append(f" in {took}" if status["finished_at"] else f" for {took}" if status["started_at"] else "")
    text.append(f"   job {status['job_id']}", style="dim")
    return text


def node_table(status: dict[str, Any], *, rows: int | None = None, bar_width: int = 20) -> RenderableType:
    """One line per node, in the order of the file; with `rows` only the most urgent ones."""
    nodes = steps(status)
    shown = _most_urgent(nodes, rows) if rows is not None else nodes
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for justify in ("left", "left", "left", "left", "right"):
        table.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    now = datetime.now(UTC)
    for node in shown:
        table.add_row(*_node_cells(node, now, bar_width))
        if node["unserved"] is not None:
            table.add_row("", "", "", Text(f"↳ {unserved_note(node['unserved'], now)}", style="yellow"), "")
        elif node["held"] is not None and not node["counts"]["running"]:
            table.add_row("", "", "", Text(f"↳ {held_note(node['held'], now)}", style="yellow"), "")
    left_out = Counter(node["status"] for node in nodes) - Counter(node["status"] for node in shown)
    if not left_out:
        return table
    rest = ", ".join(f"{count} {state}" for state, count in left_out.items())
    return Group(table, Text(f"  and {left_out.total()} more nodes: {rest}", style="dim"))


def steps(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes without start and end; all that are known if the definition cannot be read."""
    return [node for node in status["nodes"] if node["stage"] is not None or status["unreadable"]]


def _most_urgent(nodes: list[dict[str, Any]], rows: int) -> list[dict[str, Any]]:
    if len(nodes) <= rows:
        return nodes
    chosen = sorted(range(len(nodes)), key=lambda i: (_URGENCY.index(nodes[i]["status"]), _lateness(nodes[i]), i))
    return [nodes[i] for i in sorted(chosen[: max(1, rows)])]


def _lateness(node: dict[str, Any]) -> float:
    """What ended last is shown first."""
    finished = parsed(node["finished_at"])
    return -finished.timestamp() if finished is not None else 0.0


def _node_cells(node: dict[str, Any], now: datetime, bar_width: int) -> list[RenderableType]:
    state = node["status"]
    is_doubted = state == "completed" and (node["error"] or {}).get("code") == Code.COUNTERS_DISAGREE
    symbol, style = DOUBTED if is_doubted else (SYMBOLS[state], STYLES[state])
    took = elapsed(node["started_at"], node["finished_at"], now) if state not in ("pending", "skipped") else ""
    return [
        Text(f"{symbol} {cut(node['node'], 32)}", style=style if state in ("pending", "skipped") else ""),
        Text(state, style=style),
        _bar(node, bar_width),
        Text(", ".join(_notes(node, now))),
        Text(took, style="dim"),
    ]


def _bar(node: dict[str, Any], width: int) -> RenderableType:
    """How far it is: for fan-outs always, for single tasks while they tell."""
    progress = node["progress"]
    if not isinstance(progress, dict) or not width:
        return Text("")
    done, total = progress.get("done"), progress.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return Text("")
    style = STYLES["failed"] if node["counts"]["failed"] else STYLES["completed"]
    return ProgressBar(total=total, completed=min(done, total), width=width, complete_style=style, finished_style=style)


def _notes(node: dict[str, Any], now: datetime) -> Iterator[str]:
    counts, progress = node["counts"], node["progress"]
    if isinstance(progress, dict) and "done" in progress:
        yield f"{_number(progress['done'])}/{_number(progress.get('total'))}"
        if progress.get("text"):
            yield cut(str(progress["text"]), 30)
    if node["type"] == "fan_out" and counts["failed"]:
        yield f"{counts['failed']:,} failed"
    if node["retrying"]:
        yield f"{node['retrying']:,} retrying" if node["type"] == "fan_out" else _retry_note(node, now)
    if node["type"] != "fan_out" and (node["attempt"] or 0) > 1:
        yield f"attempt {node['attempt']}"


def _retry_note(node: dict[str, Any], now: datetime) -> str:
    at = parsed(node["retry_at"])
    return f"again in {duration((at - now).total_seconds())}" if at is not None else "will be tried again"


def unserved_note(unserved: dict[str, Any], now: datetime) -> str:
    """In few words, for the line below the node: what it waits for, and since when."""
    lacks = f"serves '{cut(unserved['queue'], 30)}'"
    if unserved["cause"] == "no_worker_for_handler":
        lacks = f"has '{cut(unserved['handler'], 30)}'"
    return f"no worker {lacks}, for {elapsed(unserved['since'], None, now)}"


def held_note(held: dict[str, Any], now: datetime) -> str:
    return f"held by {held['by']} {cut(held['name'], 30)}, for {elapsed(held['since'], None, now)}"


def held_text(held: dict[str, Any]) -> str:
    """`by breaker gateway since 12:03:11, tried again at 12:03:41`"""
    text = f"by {held['by']} {held['name']} since {clock(held['since'])}"
    return f"{text}, tried again at {clock(held['until'])}" if held["until"] else text


def _number(number: Any) -> str:
    return f"{number:,g}" if isinstance(number, float) else f"{number:,}" if isinstance(number, int) else str(number)


def job_card(
    status: dict[str, Any],
    *,
    retries: int,
    failed: dict[str, Sequence[FailedItems]],
    command: Command,
    revive: str | None,
    advised: Sequence[tuple[str, str]],
    plan: str,
    width: int,
) -> RenderableType:
    """The whole job: what ran, how it ended, what is wrong, and what to type next.

    `revive` is the command without which an open job stands still; None if somebody drives it.
    """
    parts: list[RenderableType] = [job_title(status), Text("")]
    parts.append(node_table(status, bar_width=20 if width >= 100 else 10))
    parts.append(Text(""))
    parts.append(_line("Tasks", task_summary(status["counts"], retries)))
    if status["inputs"]:
        parts.append(_line("Inputs", value(status["inputs"], width - _LABEL)))
    if status["result"] is not None:
        parts.append(_line("Result", value(status["result"], 3 * (width - _LABEL))))
    for name, found in status["outcome"]["deliverables"].items():
        parts.append(_line("Delivered", cut(f"{name}: {_delivered(found)}", width - _LABEL)))
    if status["finished_at"] is None:
        parts.append(_line("Created", day_and_clock(status["created_at"])))
        parts.append(_line("Owner", owner_text(status["owner"])))
    if status["held"] is not None:
        parts.append(_line("Held", held_text(status["held"])))
    if (status["reason"] or "").startswith(SET_ASIDE):
        parts.append(_line("Set aside", status["reason"].removeprefix(SET_ASIDE)))
        parts.append(
            _line("", "Its orchestrator cannot advance it and tries again by itself; its log has the details.")
        )
    if status["unreadable"]:
        parts.append(_line("Workflow", f"{status['unreadable']} Only nodes that have begun are known."))
        parts.append(_line("", UNREADABLE_REMEDY))
    parts += _failures(status, failed, width)
    parts += _next_commands(status, command, revive, advised, plan)
    return Group(*parts)


def _delivered(found: dict[str, Any]) -> str:
    if not found["usable"]:
        return "nothing so far"
    at = f" in {found['location']}" if found["location"] else ""
    return f"{found['count']:,}{at}"


def task_summary(counts: dict[str, int], retries: int) -> str:
    """`303 done, 2 failed, 4 running; 47 attempts failed and were tried again`"""
    words = {"completed": "done", "failed": "failed", "skipped": "skipped", "cancelled": "cancelled"}
    words |= {"running": "running", "queued": "queued"}
    parts = [f"{counts[key]:,} {word}" for key, word in words.items() if counts[key] or key == "completed"]
    text = ", ".join(parts)
    if retries:
        text += f"; {counted(retries, 'attempt')} failed and {'was' if retries == 1 else 'were'} tried again"
    return text


def owner_text(owner: dict[str, Any] | None) -> str:
    """`laptop:4711 (id 3) since 10:41:03`, or that there is none."""
    if owner is None:
        return "nobody yet"
    since = f" since {day_and_clock(owner['since'])}" if owner["since"] else ""
    return f"{owner['name']} (id {owner['id']}){since}" + ("" if owner["alive"] else "; it is gone")


def _failures(status: dict[str, Any], failed: dict[str, Sequence[FailedItems]], width: int) -> Iterator[RenderableType]:
    error = status["error"]
    if error is not None:
        where = f" in {error['node']}" if error.get("node") else ""
        yield _line("Error", f"{error['code']}{where}: {error['message']}", style=STYLES["failed"])
        if error.get("hint"):
            yield _line("", error["hint"])
    for node in status["nodes"]:
        groups = failed.get(node["node"], ())
        for group in groups:
            items = (
                f"item {group.first}" if group.number == 1 else f"{group.number:,} items, the first is {group.first}"
            )
            yield _line("", cut(f"{node['node']}, {items}: {group.code}: {group.message}", width - _LABEL))
        if node["error"] is not None and not groups and node["error"] != error and node["status"] == "failed":
            text = f"{node['error']['code']}: {node['error']['message']}"
            yield _line("", cut(f"{node['node']}: {text}", width - _LABEL))


def _next_commands(
    status: dict[str, Any], command: Command, revive: str | None, advised: Sequence[tuple[str, str]], plan: str
) -> Iterator[RenderableType]:
    job = short(status["job_id"])
    yield Text("")
    if status["unreadable"]:
        yield _line("Next", command(f"events {job}"), note="everything that happened, in order")
        return
    if revive is not None:
        yield _line("Next", revive, note="nobody drives it: it goes on when this runs")
        return
    if status["finished_at"] is None:
        yield _line("Next", command(f"watch {job}"), note="follow it to its end")
        return
    bad = status["outcome"]["resume_from"]
    for number, (text, note) in enumerate(advised):
        yield _line("" if number else "Next", text, note=note)
    if status["outcome"]["resumable"]:
        yield _line("", plan, note="what that would do")
        if bad is not None:
            yield _line("", command(f"events {job} --node {bad}"), note=f"what happened in {bad}")
    elif advised:
        yield _line("", command(f"events {job}"), note="everything that happened, in order")
    else:
        yield _line("Next", command(f"events {job}"), note="everything that happened, in order")
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


def job_list(jobs: Sequence[dict[str, Any]]) -> Table:
    """The newest jobs, one line each."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in ("job", "workflow", "status", "tasks", "created", "took"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        counts = job["counts"]
        failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
        table.add_row(
            short(job["job_id"]),
            cut(job["workflow_id"], 40),
            Text(f"{job_mark(job)[0]} {job['status']}", style=job_mark(job)[1]),
            f"{counts['completed']:,}/{counts['total']:,}{failed}",
            day_and_clock(job["created_at"]),
            elapsed(job["started_at"], job["finished_at"]),
        )
    return table


def attempt_text(attempt: dict[str, Any]) -> str:
    """A heading for the attempt and, indented below it, why it failed and what its handler printed."""
    where = attempt["node"] if attempt["index"] is None else f"{attempt['node']}[{attempt['index']}]"
    lines = [f"{where}  attempt {attempt['attempt']}  {attempt['outcome']}  {attempt['worker'] or ''}".rstrip()]
    if attempt["error"] is not None:
        lines.append(f"  {attempt['error']['code']}: {attempt['error']['message']}")
    lines += [f"  | {line}" for line in (attempt["log"] or "").splitlines()]
    lines += [f"  warning: {warning}" for warning in (attempt["extra"] or {}).get("warnings", [])]
    return "\n".join(harmless(line) for line in lines)


def event_line(event: dict[str, Any], clock_text: str) -> Text:
    """`   12  10:41:03.123  node_completed  inventory  attempt 1  worker vm:123`"""
    name = event["event"]
    state = name.rpartition("_")[2]
    where = event["node"] or ""
    if event["index"] is not None:
        where += f"[{event['index']}]"
    text = Text(f"{event['seq']:>6}  ", style="dim")
    text.append(f"{clock_text}  ", style="dim")
    text.append(f"{name:<20}", style=STYLES.get(state, "yellow" if state == "scheduled" else ""))
    text.append(f"  {where:<20}")
    details = [f"attempt {event['attempt']}"] if event["attempt"] is not None else []
    details += [f"{key} {value(data, 200)}" for key, data in (event["data"] or {}).items() if data is not None]
    text.append("  " + ", ".join(details))
    text.rstrip()
    return text
