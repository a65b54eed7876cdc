"""`definition`: what a generation of a job follows, and what a correction changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer, answer_json, json_text, say
from holdfast.cli.words import aligned, cut, day_and_clock, short, value
from holdfast.define.definition import UNREADABLE_REMEDY
from holdfast.errors import ExitCode
from holdfast.views.definitions import Corrected, DefinitionChanges, InputChange, JobDefinition
from holdfast.views.encoding import to_json

VALUE_WIDTH = 60
"""How much of an input is shown on one side of a change."""
INPUT_WIDTH = 200


def show_definition(job: str, *, generation: int | None, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            shown = await client.job_definition(await find_job(client, job, settings), generation=generation)
        if as_json:
            answer_json(to_json(shown))
            return ExitCode.DONE
        for line in _lines(shown, has_list=generation is None):
            answer(line)
        if shown.unreadable is not None:
            say(shown.unreadable)
            say(f"  → {UNREADABLE_REMEDY}")
        if generation is None and shown.corrections:
            last = shown.corrections[-1].generation
            words = f"definition {short(shown.job_id)} --generation {last}"
            say(f"  → What changed at one of them: {target.command(words)}")
        return ExitCode.DONE

    return drive(work())


def _lines(shown: JobDefinition, *, has_list: bool) -> Iterator[str]:
    present = " (present)" if shown.generation == shown.present else ""
    since = f", as since generation {shown.since}" if shown.since != shown.generation else ""
    yield from aligned(
        [
            ["Job", shown.job_id],
            ["Workflow", f"{shown.workflow_id}, version {shown.version}"],
            ["Hash", shown.definition_hash],
            ["Generation", f"{shown.generation}{present}{since}"],
        ]
    )
    if has_list and shown.corrections:
        yield from ("", "Corrections")
        yield from (f"  {line}" for line in aligned([_cells(one) for one in shown.corrections]))
    if shown.changes is not None:
        (made,) = (one for one in shown.corrections if one.generation == shown.generation)
        yield from ("", f"Changed {_circumstances(made)}")
        yield from (f"  {line}" for line in _change_lines(shown.changes))
    yield from ("", "Inputs" if shown.inputs else "No inputs")
    yield from (f"  {name}: {value(one, INPUT_WIDTH)}" for name, one in shown.inputs.items())
    yield from ("", "Definition")
    text = shown.text if shown.text is not None else json_text(shown.definition, indent=2)
    yield from (f"  {line}" for line in text.splitlines())


def _cells(one: Corrected) -> list[str]:
    return [f"generation {one.generation}", _circumstances(one), cut("; ".join(one.changes), INPUT_WIDTH)]


def _circumstances(one: Corrected) -> str:
    """`2026-11-18 10:41:03 by ann@laptop: the limit was wrong`"""
    by = f" by {one.by}" if one.by is not None else ""
    because = f": {cut(one.reason, INPUT_WIDTH)}" if one.reason else ""
    return f"{day_and_clock(one.at)}{by}{because}"


def _change_lines(changes: DefinitionChanges) -> Iterator[str]:
    yield from map(_input_line, changes.inputs)
    yield from changes.workflow
    if changes.lines and not changes.workflow:
        yield "nothing that the workflow does"
    yield from (f"  {line}" for line in changes.lines)


def _input_line(one: InputChange) -> str:
    """`inputs.limit: 3 → 10`"""
    before = "none" if one.change == "new" else _side(one.before)
    after = "gone" if one.change == "gone" else _side(one.after)
    return f"inputs.{one.name}: {before} → {after}"


def _side(data: Any) -> str:
    """As JSON, so that the text "3" differs from the number 3."""
    return cut(json.dumps(data, ensure_ascii=False), VALUE_WIDTH)
