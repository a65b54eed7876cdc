"""The fleet in words: the processes that serve this database, the work that none serves, and what to start for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from rich.text import Text

from holdfast.cli.session import Target
from holdfast.cli.streams import harmless
from holdfast.cli.words import age, counted, duration, elapsed, short
from holdfast.define.registry import Registry, discover
from holdfast.views.fleet import Fleet, JobsWithoutOwner, Orchestrator, UnservedTasks, Worker


def orchestrator_text(one: Orchestrator) -> str:
    """`laptop:4711 (id 3) owns 2 jobs, the oldest 7938208f made 5 min ago; started 2 h ago, lease 8 s`"""
    owns = f"owns {counted(one.jobs, 'job')}"
    if one.oldest_job is not None:
        owns += f", the oldest {short(one.oldest_job)} made {age(one.oldest_created_at)}"
    return f"{one.name} (id {one.id}) {owns}; {_alive(one)}"


def worker_text(one: Worker) -> str:
    """`laptop:4711 serves every queue with 8 handlers, holds 2 tasks in 16 slots; started 2 h ago, lease 9 s`"""
    queues = ", ".join(one.queues) if one.queues is not None else "every queue"
    holds = f"holds {counted(one.tasks, 'task')} in {counted(one.concurrency, 'slot')}"
    return f"{one.name} serves {queues} with {counted(len(one.handlers), 'handler')}, {holds}; {_alive(one)}"


def _alive(one: Orchestrator | Worker) -> str:
    return f"started {age(one.started_at)}, lease {duration(one.lease_seconds)}"


def without_owner_text(one: JobsWithoutOwner) -> str:
    jobs = f"{counted(one.jobs, 'job')}, the oldest {short(one.oldest_job)}"
    if one.owner is None:
        return f"no orchestrator owns {jobs}, made {age(one.since)}"
    return f"{one.owner} (id {one.owner_id}) owned {jobs}, and ended {age(one.since)}"


def without_owner_remedy(fleet: Fleet, target: Target) -> str:
    if any(one.only_job is None for one in fleet.orchestrators):
        return "A running orchestrator takes such jobs within seconds."
    return f"Start one with: {target.command('orchestrator')}"


def unserved_text(one: UnservedTasks) -> str:
    return f"{counted(one.tasks, 'task')} for '{one.handler}' in the queue '{one.queue}': {_lacks(one)}"


def _lacks(one: UnservedTasks) -> str:
    why = (
        "no live worker has that handler"
        if one.cause == "no_worker_for_handler"
        else "no live worker serves that queue"
    )
    return f"{why}, the oldest waits for {elapsed(one.since, None)}"


def unserved_remedy(one: UnservedTasks, target: Target) -> str:
    return f"Start one with: {start('worker', [one.handler], target, queue=one.queue)}"


def start(service: str, handlers: Iterable[str], target: Target, *, queue: str | None = None) -> str:
    """The command that starts a service which can run these handlers."""
    text = service if queue is None else f"{service} --queue {queue}"
    if not_installed(handlers):
        text += " --handlers MODULE"
    return target.command(text)


def not_installed(handlers: Iterable[str]) -> list[str]:
    """The handlers that no installed package has: a module named by --handlers must bring them."""
    return [name for name in handlers if name not in _installed()]


@cache
def _installed() -> Registry:
    """What a service has without --handlers. A package that cannot be imported does not keep a job from being shown."""
    try:
        return discover()
    except Exception:
        return Registry()


def fleet_lines(fleet: Fleet, target: Target) -> Iterator[Text]:
    """A heading and a line for each; an empty part is left out."""
    yield from _part("Orchestrators", map(orchestrator_text, fleet.orchestrators))
    yield from _part("Workers", map(worker_text, fleet.workers))
    yield from _part("Jobs without an owner", map(without_owner_text, fleet.without_owner))
    if fleet.without_owner:
        yield Text(f"  → {without_owner_remedy(fleet, target)}")
    for number, one in enumerate(fleet.unserved):
        yield from _part("Tasks without a worker" if number == 0 else "", [unserved_text(one)])
        yield Text(harmless(f"  → {unserved_remedy(one, target)}"))


def _part(heading: str, lines: Iterable[str]) -> Iterator[Text]:
    for number, line in enumerate(lines):
        if number == 0 and heading:
            yield Text(heading, style="bold")
        yield Text(harmless(f"  {line}"))
