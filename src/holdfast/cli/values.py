"""`output` and `params`: the output and the params of a node or of one of its items."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from holdfast.bootstrap import open_client
from holdfast.cli.destination import writing_to
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import json_text, say
from holdfast.cli.words import short, size
from holdfast.errors import ExitCode, Refused
from holdfast.views.data import DataValue
from holdfast.views.encoding import to_json
from holdfast.views.verbs import items_text

SHOWN_BYTES = 1024 * 1024
"""The largest value that is printed without `--to`."""

What = Literal["output", "params"]


def show_value(
    what: What, job: str, node: str, *, item: int | None, to: Path | None, as_json: bool, target: Target
) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            read = client.output if what == "output" else client.params
            data = await read(await find_job(client, job, settings), node, index=item)
        if not as_json and not data.has_value:
            raise _missing(what, data, target)
        text = json_text(to_json(data)) if as_json else json_text(data.value, indent=2)
        if to is None and not as_json:
            _refuse_large(what, data, len(text.encode()), target)
        with writing_to(to) as write:
            write(f"{text}\n")
        if not as_json:
            _say_items(what, data, target)
        return ExitCode.DONE if data.has_value else ExitCode.REFUSED

    return drive(work())


def _where(data: DataValue) -> str:
    return data.node if data.item is None else f"{data.node}[{data.item}]"


def _missing(what: What, data: DataValue, target: Target) -> Refused:
    """Why there is no value, and what to look at instead."""
    job = short(data.job_id)
    item = f" --item {data.item}" if data.item is not None else ""
    items = f" {items_text(data.node, data.items)}" if data.items is not None else ""
    one = f", or {target.command(f'{what} {job} {data.node} --item 0')}" if data.items else ""
    if data.items:
        command = f"results {job} {data.node}"
    elif data.status == "failed":
        command = f"logs {job} --node {data.node}{item}"
    elif data.status in ("running", "dispatched", "ready"):
        command = f"watch {job}"
    else:
        command = f"why {job}"
    return Refused(
        f"Job {data.job_id}: {_where(data)} {_reason(what, data)}{items}",
        remedy=f"See: {target.command(command)}{one}",
        instance=data.job_id,
    )


def _reason(what: What, data: DataValue) -> str:
    """`has no output yet: it is running.`, `failed, so it has no output.`"""
    match data.status:
        case "pending" if what == "params":
            return "has no params yet: they are made when it starts, and it has not started."
        case "pending":
            return f"has no {what} yet: it has not started."
        case "ready" | "dispatched":
            return f"has no {what} yet: it waits to run."
        case "running":
            return f"has no {what} yet: it is running."
        case "failed" if what == "params":
            return "failed before its params were made."
        case "failed":
            return f"failed, so it has no {what}."
        case "skipped" | "cancelled":
            return f"was {data.status}, so it has no {what}."
        case _:
            return f"is {data.status} and has no {what}."


def _refuse_large(what: What, data: DataValue, number: int, target: Target) -> None:
    if number <= SHOWN_BYTES:
        return
    item = f" --item {data.item}" if data.item is not None else ""
    again = target.command(f"{what} {short(data.job_id)} {data.node}{item} --to FILE")
    raise Refused(
        f"The {what} of {_where(data)} of job {data.job_id} is too large for a terminal: {size(number)}.",
        remedy=f"Write it to a file, or to a pipe with --to -: {again}",
        instance=data.job_id,
    )


def _say_items(what: What, data: DataValue, target: Target) -> None:
    """The value of a node with items leaves out what its items have."""
    if data.items is None:
        return
    job = short(data.job_id)
    say(items_text(data.node, data.items))
    if data.items:
        say(f"  → One of them: {target.command(f'{what} {job} {data.node} --item 0')}")
        say(f"  → All of them: {target.command(f'results {job} {data.node}')}")
