"""`holdfast plan`, `resume`, `retry`, `clear`, `rerun`: what would run again, and having it run."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer

from holdfast.bootstrap import Services
from holdfast.cli.ending import end_with, naming
from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of, read_data
from holdfast.cli.planning import declined, moved, plan_table, tell_plan
from holdfast.cli.problems import Interrupted
from holdfast.cli.run import follow_served, refuse_unknown_handlers
from holdfast.cli.session import begin_on, client_of, command, drive, open_database, reader_of
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.streams import show as show_table
from holdfast.cli.words import counted, short
from holdfast.client import Client
from holdfast.core.plans import BY_HAND, Refusal
from holdfast.core.signals import Request, Verb
from holdfast.core.states import JOB_TERMINAL
from holdfast.define.node import NodeType
from holdfast.define.registry import Registry, discover
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.settings import Settings
from holdfast.store.interface import SignalAnswer
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader
from holdfast.views.plans import JobPlan, items_text, refused

_NUMBER = re.compile(r"-?[0-9]{1,18}")
SEE_STATUS = "See how it is now: holdfast status JOB"


class Answered(NamedTuple):
    """A verb that was sent, and the signal whose answer tells what came of it."""

    plan: JobPlan
    signal_id: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A verb as it was typed. Items are numbers only if the node says so: whoever errs is told how many it has."""

    request: Request
    items: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """What the request does not tell: where an output lies."""


def asked(
    verb: str,
    node: str | None = None,
    items: Sequence[str] = (),
    code: str | None = None,
    fingerprint: str | None = None,
    *,
    only: bool = False,
    plan_id: str | None = None,
    output: Path | None = None,
) -> Asked:
    """What was typed, understood as far as that goes without the job; what it lacks is said at once."""
    known = Verb(verb)
    if known is Verb.RESUME:
        refuse_parts(verb, node, items, code, fingerprint, only=only)
    elif node is None:
        name = "--from NODE" if known is Verb.RERUN else "NODE"
        raise InvalidInput(f"Which node is to {verb}?", remedy=f"Name it: holdfast plan JOB {verb} {name}")
    if known is not Verb.CLEAR and (items or code or fingerprint):
        raise InvalidInput(
            f"{verb} takes the node whole: --item, --code and --fingerprint are not for it.",
            remedy="Have some of its tasks run again with: holdfast clear JOB NODE --item N",
        )
    if known in BY_HAND and only:
        raise InvalidInput(f"--only is not for {verb}.", remedy="What follows the node is decided anew; leave it out.")
    if (known is Verb.SET) != (output is not None):
        what = "What is the result to be?" if output is None else f"--output is not for {verb}."
        raise InvalidInput(what, remedy="Give a node's result with: holdfast set JOB NODE --output FILE")
    given = read_data(output, "output file") if output is not None else None
    request = Request(known, node, (), code, fingerprint, only, plan_id, given)
    return Asked(request, tuple(items), () if output is None else (f"--output {shlex.quote(str(output))}",))


def refuse_parts(
    verb: str, node: str | None, items: Sequence[str], code: str | None, fingerprint: str | None, *, only: bool
) -> None:
    """Some verbs are about the whole job."""
    if node is not None or items or code or fingerprint or only:
        raise InvalidInput(
            f"{verb} is about the whole job: it takes no node and nothing that chooses tasks.",
            remedy="Have a part of it run again with: holdfast clear JOB NODE, or holdfast rerun JOB --from NODE",
        )


def show_plan(job: str, typed: Asked, *, handlers: Sequence[str], as_json: bool, database_url: str | None) -> int:
    settings = begin_on(job, database_url)

    async def work() -> int:
        async with open_database(settings) as store:
            reader = reader_of(store, settings)
            plan = await _plan(client_of(store, settings), reader, await reader.find_job(job), typed)
            await tell_plan(reader, plan, flags=typed.flags, handlers=handlers, as_json=as_json, url=database_url)
        return ExitCode.DONE

    return drive(work())


def recover_job(
    job: str,
    typed: Asked,
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
        return show_plan(job, typed, handlers=handlers, as_json=as_json, database_url=database_url)
    settings = begin_on(job, database_url)
    return drive(
        _recover(settings, job, typed, handlers, reason, yes=yes, detach=detach, as_json=as_json, url=database_url)
    )


async def _plan(client: Client, reader: Reader, job_id: str, typed: Asked) -> JobPlan:
    wrong = next((text for text in typed.items if not _NUMBER.fullmatch(text)), None)
    if wrong is not None:
        # What else is wrong is said first: that there is no such node, or that it was never reached.
        await client.plan(job_id, typed.request)
        raise await _not_a_number(reader, job_id, typed.request.node or "", wrong)
    return await client.plan(job_id, typed.request._replace(items=tuple(map(int, typed.items))))


async def _not_a_number(reader: Reader, job_id: str, node: str, text: str) -> InvalidInput:
    snapshot = await reader.snapshot(job_id, whole=False)
    name = next((n for n in snapshot.nodes if n == node or str(snapshot.graph.stage_number(n)) == node), node)
    is_fan_out = any(n.name == name and n.type is NodeType.FAN_OUT for n in snapshot.definition.nodes)
    has = items_text(name, snapshot.nodes[name].width if is_fan_out else 0)
    return InvalidInput(
        f"'{text}' is not the number of an item. {has}", remedy="Give one number: --item 0", instance=job_id
    )


async def _recover(
    settings: Settings,
    job: str,
    typed: Asked,
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
        client, reader = client_of(store, settings), reader_of(store, settings)
        job_id = await reader.find_job(job)
        if typed.request.verb is Verb.RESUME and typed.request.plan_id is None and not detach:
            found = await reader.snapshot(job_id, whole=False)
            # What somebody drives goes on by itself: its plan is refused.
            if found.job.status not in JOB_TERMINAL and not await reader.orchestrators(job_id):
                await refuse_unknown_handlers(found.definition, registry, reader)
                say(f"Job {job_id} is {found.job.status}: driving it to its end from here.")
                return await _drive(store, settings, registry, job_id, None, handlers, as_json=as_json, url=url)
        plan = await _plan(client, reader, job_id, typed)
        wanted = typed.request.plan_id
        if wanted is not None and wanted != plan.plan_id:
            raise moved(plan, url, *typed.flags)
        if plan.asks and not yes:
            _confirm(plan)
            wanted = plan.plan_id
        is_alive = bool(await reader.orchestrators(job_id))
        if not is_alive and not detach:
            await refuse_unknown_handlers(
                (await reader.snapshot(plan.job_id, whole=False)).definition, registry, reader
            )
        signal_id = await client.recover(plan.job_id, plan.request._replace(plan_id=wanted), reason=reason)
        told = None
        if not detach and (is_alive or await reader.orchestrators(job_id)):
            told = await client.answer(signal_id)
        if told is None and not detach and not await reader.orchestrators(job_id):
            # No orchestrator was alive, or it ended without an answer.
            say(f"No orchestrator is alive: driving the job from here; {plan.work} to run.")
            answered = Answered(plan, signal_id)
            return await _drive(store, settings, registry, job_id, answered, handlers, as_json=as_json, url=url)
        _refuse_if_told(plan, told)
        _tell(plan, signal_id, told, as_json=as_json, url=url)
        if told is None and not is_alive:
            snapshot = await reader.snapshot(plan.job_id, whole=False)
            say(f"  → No orchestrator is alive. Start one with: {start('up', handlers_of(snapshot.definition), url)}")
    return ExitCode.DONE


def _confirm(plan: JobPlan) -> None:
    what = _what_asks(plan)
    if not sys.stdin.isatty():
        raise Refused(
            f"Job {plan.job_id} was not changed: {what}; there is nobody to ask.",
            remedy="See what would be done with --plan, and say that you mean it with: --yes",
            instance=plan.job_id,
        )
    show_table(plan_table(plan))
    if not typer.confirm(f"{what[0].upper()}{what[1:]}. Go on?", default=False, err=True):
        raise declined(plan.job_id, "changed")


def _what_asks(plan: JobPlan) -> str:
    """What a person has to mean."""
    if plan.request.verb is Verb.SKIP:
        return f"{plan.request.node} would be skipped"
    if plan.request.verb is Verb.SET:
        return f"the result of {plan.request.node} would be the one that you give"
    redone = [step for step in plan.plan.steps if step.confirm]
    nodes = ", ".join(step.node for step in redone)
    if any(step.items is None for step in redone):
        return f"what {nodes} had completed would run again"
    return f"{counted(sum(step.items or 0 for step in redone), 'task')} of {nodes} had completed and would run again"


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
    reader = reader_of(store, settings)
    finished = asyncio.Event()
    try:
        url_of, done = store.connections.url, lambda ended: finished.set()
        async with Services(url_of, settings, only_job=job_id, on_finished=done):
            # The answer comes first: a verb that is refused has begun no work that it would have to wait for.
            told = None
            while asked is not None and told is None:
                told = await client_of(store, settings).answer(asked.signal_id)
                _refuse_if_told(asked.plan, told)
            async with Services(url_of, settings, registry=registry, orchestrate=False, pulse=True) as working:
                await follow_served(reader, job_id, working, finished, settings, as_json=as_json)
    except asyncio.CancelledError:
        again = command(naming(f"resume {short(job_id)}", handlers), url)
        raise Interrupted(f"Interrupted. Job {job_id} stays as it is. Continue it with: {again}") from None
    return await end_with(reader, job_id, as_json=as_json, database_url=url, handlers=handlers)


def _refuse_if_told(plan: JobPlan, told: SignalAnswer | None) -> None:
    if told is not None and not told.applied:
        raise refused(plan.job_id, plan.verb, Refusal(told.reason, told.remedy or SEE_STATUS))


def _tell(plan: JobPlan, signal_id: int, told: SignalAnswer | None, *, as_json: bool, url: str | None) -> None:
    if as_json:
        result: dict[str, Any] = {
            "job_id": plan.job_id,
            "verb": plan.verb,
            "signal_id": signal_id,
            "answer": "applied" if told is not None else "pending",
            "tasks": plan.tasks,
        }
        answer_json(result)
        return
    verb = plan.verb
    if told is None:
        answer(f"The {verb} of job {plan.job_id} is recorded; its owner has not answered yet.")
    else:
        answer(f"Job {plan.job_id} goes on: {plan.work} to run, {told.reason}.")
        say(f"  → {command(f'watch {short(plan.job_id)}', url)}")
