"""`holdfast cancel`: ask a job's owner to stop it, and tell what the owner answered."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import typer

from holdfast.bootstrap import Services
from holdfast.cli.ending import say_unreadable
from holdfast.cli.session import begin, command, drive, has_database, open_database
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import short
from holdfast.client import Client
from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import ExitCode, Refused
from holdfast.settings import Settings
from holdfast.store.postgres import PostgresStore
from holdfast.store.reading import Reader, Snapshot, no_such_job

ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.05

Answer = tuple[bool, str] | None


def cancel_job(job: str, *, reason: str, yes: bool, detach: bool, as_json: bool, database_url: str | None) -> int:
    settings = begin(database_url)
    if not has_database(settings):
        raise no_such_job(job)
    return drive(_cancel(settings, job, reason, yes=yes, detach=detach, as_json=as_json, database_url=database_url))


async def _cancel(
    settings: Settings, job: str, reason: str, *, yes: bool, detach: bool, as_json: bool, database_url: str | None
) -> int:
    async with open_database(settings) as store:
        reader = Reader(store.connections, store.payloads)
        found = await reader.snapshot(await reader.find_job(job), whole=False)
        _refuse_if_over(found)
        if not yes:
            _confirm(found)
        job_id = found.job.job_id
        alive = bool(await reader.orchestrators())
        if found.unreadable is not None and not alive and not detach:
            raise _only_another_version(job_id, found.unreadable)
        signal_id = await Client(store).cancel(job_id, reason=reason)
        told: Answer = None
        if not detach:
            told = await (wait_for_answer(store, signal_id) if alive else _drive(store, settings, signal_id, job_id))
        if told is not None and not told[0]:
            raise Refused(f"Job {job_id} was not cancelled: {told[1]}.", instance=job_id)
        status = (await reader.snapshot(job_id, whole=False)).job.status
        _tell(job_id, signal_id, told, status, alive=alive, as_json=as_json, database_url=database_url)
        if found.unreadable is not None and told is None:
            say_unreadable(found.unreadable)
    return ExitCode.DONE


def _refuse_if_over(found: Snapshot) -> None:
    """A quick refusal; the owner looks again and its word counts."""
    if found.job.status in JOB_TERMINAL:
        raise Refused(
            f"Job {found.job.job_id} cannot be cancelled: it is already {found.job.status}.",
            remedy=f"See how it ended with: holdfast status {short(found.job.job_id)}",
            instance=found.job.job_id,
        )


def _only_another_version(job_id: str, problem: Refused) -> Refused:
    """We cannot drive it, and would wait for ever."""
    message = f"Job {job_id} was not cancelled: no orchestrator is alive, and it cannot be driven from here."
    return Refused(f"{message} {problem.message}", remedy=problem.remedy, instance=job_id)


def _confirm(found: Snapshot) -> None:
    if not sys.stdin.isatty():
        raise Refused(
            f"Job {found.job.job_id} was not cancelled: there is no terminal to ask on.",
            remedy="Say that you mean it with: --yes",
            instance=found.job.job_id,
        )
    question = f"Cancel job {found.job.job_id} of {found.job.workflow_id}? What it has finished is kept"
    if not typer.confirm(question, default=False, err=True):
        raise Refused(f"Job {found.job.job_id} was not cancelled.", instance=found.job.job_id)


async def wait_for_answer(store: PostgresStore, signal_id: int) -> Answer:
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        told = await store.answer(signal_id)
        if told is not None:
            return told
        await asyncio.sleep(LOOK_SECONDS)
    return None


async def _drive(store: PostgresStore, settings: Settings, signal_id: int, job_id: str) -> Answer:
    """Nobody drives the job: do it here until it has ended."""
    say("No orchestrator is alive: driving the job to its end from here.")
    reader = Reader(store.connections, store.payloads)
    async with Services(store.connections.url, settings):
        while True:
            told = await store.answer(signal_id)
            if told is not None and (
                not told[0] or (await reader.snapshot(job_id, whole=False)).job.status in JOB_TERMINAL
            ):
                return told
            await asyncio.sleep(LOOK_SECONDS)


def _tell(
    job_id: str,
    signal_id: int,
    told: Answer,
    status: str,
    *,
    alive: bool,
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
    elif told is None:
        answer(f"The cancel of job {job_id} is recorded; its owner has not answered yet.")
        if not alive:
            say(f"  → No orchestrator is alive. Start one with: {command('up', database_url)}")
    elif status in JOB_TERMINAL:
        answer(f"Job {job_id} is {status}.")
    else:
        answer(f"Job {job_id} is being cancelled; tasks that run may finish within the grace period.")
        say(f"  → {command(f'watch {short(job_id)}', database_url)}")
