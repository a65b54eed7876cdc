"""`holdfast pause` and `holdfast unpause`: let nothing new of a job begin, and let it go on."""

from __future__ import annotations

from holdfast.bootstrap import Services
from holdfast.cli.cancel import wait_for_answer
from holdfast.cli.session import begin, command, drive, has_database, open_database
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import short
from holdfast.client import Client
from holdfast.errors import ExitCode, Refused
from holdfast.settings import Settings
from holdfast.store.reading import Reader, no_such_job


def pause_job(job: str, *, is_paused: bool, reason: str, detach: bool, as_json: bool, database_url: str | None) -> int:
    settings = begin(database_url)
    if not has_database(settings):
        raise no_such_job(job)
    return drive(
        _pause(settings, job, reason, is_paused=is_paused, detach=detach, as_json=as_json, database_url=database_url)
    )


async def _pause(
    settings: Settings, job: str, reason: str, *, is_paused: bool, detach: bool, as_json: bool, database_url: str | None
) -> int:
    verb = "pause" if is_paused else "unpause"
    async with open_database(settings) as store:
        reader, client = Reader(store.connections, store.payloads), Client(store)
        job_id = await reader.find_job(job)
        send = client.pause if is_paused else client.unpause
        signal_id = await send(job_id, reason=reason)
        told: tuple[bool, str] | None = None
        if not detach and await reader.orchestrators():
            told = await wait_for_answer(store, signal_id)
        elif not detach:
            # Nobody drives the job: an owner is needed for as long as it takes to answer.
            async with Services(store.connections.url, settings):
                while told is None:
                    told = await wait_for_answer(store, signal_id)
    if told is not None and not told[0]:
        raise Refused(f"Job {job_id} was not changed by {verb}: {told[1]}.", instance=job_id)
    if as_json:
        answer_json(
            {
                "job_id": job_id,
                "verb": verb,
                "signal_id": signal_id,
                "answer": "applied" if told is not None else "pending",
            }
        )
    elif told is None:
        answer(f"The {verb} of job {job_id} is recorded; its owner has not answered yet.")
    elif is_paused:
        answer(f"Job {job_id} is paused; tasks that run go on to their end.")
        say(f"  → {command(f'unpause {short(job_id)}', database_url)}")
    else:
        answer(f"Job {job_id} goes on.")
        say(f"  → {command(f'watch {short(job_id)}', database_url)}")
    return ExitCode.DONE
