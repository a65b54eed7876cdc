"""`holdfast plan`, `resume`, `retry`, `clear`, `rerun`: what would run again, and having it run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer
from rich.table import Table

from holdfast.bootstrap import Services
from holdfast.cli.cancel import wait_for_answer
from holdfast.cli.ending import end_with
from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of
from holdfast.cli.problems import Interrupted
from holdfast.cli.run import follow_served, refuse_unknown_handlers
from holdfast.cli.session import begin, command, drive, has_database, open_database
from holdfast.cli.streams import answer, answer_json, harmless, say
from holdfast.cli.streams import show as show_table
from holdfast.cli.words import counted, cut, short
from holdfast.client import Client, JobPlan, words
from holdfast.core.recovering import Action
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JOB_TERMINAL
from holdfast.define.registry import Registry, discover
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader, no_such_job


class Answered(NamedTuple):
    """A verb that was sent, and the signal whose answer tells what came of it."""

    plan: JobPlan
    signal_id: int


def asked(
    verb: str,
    node: str | None = None,
    items: Sequence[int] = (),
    code: str | None = None,
    fingerprint: str | None = None,
    *,
    only: bool = False,
    plan_id: str | None = None,
    output: Any = None,
) -> Request:
    """A verb as it was typed; what it lacks is said at once."""
    if verb != Verb.RESUME and node is None:
        raise InvalidInput(f"Which node is to {verb}?", remedy=f"Name it: holdfast plan JOB {verb} NODE")
    if any(item < 0 for item in items):
        raise InvalidInput("Items count from 0.", remedy="See which failed with: holdfast status JOB")
    return Request(Verb(verb), node, tuple(items), code, fingerprint, only, plan_id, output)


def show_plan(job: str, request: Request, *, as_json: bool, database_url: str | None) -> int:
    settings = _known(job, database_url)

    async def work() -> int:
        async with open_database(settings) as store:
            plan = await Client(store).plan(await _job_id(store, job), request)
            _tell_plan(plan, as_json=as_json, database_url=database_url)
        return ExitCode.DONE

    return drive(work())


def recover_job(
    job: str,
    request: Request,
    *,
    show: bool,
    reason: str,
    handlers: Sequence[str],
    yes: bool,
    detach: bool,
    as_json: bool,
    database_url: str | None,
) -> int:
    if show:
        return show_plan(job, request, as_json=as_json, database_url=database_url)
    settings = _known(job, database_url)
    return drive(
        _recover(settings, job, request, handlers, reason, yes=yes, detach=detach, as_json=as_json, url=database_url)
    )


def _known(job: str, database_url: str | None) -> Settings:
    settings = begin(database_url)
    if not has_database(settings):
        raise no_such_job(job)
    return settings


async def _job_id(store: PostgresStore, job: str) -> str:
    return await Reader(store.connections, store.payloads).find_job(job)


async def _recover(
    settings: Settings,
    job: str,
    request: Request,
    handlers: Sequence[str],
    reason: str,
    *,
    yes: bool,
    detach: bool,
    as_json: bool,
    url: str | None,
) -> int:
    registry = discover(handlers)
    async with open_database(settings) as store:
        client, reader = Client(store), Reader(store.connections, store.payloads)
        job_id = await reader.find_job(job)
        if request.verb is Verb.RESUME and not detach:
            found = await reader.snapshot(job_id, whole=False)
            if found.job.status not in JOB_TERMINAL:
                await refuse_unknown_handlers(found.definition, registry, reader)
                say(f"Job {job_id} is {found.job.status}: driving it to its end from here.")
                return await _drive(store, settings, registry, job_id, None, handlers, as_json=as_json, url=url)
        plan = await client.plan(job_id, request)
        wanted = request.plan_id
        if wanted is not None and wanted != plan.plan_id:
            raise _moved(plan, url)
        if plan.asks and not yes:
            _confirm(plan)
            wanted = plan.plan_id
        is_alive = bool(await reader.orchestrators())
        if not is_alive and not detach:
            await refuse_unknown_handlers(
                (await reader.snapshot(plan.job_id, whole=False)).definition, registry, reader
            )
        signal_id = await client.recover(plan.job_id, plan.request._replace(plan_id=wanted), reason=reason)
        if not is_alive and not detach:
            say(f"No orchestrator is alive: driving the job from here; {counted(plan.plan.tasks, 'task')} to run.")
            answered = Answered(plan, signal_id)
            return await _drive(store, settings, registry, job_id, answered, handlers, as_json=as_json, url=url)
        told = await wait_for_answer(store, signal_id) if not detach else None
        _refuse_if_told(plan, told)
        _tell(plan, signal_id, told, as_json=as_json, url=url)
        if told is None and not is_alive:
            snapshot = await reader.snapshot(plan.job_id, whole=False)
            say(f"  → No orchestrator is alive. Start one with: {start('up', handlers_of(snapshot.definition), url)}")
    return ExitCode.DONE


def _moved(plan: JobPlan, url: str | None) -> Refused:
    asked = words(short(plan.job_id), plan.request._replace(plan_id=None))
    return Refused(
        f"Job {plan.job_id} was not changed: it has moved since the plan was made.",
        remedy=f"Look at the plan again: {command(f'{asked} --plan', url)}",
        instance=plan.job_id,
    )


def _confirm(plan: JobPlan) -> None:
    what = _what_asks(plan)
    if not sys.stdin.isatty():
        raise Refused(
            f"Job {plan.job_id} was not changed: {what}; there is nobody to ask.",
            remedy="See what would be done with --plan, and say that you mean it with: --yes",
            instance=plan.job_id,
        )
    show_table(_table(plan))
    if not typer.confirm(f"{what[0].upper()}{what[1:]}. Go on?", default=False, err=True):
        raise Refused(f"Job {plan.job_id} was not changed.", instance=plan.job_id)


def _what_asks(plan: JobPlan) -> str:
    """What a person has to mean."""
    if plan.request.verb is Verb.SKIP:
        return f"{plan.request.node} would be skipped"
    if plan.request.verb is Verb.SET:
        return f"the result of {plan.request.node} would be the one that you give"
    redone = [step for step in plan.plan.steps if step.confirm]
    tasks = counted(sum(step.items for step in redone), "task")
    return f"{tasks} of {', '.join(step.node for step in redone)} had completed and would run again"


async def _drive(
    store: PostgresStore,
    settings: Settings,
    registry: Registry,
    job_id: str,
    asked: Answered | None,
    handlers: Sequence[str],
    *,
    as_json: bool,
    url: str | None,
) -> int:
    """Work on the job here until it has ended, as `run` does; first the verb must be answered, if there is one."""
    reader = Reader(store.connections, store.payloads)
    finished = asyncio.Event()
    services = Services(
        store.connections.url, settings, registry=registry, pulse=True, on_finished=lambda ended: finished.set()
    )
    try:
        async with services:
            told = None
            while asked is not None and told is None:
                told = await wait_for_answer(store, asked.signal_id)
                _refuse_if_told(asked.plan, told)
            await follow_served(reader, job_id, services, finished, settings, as_json=as_json)
    except asyncio.CancelledError:
        again = command(f"resume {short(job_id)}", url)
        raise Interrupted(f"Interrupted. Job {job_id} stays as it is. Continue it with: {again}") from None
    return await end_with(reader, job_id, as_json=as_json, database_url=url, handlers=handlers)


def _refuse_if_told(plan: JobPlan, told: tuple[bool, str] | None) -> None:
    if told is not None and not told[0]:
        reason = told[1].replace("JOB", short(plan.job_id))
        raise Refused(f"Job {plan.job_id} was not changed by {plan.request.verb}: {reason}", instance=plan.job_id)


def _tell(plan: JobPlan, signal_id: int, told: tuple[bool, str] | None, *, as_json: bool, url: str | None) -> None:
    if as_json:
        result: dict[str, Any] = {
            "job_id": plan.job_id,
            "verb": str(plan.request.verb),
            "signal_id": signal_id,
            "answer": "applied" if told is not None else "pending",
            "tasks": plan.plan.tasks,
        }
        answer_json(result)
        return
    verb, work = plan.request.verb, counted(plan.plan.tasks, "task")
    if told is None:
        answer(f"The {verb} of job {plan.job_id} is recorded; its owner has not answered yet.")
    else:
        answer(f"Job {plan.job_id} goes on: {work} to run, {told[1]}.")
        say(f"  → {command(f'watch {short(plan.job_id)}', url)}")


def _tell_plan(plan: JobPlan, *, as_json: bool, database_url: str | None) -> None:
    if as_json:
        answer_json(plan.to_json())
        return
    show_table(_table(plan))
    answer(f"{counted(plan.plan.tasks, 'task')} would run. Plan {plan.plan_id}; nothing was changed.")
    say(f"  → Do exactly this with: {command(plan.command.replace(plan.job_id, short(plan.job_id)), database_url)}")


def _table(plan: JobPlan) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in ("node", "action"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    table.add_column("tasks", justify="right")
    table.add_column("why", overflow="fold")
    for step in plan.plan.steps:
        style = None if step.action is Action.KEEP else "yellow"
        redone = step.confirm and step.action is Action.RERUN
        note = f"{step.reason}; it had completed" if redone else step.reason
        tasks = f"{step.items:,}" if step.items else ""
        table.add_row(cut(harmless(step.node), 40), str(step.action), tasks, note, style=style)
    return table
