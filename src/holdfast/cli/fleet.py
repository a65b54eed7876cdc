"""The fleet in words: who serves this database since when, what nobody takes care of, and what to start for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from rich.text import Text

from holdfast.cli.session import command
from holdfast.cli.streams import harmless
from holdfast.cli.words import age, counted, duration, elapsed, short
from holdfast.define.registry import Registry, discover
from holdfast.moments import moment
from holdfast.store.fleet import Fleet, JobsWithoutOwner, OrchestratorView, UnservedTasks, WorkerView


def orchestrator_text(one: OrchestratorView) -> str:
    """`laptop:4711 (id 3) owns 2 jobs, the oldest 7938208f made 5 min ago; started 2 h ago, lease 8 s`"""
    owns = f"owns {counted(one.jobs, 'job')}"
    if one.oldest_job is not None:
        owns += f", the oldest {short(one.oldest_job)} made {age(moment(one.oldest_created_at))}"
    return f"{one.name} (id {one.orchestrator_id}) {owns}; {_alive(one)}"


def worker_text(one: WorkerView) -> str:
    """`laptop:4711 serves every queue with 8 handlers, holds 2 tasks in 16 slots; started 2 h ago, lease 9 s`"""
    queues = ", ".join(one.queues) if one.queues is not None else "every queue"
    holds = f"holds {counted(one.tasks, 'task')} in {counted(one.concurrency, 'slot')}"
    return f"{one.name} serves {queues} with {counted(len(one.handlers), 'handler')}, {holds}; {_alive(one)}"


def _alive(one: OrchestratorView | WorkerView) -> str:
    return f"started {age(moment(one.started_at))}, lease {duration(one.lease_seconds)}"


def without_owner_text(one: JobsWithoutOwner) -> str:
    jobs = f"{counted(one.jobs, 'job')}, the oldest {short(one.oldest_job)}"
    if one.owner is None:
        return f"nobody owns {jobs}, made {age(moment(one.since))}"
    return f"{one.owner} (id {one.owner_id}) owned {jobs}, and went {age(moment(one.since))}"


def without_owner_remedy(fleet: Fleet, database_url: str | None) -> str:
    if any(one.only_job is None for one in fleet.orchestrators):
        return "An orchestrator is alive and takes such jobs within seconds."
    return f"Start one with: {command('orchestrator', database_url)}"


def unserved_text(one: UnservedTasks) -> str:
    return f"{counted(one.tasks, 'task')} for '{one.handler}' in the queue '{one.queue}': {_lacks(one)}"


def _lacks(one: UnservedTasks) -> str:
    why = "no live worker has that handler" if one.queue_is_served else "no live worker serves that queue"
    return f"{why}, the oldest waits for {elapsed(moment(one.since), None)}"


def unserved_remedy(one: UnservedTasks, database_url: str | None) -> str:
    return f"Start one with: {start('worker', [one.handler], database_url, queue=one.queue)}"


def start(service: str, handlers: Iterable[str], database_url: str | None, *, queue: str | None = None) -> str:
    """The command that starts a service which can run these handlers."""
    text = service if queue is None else f"{service} --queue {queue}"
    if not_installed(handlers):
        text += " --handlers MODULE"
    return command(text, database_url)


def not_installed(handlers: Iterable[str]) -> list[str]:
    """Those that only a module named by --handlers can have."""
    return [name for name in handlers if name not in _installed()]


@cache
def _installed() -> Registry:
    """What a service has without --handlers. A package that cannot be imported is no reason not to show a job."""
    try:
        return discover()
    except Exception:
        return Registry()


def fleet_lines(fleet: Fleet, database_url: str | None) -> Iterator[Text]:
    """A heading and a line for each; nothing where there is nothing to tell."""
    yield from _part("Orchestrators", map(orchestrator_text, fleet.orchestrators))
    yield from _part("Workers", map(worker_text, fleet.workers))
    yield from _part("Jobs without an owner", map(without_owner_text, fleet.without_owner))
    if fleet.without_owner:
        yield Text(f"  → {without_owner_remedy(fleet, database_url)}")
    for number, one in enumerate(fleet.unserved):
        yield from _part("Tasks without a worker" if number == 0 else "", [unserved_text(one)])
        yield Text(harmless(f"  → {unserved_remedy(one, database_url)}"))


def _part(heading: str, lines: Iterable[str]) -> Iterator[Text]:
    for number, line in enumerate(lines):
        if number == 0 and heading:
            yield Text(heading, style="bold")
        yield Text(harmless(f"  {line}"))
