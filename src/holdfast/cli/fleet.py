"""The fleet in words: the processes that serve this database, the work that none serves, and what to start for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from rich.text import Text

from holdfast.cli.session import Target
from holdfast.cli.streams import harmless
from holdfast.cli.words import age, counted, duration, elapsed, short
from holdfast.define.definition import Definition
from holdfast.define.registry import Registry, discover
from holdfast.settings import load_settings
from holdfast.views.fleet import Fleet, JobsWithoutOwner, Orchestrator, UnservedTasks, Worker
from holdfast.worker.code_files import older_code

_NUMBER = re.compile(r"/[0-9]+$")
"""How the names of further orchestrators of one process end."""


def orchestrator_texts(fleet: Fleet) -> list[str]:
    """A line for each process, however many orchestrators it runs."""
    processes: dict[str, list[Orchestrator]] = {}
    for one in fleet.orchestrators:
        processes.setdefault(_NUMBER.sub("", one.name), []).append(one)
    return [_process_text(name, orchestrators) for name, orchestrators in processes.items()]


def _process_text(name: str, orchestrators: Sequence[Orchestrator]) -> str:
    """`laptop:4711 runs 2 orchestrators, owns 2 jobs, the oldest 7938208f made 5 min ago; started 2 h ago, lease …`"""
    owns = f"owns {counted(sum(one.jobs for one in orchestrators), 'job')}"
    owners = [one for one in orchestrators if one.oldest_created_at is not None]
    if owners:
        oldest = min(owners, key=lambda one: one.oldest_created_at or one.started_at)
        owns += f", the oldest {short(oldest.oldest_job or '')} made {age(oldest.oldest_created_at)}"
    runs = f"runs {len(orchestrators)} orchestrators," if len(orchestrators) > 1 else f"(id {orchestrators[0].id})"
    return f"{name} {runs} {owns}; {_alive(min(orchestrators, key=lambda one: one.lease_seconds))}"


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
    """The handlers that no installed package has: --handlers must name their module, unless the project does."""
    needed = [name for name in handlers if name not in _installed()]
    return [] if needed and load_settings().handlers else needed


@cache
def _installed() -> Registry:
    """What a service has without --handlers. A package that cannot be imported does not keep a job from being shown."""
    try:
        return discover()
    except Exception:
        return Registry()


def fleet_lines(fleet: Fleet, target: Target) -> Iterator[Text]:
    """A heading and a line for each; an empty part is left out."""
    yield from _part("Orchestrators", orchestrator_texts(fleet))
    yield from _part("Workers", map(worker_text, fleet.workers))
    for worker in fleet.workers:
        if worker.changed_files:
            yield Text(harmless(f"  → {older_code(worker.name, worker.changed_files)}"))
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


def handlers_of(definition: Definition) -> dict[str, list[str]]:
    """The handlers that a workflow needs, with the queues that their tasks go to."""
    needed: dict[str, list[str]] = {}
    for task in (task for node in definition.nodes for task in node.tasks):
        queues = needed.setdefault(task.handler, [])
        if task.queue not in queues:
            queues.append(task.queue)
    return needed
