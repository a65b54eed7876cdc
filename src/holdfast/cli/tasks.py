"""`tasks`: the tasks of a node, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from holdfast.bootstrap import open_client
from holdfast.cli.marks import STYLES
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer, answer_json, answers, say
from holdfast.cli.words import cut, elapsed, short
from holdfast.client import Client
from holdfast.errors import ExitCode
from holdfast.views.encoding import to_json
from holdfast.views.history import Task

MESSAGE_WIDTH = 200


def show_tasks(
    job: str, node: str, *, status: str | None, limit: int, after: int | None, as_json: bool, target: Target
) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            place = (node, after) if after is not None else None
            tasks = await client.tasks(job_id, node=node, status=status, limit=limit + 1, after=place)
            page, is_more = tasks[:limit], len(tasks) > limit
            if as_json:
                answer_json({"tasks": to_json(page)} | ({"after": page[-1].index} if is_more else {}))
                return ExitCode.DONE
            if not page:
                answer(await _empty(client, job_id, node, status, after))
        for line in _lines(page):
            if answers().is_terminal:
                answers().print(line, no_wrap=True, overflow="ellipsis")
            else:
                answers().print(line, soft_wrap=True)
        if is_more:
            chosen = f" --status {status}" if status is not None else ""
            words = f"tasks {short(job_id)} {node}{chosen} --limit {limit} --after {page[-1].index}"
            say(f"  → More: {target.command(words)}")
        return ExitCode.DONE

    return drive(work())


async def _empty(client: Client, job_id: str, node: str, status: str | None, after: int | None) -> str:
    """Why there are no tasks to list."""
    if after is not None:
        return f"{node} has no such tasks after item {after}."
    if status is not None:
        return f"No task of {node} has the status {status}."
    state = (await client.job(job_id, whole=False)).node(node)
    if state is None or state.status not in ("completed", "failed"):
        return f"{node} has no tasks yet: it is {state.status if state is not None else 'pending'}."
    return f"{node} has no tasks."


def _lines(tasks: Sequence[Task]) -> Iterator[Text]:
    """A heading and a line for each task; the columns are as wide as their widest text."""
    if not tasks:
        return
    rows = [("item", "status", "attempts", "took", "worker", "error"), *map(_cells, tasks)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for number, row in enumerate(rows):
        item, status, attempts, took, worker = (
            text.ljust(width) if column in (1, 4) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=False))
        )
        line = Text(f"{item}  ", style="bold" if number == 0 else "")
        line.append(status, style=STYLES.get(row[1], ""))
        line.append(f"  {attempts}  {took}  {worker}  {row[5]}")
        line.rstrip()
        yield line


def _note(task: Task) -> str:
    """Why it failed, that a correction took its item away, and that a person gave its params."""
    notes = ["gone"] if task.gone else []
    notes += ["params corrected"] if task.corrected else []
    if task.undo_error is not None:
        notes.append(f"not undone: {task.undo_error.code}: {task.undo_error.message}")
    elif task.error is not None and not task.gone:
        notes.append(f"{task.error.code}: {task.error.message}")
    return cut("; ".join(notes), MESSAGE_WIDTH)


def _cells(task: Task) -> tuple[str, str, str, str, str, str]:
    return (
        str(task.index) if task.index is not None else "-",
        task.status,
        str(task.attempt),
        elapsed(task.started_at, task.finished_at),
        cut(task.worker or "", 30),
        _note(task),
    )
