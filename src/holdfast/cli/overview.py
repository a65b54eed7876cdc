"""`workflows`, `queues` and `stats`: what the tenant has, what waits, and how many jobs ended. Changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from holdfast.bootstrap import open_client
from holdfast.cli.fleet import unserved_remedy, unserved_text
from holdfast.cli.pausing import pause_sentence, unpause_command
from holdfast.cli.session import Target, begin, drive, has_database, where
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import aligned, counted, day_and_clock, elapsed
from holdfast.client import Client
from holdfast.errors import ExitCode
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.jobs import Statistics
from holdfast.views.overview import Hour, QueueState, WorkflowSummary

Answer = TypeVar("Answer")


def show_workflows(*, as_json: bool, target: Target) -> int:
    def show(workflows: list[WorkflowSummary], settings: Settings) -> None:
        if as_json:
            answer_json({"workflows": to_json(workflows)})
        elif not workflows:
            answer(f"There are no workflows yet{where(settings)}.")
            say(f"  → Register one: {target.command('register workflow.yaml')}")
        else:
            rows = [["workflow", "version", "registered", "jobs"], *map(_workflow_cells, workflows)]
            _print_lines(aligned(rows))
            say(f"  → Jobs of one: {target.command('status --workflow ID')}")

    return _look(lambda client: client.workflows(), [], show, target)


def _workflow_cells(one: WorkflowSummary) -> list[str]:
    jobs = ", ".join(f"{number:,} {status}" for status, number in one.jobs.items() if number)
    return [one.workflow_id, one.version, day_and_clock(one.registered_at), jobs or "none"]


def show_queues(*, as_json: bool, target: Target) -> int:
    def show(queues: list[QueueState], settings: Settings) -> None:
        if as_json:
            answer_json({"queues": to_json(queues)})
        elif not queues:
            answer(f"No task waits or runs{where(settings)}.")
        else:
            head = ["queue", "queued", "held", "running", "oldest", "workers"]
            _print_lines(aligned([head, *map(_queue_cells, queues)]))
            for queue, pause in ((one.queue, one.paused) for one in queues if one.paused is not None):
                say(f"{pause_sentence(queue, pause)}.")
                say(f"  → {unpause_command(queue, target)}")
            for one in (one for queue in queues for one in queue.unserved):
                say(f"{unserved_text(one)}.")
                say(f"  → {unserved_remedy(one, target)}")

    return _look(lambda client: client.queues(), [], show, target)


def _queue_cells(one: QueueState) -> list[str]:
    waits = elapsed(one.since, None) if one.since is not None else ""
    numbers = [f"{number:,}" for number in (one.queued, one.held, one.running)]
    return [one.queue, *numbers, waits, ", ".join(one.workers) or "none"]


def show_statistics(*, as_json: bool, target: Target) -> int:
    async def read(client: Client) -> tuple[Statistics, list[Hour]]:
        return await client.statistics(), await client.hours()

    def show(numbers: tuple[Statistics, list[Hour]], settings: Settings) -> None:
        statistics, hours = numbers
        if as_json:
            answer_json(to_json(statistics) | {"hours": to_json(hours)})
        elif not any(statistics.jobs.values()):
            answer(f"There are no jobs yet{where(settings)}.")
        else:
            _print_lines(_statistics_lines(statistics, hours))
            unseen = sum(hour.unacknowledged for hour in hours)
            if unseen:
                are = "is" if unseen == 1 else "are"
                say(f"{counted(unseen, 'failed or partial job')} of these hours {are} not acknowledged.")
                say(f"  → {target.command('status --unacknowledged')}")

    return _look(read, (Statistics({}, {}, 0, 0), []), show, target)


def _statistics_lines(statistics: Statistics, hours: Sequence[Hour]) -> Iterator[str]:
    jobs = ", ".join(f"{number:,} {status}" for status, number in statistics.jobs.items() if number)
    yield f"Jobs   {jobs}"
    yield f"Tasks  {statistics.queued:,} queued, {statistics.running:,} running"
    if not any(hour.ended for hour in hours):
        yield f"No job ended in the last {len(hours)} hours."
        return
    yield ""
    kinds = ("completed", "partial", "failed", "cancelled")
    rows = [["hour", "ended", *kinds]]
    for hour in hours:
        if hour.ended:
            counts = [f"{getattr(hour, kind):,}" for kind in kinds]
            rows.append([f"{hour.start.astimezone():%Y-%m-%d %H:%M}", f"{hour.ended:,}", *counts])
    totals = [f"{sum(getattr(hour, kind) for hour in hours):,}" for kind in kinds]
    rows.append([f"{len(hours)} hours", f"{sum(hour.ended for hour in hours):,}", *totals])
    yield from aligned(rows)


def _look(
    read: Callable[[Client], Awaitable[Answer]],
    nothing: Any,
    show: Callable[[Answer, Settings], None],
    target: Target,
) -> int:
    """Show what the client reads; without a database, show nothing."""
    settings = begin(target)

    async def work() -> int:
        found: Answer = nothing
        if has_database(settings):
            async with open_client(settings) as client:
                found = await read(client)
        show(found, settings)
        return ExitCode.DONE

    return drive(work())


def _print_lines(lines: Iterator[str] | Sequence[str]) -> None:
    for line in lines:
        answer(line)
