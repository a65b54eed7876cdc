"""`results`: the outputs of all tasks of a node, at any size. One page of them is in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

from holdfast.bootstrap import open_client
from holdfast.cli.destination import writing_to
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import json_text, say
from holdfast.cli.words import counted, short
from holdfast.client import Client
from holdfast.errors import ExitCode, InvalidInput
from holdfast.views.data import TaskResult
from holdfast.views.encoding import to_json

Format = Literal["json", "jsonl", "csv"]
COLUMNS = ("job_id", "node", "item", "status", "attempts", "code", "output")


def chosen_format(text: str | None, *, as_json: bool) -> Format:
    """The format of the flags: `--json` is `--format json`."""
    if as_json and text not in (None, "json"):
        raise InvalidInput(f"--json and --format {text} exclude each other.", remedy="Leave one of them out.")
    match "json" if as_json else text or "jsonl":
        case "json":
            return "json"
        case "jsonl":
            return "jsonl"
        case "csv":
            return "csv"
        case other:
            raise InvalidInput(f"--format: '{other}' is not a format.", remedy="Use one of: json, jsonl, csv")


def show_results(job: str, node: str, *, status: str | None, format: Format, to: Path | None, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            with writing_to(to) as write:
                number = await _write(client.results(job_id, node, status=status), format, write)
                write.contents = counted(number, "result")
            await _say_what_is_missing(client, job_id, node, number, status, target)
        return ExitCode.DONE

    return drive(work())


async def _write(results: AsyncIterator[TaskResult], format: Format, write: Callable[[str], None]) -> int:
    """Write one result after the other; returns how many there were."""
    number = 0
    async for result in results:
        match format:
            case "json":
                write(("[\n" if number == 0 else ",\n") + json_text(to_json(result)))
            case "jsonl":
                write(json_text(to_json(result)) + "\n")
            case "csv":
                write((_csv_line(COLUMNS) if number == 0 else "") + _csv_line(_cells(result)))
        number += 1
    if format == "json":
        write("\n]\n" if number else "[]\n")
    elif format == "csv" and not number:
        write(_csv_line(COLUMNS))
    return number


def _cells(result: TaskResult) -> tuple[object, ...]:
    """A task without an output has an empty cell; one that returned nothing has `null`."""
    output = json_text(result.output) if result.status == "completed" else None
    return result.job_id, result.node, result.item, result.status, result.attempts, result.code, output


def _csv_line(cells: tuple[object, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


async def _say_what_is_missing(
    client: Client, job_id: str, node: str, number: int, status: str | None, target: Target
) -> None:
    """Say why there are no results, that items have no tasks yet, or that more results may follow."""
    if status is not None and not number:
        say(f"No task of {node} has the status {status}.")
    state = (await client.job(job_id, whole=False)).node(node)
    if state is None:
        return
    if status is not None:
        if state.finished_at is None:
            say(f"{state.node} has not ended: it is {state.status}. More of its tasks may become {status}.")
    elif not number and state.status == "completed" and not state.width:
        say(f"{state.node} has no tasks. Its output: {target.command(f'output {short(job_id)} {state.node}')}")
    elif not number:
        say(f"{state.node} has no tasks{' yet' if state.finished_at is None else ''}: it is {state.status}.")
    elif number < state.width:
        say(f"{number:,} of {state.width:,} items have tasks so far; {state.node} is {state.status}.")
