"""`holdfast prune`: delete finished jobs and everything that belongs to them, or show what would be deleted."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.table import Table

from holdfast.bootstrap import open_client
from holdfast.cli.asking import confirmed
from holdfast.cli.session import Target, begin, drive, has_database
from holdfast.cli.streams import answer, answer_json, asides, say, show
from holdfast.cli.words import counted, cut, day_and_clock, parse_duration, size
from holdfast.errors import ExitCode, Refused
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.upkeep import Pruned

PROGRESS_JOBS = 10_000
"""After how many jobs a line says how far it is."""


def prune_jobs(
    older_than: str, statuses: Sequence[str], *, dry_run: bool, yes: bool, as_json: bool, target: Target
) -> int:
    age_seconds = parse_duration(older_than, "--older-than")
    settings = begin(target, needs_database=True)
    if not has_database(settings):
        if as_json:
            answer_json(to_json(Pruned(dry_run)))
        else:
            answer("There is no database yet, so there is nothing to prune.")
        return ExitCode.DONE
    if not (yes or dry_run or sys.stdin.isatty()):
        raise Refused(
            "Nothing was pruned: there is no terminal to ask on.",
            remedy="See what would be deleted with --dry-run. Confirm with --yes.",
        )
    words = ["prune", "--older-than", older_than, *(word for one in statuses for word in ("--status", one)), "--yes"]
    again = target.command(" ".join(words))
    return drive(_prune(settings, age_seconds, statuses, again, dry_run=dry_run, yes=yes, as_json=as_json))


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
    async with open_client(settings) as client:
        if not dry_run and not yes:
            _confirm(await client.prune(age_seconds, statuses=statuses, dry_run=True))
        pruned = await client.prune(age_seconds, statuses=statuses, dry_run=dry_run, on_batch=_Progress())
    if as_json:
        answer_json(to_json(pruned))
    else:
        _show(pruned, again)
    return ExitCode.DONE


class _Progress:
    def __init__(self) -> None:
        self._next = PROGRESS_JOBS

    def __call__(self, jobs: int) -> None:
        if jobs >= self._next:
            say(f"{counted(jobs, 'job')} deleted …")
            self._next = jobs + PROGRESS_JOBS


def _confirm(pruned: Pruned) -> None:
    if not pruned.jobs:
        return
    asides().print(_table(pruned))
    if not confirmed(f"Delete {_amount(pruned)} for good?"):
        raise Refused("Not confirmed; nothing was pruned.")


def _show(pruned: Pruned, again: str) -> None:
    if pruned.jobs:
        show(_table(pruned))
    verb = "would be deleted" if pruned.dry_run else "deleted"
    answer(f"{_amount(pruned)} {verb}." if pruned.jobs else "There is nothing to prune: no finished job is that old.")
    left = pruned.oldest_left
    if left is None:
        answer("No finished job is left." if not pruned.dry_run else "No finished job would be left.")
    else:
        ended = day_and_clock(left.finished_at)
        answer(f"The oldest that is left: job {left.job_id} of {left.workflow_id}, finished {ended}.")
    if pruned.leftovers:
        jobs = counted(pruned.leftovers, "deleted job")
        say(f"  → The payloads of {jobs} are still there; the next prune removes them.")
    if pruned.dry_run and pruned.jobs:
        say(f"  → Nothing was deleted. Do it with: {again}")


def _amount(pruned: Pruned) -> str:
    """`2 jobs, 14 tasks and 1.2 MB of payloads`"""
    return f"{counted(pruned.jobs, 'job')}, {counted(pruned.tasks, 'task')} and {size(pruned.bytes)} of payloads"


def _table(pruned: Pruned) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("workflow", "status", "jobs", "tasks", "payloads", "oldest"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for one in pruned.pruned:
        numbers = (f"{one.jobs:,}", f"{one.tasks:,}", size(one.bytes))
        table.add_row(cut(one.workflow_id, 40), one.status, *numbers, day_and_clock(one.oldest))
    return table
