"""`holdfast schedules`: what starts by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.data_files import read_inputs
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say, show
from holdfast.cli.words import counted, cut, day_and_clock, duration, parse_duration, short, value
from holdfast.define.timing import check_timing
from holdfast.errors import ExitCode, InvalidInput
from holdfast.operations.schedules import check_name
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.schedules import Schedule, Triggered


class Wanted(NamedTuple):
    """What the flags say of a schedule."""

    workflow: str | None
    cron: str | None
    every: str | None
    time_zone: str
    assignments: Sequence[str]
    inputs_file: Path | None
    overlap: str
    catch_up: str
    replace: bool


def list_schedules(*, as_json: bool, target: Target) -> int:
    return drive(_list(begin(target), as_json=as_json, target=target))


async def _list(settings: Settings, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.schedules()
    if as_json:
        answer_json({"schedules": to_json(found)})
    elif found:
        _show_all(found)
    else:
        answer("There are no schedules.")
        say(f"  → Make one, for example: {target.command(_EXAMPLE)}")
    return ExitCode.DONE


def show_schedule(name: str | None, *, as_json: bool, target: Target) -> int:
    return drive(_show(begin(target), _named(name, "show", target), as_json=as_json, target=target))


async def _show(settings: Settings, name: str, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        found = await client.schedule(name)
    if as_json:
        answer_json(to_json(found))
    else:
        _show_one(found, target)
    return ExitCode.DONE


def add_schedule(name: str | None, wanted: Wanted, *, reason: str, as_json: bool, target: Target) -> int:
    known = check_name(_named(name, "add", target))
    if wanted.workflow is None:
        raise InvalidInput(
            "`schedules add` needs a workflow.", remedy=f"Name one that is registered: {target.command(_EXAMPLE)}"
        )
    seconds = int(parse_duration(wanted.every, "--every")) if wanted.every is not None else None
    if wanted.cron is None and seconds is None:
        raise InvalidInput("`schedules add` needs times.", remedy=f"Give --cron or --every: {target.command(_EXAMPLE)}")
    # Refused before a database is started for it.
    check_timing(wanted.cron, seconds, wanted.time_zone)
    work = _add(begin(target), known, wanted.workflow, wanted, seconds, reason, as_json=as_json, target=target)
    return drive(work)


async def _add(
    settings: Settings,
    name: str,
    workflow: str,
    wanted: Wanted,
    seconds: int | None,
    reason: str,
    *,
    as_json: bool,
    target: Target,
) -> int:
    async with open_client(settings) as client:
        definition = await client.definition(workflow)
        made = await client.add_schedule(
            name,
            workflow,
            cron=wanted.cron,
            every_seconds=seconds,
            time_zone=wanted.time_zone,
            inputs=read_inputs(definition, wanted.assignments, wanted.inputs_file),
            overlap=wanted.overlap,
            catch_up=wanted.catch_up,
            replace=wanted.replace,
            reason=reason,
        )
        is_served = await client.is_served()
    if as_json:
        answer_json(to_json(made))
        return ExitCode.DONE
    answer(f"Schedule {made.name} runs {made.workflow_id} {times(made)}.")
    show_next(made)
    if not is_served:
        say("No orchestrator runs: nothing starts before one does.")
        say(f"  → {target.command('up')}")
    return ExitCode.DONE


def change_schedule(verb: str, name: str | None, *, reason: str, as_json: bool, target: Target) -> int:
    return drive(_change(begin(target), verb, _named(name, verb, target), reason, as_json=as_json, target=target))


async def _change(settings: Settings, verb: str, name: str, reason: str, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        if verb == "trigger":
            triggered = await client.trigger_schedule(name, reason=reason)
            _say_triggered(triggered, as_json=as_json, target=target)
            return ExitCode.DONE
        change = {
            "pause": client.pause_schedule,
            "unpause": client.unpause_schedule,
            "remove": client.remove_schedule,
        }[verb]
        changed = await change(name, reason=reason)
    if as_json:
        answer_json({"verb": verb, "schedule": to_json(changed)})
        return ExitCode.DONE
    match verb:
        case "pause":
            answer(f"Schedule {name} is paused. Ticks of that time are not caught up.")
            say(f"  → {target.command(f'schedules unpause {name}')}")
        case "unpause":
            answer(f"Schedule {name} ticks again.")
            show_next(changed)
        case _:
            answer(f"Schedule {name} is removed. Its jobs stay.")
    return ExitCode.DONE


def _say_triggered(triggered: Triggered, *, as_json: bool, target: Target) -> None:
    if as_json:
        answer_json(to_json(triggered))
    elif triggered.job_id is not None:
        answer(f"Schedule {triggered.schedule} has made job {triggered.job_id}.")
        say(f"  → {target.command(f'watch {short(triggered.job_id)}')}")
    elif triggered.answer == "replaces":
        answer(f"Schedule {triggered.schedule} cancels the job that runs; its next one begins when that has ended.")
    else:
        answer(f"A tick of schedule {triggered.schedule} waits for the end of the job before it.")


def times(one: Schedule) -> str:
    """`at '0 2 * * *' in Africa/Kigali`, `every 15 min`"""
    if one.every_seconds is not None:
        return f"every {duration(one.every_seconds)}"
    return f"at '{one.cron}' in {one.time_zone}"


def _show_all(schedules: Sequence[Schedule]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("schedule", "workflow", "runs", "next", "last", "now"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in schedules:
        coming = _at(one.next_runs[0], one) if one.next_runs else ""
        runs = one.cron if one.cron is not None else times(one)
        answered = (one.last_answer or "").replace("_", " ")
        table.add_row(cut(one.name, 40), cut(one.workflow_id, 40), runs, coming, answered, _state(one))
    show(table)


def _last(one: Schedule) -> str:
    if one.last_tick is None:
        return ""
    return f"{(one.last_answer or '').replace('_', ' ')} {_at(one.last_tick, one)}"


def _state(one: Schedule) -> str:
    if one.paused is not None:
        return "paused"
    if one.problem is not None:
        return "needs you"
    if one.waiting:
        return f"{len(one.waiting)} waiting"
    return one.last_job_status or ""


def _show_one(one: Schedule, target: Target) -> None:
    answer(f"Schedule {one.name} runs {one.workflow_id} {times(one)}.")
    if one.inputs:
        answer(f"Inputs    {value(one.inputs, 200)}")
    answer(f"Overlap   {one.overlap}; catch-up {one.catch_up}")
    if one.source != "person":
        answer(f"Kept by   {'the file of its workflow' if one.source == 'file' else 'a file that no longer has it'}")
    if one.paused is not None:
        why = f": {one.paused.reason}" if one.paused.reason else ""
        answer(f"Paused    by {one.paused.by} since {day_and_clock(one.paused.since)}{why}")
    if one.last_tick is not None:
        answer(f"Last      {_last(one)}")
    if one.last_job is not None:
        answer(f"Job       {one.last_job} {one.last_job_status or 'was pruned'}")
    if one.waiting:
        answer(f"Waiting   {counted(len(one.waiting), 'tick')}, the first of {_at(one.waiting[0], one)}")
    if one.problem is not None:
        answer(f"Problem   {one.problem}")
    show_next(one)
    if one.paused is not None:
        say(f"  → {target.command(f'schedules unpause {one.name}')}")


def show_next(one: Schedule) -> None:
    for number, run in enumerate(one.next_runs):
        answer(f"{'' if number else 'Next':<9} {_at(run, one)}")


def _at(moment: datetime, one: Schedule) -> str:
    """The time in the time zone of the schedule."""
    try:
        zone = ZoneInfo(one.time_zone)
    except (LookupError, OSError):
        return day_and_clock(moment)
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def _named(name: str | None, verb: str, target: Target) -> str:
    if name is None:
        raise InvalidInput(
            f"`schedules {verb}` needs the name of a schedule.", remedy=f"List them with: {target.command('schedules')}"
        )
    return name


_EXAMPLE = "schedules add night WORKFLOW --cron '0 2 * * *'"
