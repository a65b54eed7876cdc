"""`holdfast prune`: delete finished jobs and all that belongs to them, or show what would go."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.table import Table

from holdfast.cli.session import begin, command, drive, has_database, open_database
from holdfast.cli.streams import answer, answer_json, asides, say, show
from holdfast.cli.words import counted, cut, day_and_clock, parse_duration, size
from holdfast.errors import ExitCode, Refused
from holdfast.moments import moment
from holdfast.settings import Settings
from holdfast.store.pruning import EVERY_STATUS, OldestLeft, Pruned, Pruning
from holdfast.views.upkeep import pruned_json

TOLD_JOBS = 10_000
"""After how many jobs who waits hears that it goes on."""


def prune_jobs(
    older_than: str, statuses: Sequence[str], *, dry_run: bool, yes: bool, as_json: bool, database_url: str | None
) -> int:
    age_seconds = parse_duration(older_than, "--older-than")
    settings = begin(database_url)
    if not has_database(settings):
        return _nothing(dry_run=dry_run, as_json=as_json)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise Refused(
            "Nothing was pruned: there is no terminal to ask on.",
            remedy="See what would go with: --dry-run. Say that you mean it with: --yes",
        )
    words = ["prune", "--older-than", older_than, *(word for one in statuses for word in ("--status", one))]
    wanted = tuple(dict.fromkeys(statuses)) or EVERY_STATUS
    again = command(" ".join([*words, "--yes"]), database_url)
    return drive(_prune(settings, age_seconds, wanted, again, dry_run=dry_run, yes=yes, as_json=as_json))


def _nothing(*, dry_run: bool, as_json: bool) -> int:
    if as_json:
        answer_json(pruned_json([], None, 0, dry_run=dry_run))
    else:
        answer("There is no database yet, and so nothing to prune.")
    return ExitCode.DONE


async def _prune(
    settings: Settings,
    age_seconds: float,
    statuses: Sequence[str],
    again: str,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    async with open_database(settings) as store:
        pruning = Pruning(store)
        if dry_run:
            pruned = await pruning.find(age_seconds, statuses)
        else:
            if not yes:
                _confirm(await pruning.find(age_seconds, statuses))
            pruned = await pruning.prune(age_seconds, statuses, on_batch=_Progress())
        left, leftovers = await pruning.oldest_left(age_seconds, statuses), await pruning.leftovers()
    if as_json:
        answer_json(pruned_json(pruned, left, leftovers, dry_run=dry_run))
    else:
        _tell(pruned, left, leftovers, again, dry_run=dry_run)
    return ExitCode.DONE


class _Progress:
    def __init__(self) -> None:
        self._next = TOLD_JOBS

    def __call__(self, jobs: int) -> None:
        if jobs >= self._next:
            say(f"{counted(jobs, 'job')} deleted …")
            self._next = jobs + TOLD_JOBS


def _confirm(pruned: Sequence[Pruned]) -> None:
    if not pruned:
        return
    asides().print(_table(pruned))
    if not typer.confirm(f"Delete {_amount(pruned)} for good?", default=False, err=True):
        raise Refused("Nothing was pruned.")


def _tell(pruned: Sequence[Pruned], left: OldestLeft | None, leftovers: int, again: str, *, dry_run: bool) -> None:
    if pruned:
        show(_table(pruned))
    verb = "may go" if dry_run else "deleted"
    answer(f"{_amount(pruned)} {verb}." if pruned else "There is nothing to prune: no finished job is that old.")
    if left is None:
        answer("No finished job is left." if not dry_run else "No finished job would be left.")
    else:
        ended = day_and_clock(moment(left.finished_at))
        answer(f"The oldest that is left: job {left.job_id} of {left.workflow_id}, finished {ended}.")
    if leftovers:
        say(f"  → The payloads of {counted(leftovers, 'deleted job')} are still there; the next prune removes them.")
    if dry_run and pruned:
        say(f"  → Nothing was deleted. Do it with: {again}")


def _amount(pruned: Sequence[Pruned]) -> str:
    """`2 jobs, 14 tasks and 1.2 MB of payloads`"""
    jobs, tasks, stored = (sum(numbers) for numbers in zip(*(one[2:5] for one in pruned), strict=True))
    return f"{counted(jobs, 'job')}, {counted(tasks, 'task')} and {size(stored)} of payloads"


def _table(pruned: Sequence[Pruned]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("workflow", "status", "jobs", "tasks", "payloads", "oldest"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in pruned:
        numbers = (f"{one.jobs:,}", f"{one.tasks:,}", size(one.bytes))
        table.add_row(cut(one.workflow_id, 40), one.status, *numbers, day_and_clock(moment(one.oldest)))
    return table
