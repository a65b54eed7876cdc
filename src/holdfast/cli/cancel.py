"""`holdfast cancel`: ask a job's owner to stop it, and tell what the owner answered."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import typer

from holdfast.bootstrap import Services
from holdfast.cli.ending import say_unreadable
from holdfast.cli.planning import declined, moved
from holdfast.cli.session import begin_on, client_of, command, drive, open_database, reader_of
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import short
from holdfast.client import Client
from holdfast.core.states import JOB_TERMINAL
from holdfast.core.steering import SteeringVerb
from holdfast.errors import ExitCode, Refused
from holdfast.settings import Settings
from holdfast.store.interface import SignalAnswer
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Snapshot
from holdfast.views.plans import about

LOOK_SECONDS = 0.05
STOPPING = "stopping"


def cancel_job(
    job: str, *, plan_id: str | None, reason: str, yes: bool, detach: bool, as_json: bool, database_url: str | None
) -> int:
    settings = begin_on(job, database_url)
    return drive(_cancel(settings, job, plan_id, reason, yes=yes, detach=detach, as_json=as_json, url=database_url))


async def _cancel(
    settings: Settings,
    job: str,
    plan_id: str | None,
    reason: str,
    *,
    yes: bool,
    detach: bool,
    as_json: bool,
    url: str | None,
) -> int:
    async with open_database(settings) as store:
        reader, client = reader_of(store, settings), client_of(store, settings)
        job_id = await reader.find_job(job)
        await agreed(client, job_id, SteeringVerb.CANCEL, plan_id, url)
        found = await reader.snapshot(job_id, whole=False)
        if not yes:
            _confirm(found)
        alive = bool(await reader.orchestrators(job_id))
        if found.unreadable is not None and not alive and not detach:
            raise _only_another_version(job_id, found.unreadable)
        signal_id = await client.cancel(job_id, reason=reason, plan_id=plan_id)
        told: SignalAnswer | None = None
        if not detach:
            told = await client.answer(signal_id) if alive else None
            if told is None and not await reader.orchestrators(job_id):
                # No orchestrator was alive, or it ended without an answer.
                told = await _drive(store, settings, signal_id, job_id)
        await refuse_if_told(client, job_id, SteeringVerb.CANCEL, told)
        now = (await reader.snapshot(job_id, whole=False)).job
        is_stopping = now.reason == STOPPING
        _tell(
            job_id, signal_id, told, now.status, alive=alive, is_stopping=is_stopping, as_json=as_json, database_url=url
        )
        if found.unreadable is not None and told is None:
            say_unreadable(found.unreadable)
    return ExitCode.DONE


async def agreed(client: Client, job_id: str, verb: SteeringVerb, plan_id: str | None, url: str | None) -> None:
    """A quick refusal of what cannot be done, or is not what was planned; the owner looks again and its word counts."""
    plan = await client.plan_steering(job_id, verb)
    if plan_id is not None and plan_id != plan.plan_id:
        raise moved(plan, url)


async def refuse_if_told(client: Client, job_id: str, verb: SteeringVerb, told: SignalAnswer | None) -> None:
    """The owner's refusal, with what else can be done as the job is now."""
    if told is None or told.applied:
        return
    await client.plan_steering(job_id, verb)
    raise Refused(
        f"Job {job_id} was not changed by {verb}: {told.reason}.",
        remedy=about(job_id, told.remedy or "See how it is now: holdfast status JOB"),
        instance=job_id,
    )


def _only_another_version(job_id: str, problem: Refused) -> Refused:
    """We cannot drive it, and would wait for ever."""
    message = f"Job {job_id} was not cancelled: no orchestrator is alive, and it cannot be driven from here."
    return Refused(f"{message} {problem.message}", remedy=problem.remedy, instance=job_id)


def _confirm(found: Snapshot) -> None:
    if not sys.stdin.isatty():
        raise Refused(
            f"Job {found.job.job_id} was not cancelled: there is no terminal to ask on.",
            remedy="See what would be done with --plan, and say that you mean it with: --yes",
            instance=found.job.job_id,
        )
    question = f"Cancel job {found.job.job_id} of {found.job.workflow_id}? What it has finished is kept"
    if not typer.confirm(question, default=False, err=True):
        raise declined(found.job.job_id, "cancelled")


async def _drive(store: PostgresStore, settings: Settings, signal_id: int, job_id: str) -> SignalAnswer | None:
    """Nobody drives the job: do it here until it has ended."""
    say("No orchestrator is alive: driving the job to its end from here.")
    reader = reader_of(store, settings)
    async with Services(store.connections.url, settings, only_job=job_id):
        while True:
            told = await store.answer(signal_id)
            if told is not None and (
                not told.applied or (await reader.snapshot(job_id, whole=False)).job.status in JOB_TERMINAL
            ):
                return told
            await asyncio.sleep(LOOK_SECONDS)


def _tell(
    job_id: str,
    signal_id: int,
    told: SignalAnswer | None,
    status: str,
    *,
    alive: bool,
    is_stopping: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    if as_json:
        result: dict[str, Any] = {
            "job_id": job_id,
            "verb": "cancel",
            "signal_id": signal_id,
            "answer": "applied" if told is not None else "pending",
            "status": status,
        }
        answer_json(result)
    elif told is None and is_stopping:
        answer(f"Job {job_id} is stopping: its last tasks run, and have the grace period to finish.")
        say("  → If they do, the job completes, and the cancel was too late.")
        say(f"  → {command(f'watch {short(job_id)}', database_url)}")
    elif told is None:
        answer(f"The cancel of job {job_id} is recorded; its owner has not answered yet.")
        if not alive:
            say(f"  → No orchestrator is alive. Start one with: {command('up', database_url)}")
    elif status in JOB_TERMINAL:
        answer(f"Job {job_id} is {status}.")
    else:
        answer(f"Job {job_id} is being cancelled; tasks that run may finish within the grace period.")
        say(f"  → {command(f'watch {short(job_id)}', database_url)}")
