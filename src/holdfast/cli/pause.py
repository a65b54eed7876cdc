"""`holdfast pause` and `holdfast unpause`: let nothing new of a job begin, and let it go on."""

from __future__ import annotations

from holdfast.bootstrap import Services
from holdfast.cli.cancel import agreed, refuse_if_told
from holdfast.cli.planning import tell_plan
from holdfast.cli.session import begin_on, client_of, command, drive, open_database, reader_of
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import short
from holdfast.core.steering import SteeringVerb
from holdfast.errors import ExitCode
from holdfast.settings import Settings
from holdfast.store.interface import SignalAnswer


def show_steering(job: str, verb: SteeringVerb, *, as_json: bool, database_url: str | None) -> int:
    """The plan of a cancel, a pause or an unpause."""
    settings = begin_on(job, database_url)

    async def work() -> int:
        async with open_database(settings) as store:
            reader = reader_of(store, settings)
            plan = await client_of(store, settings).plan_steering(await reader.find_job(job), verb)
            await tell_plan(reader, plan, flags=(), handlers=(), as_json=as_json, url=database_url)
        return ExitCode.DONE

    return drive(work())


def pause_job(
    job: str,
    verb: SteeringVerb,
    *,
    plan_id: str | None,
    reason: str,
    detach: bool,
    as_json: bool,
    database_url: str | None,
) -> int:
    settings = begin_on(job, database_url)
    return drive(_pause(settings, job, verb, plan_id, reason, detach=detach, as_json=as_json, url=database_url))


async def _pause(
    settings: Settings,
    job: str,
    verb: SteeringVerb,
    plan_id: str | None,
    reason: str,
    *,
    detach: bool,
    as_json: bool,
    url: str | None,
) -> int:
    async with open_database(settings) as store:
        reader, client = reader_of(store, settings), client_of(store, settings)
        job_id = await reader.find_job(job)
        await agreed(client, job_id, verb, plan_id, url)
        send = client.pause if verb is SteeringVerb.PAUSE else client.unpause
        is_alive = bool(await reader.orchestrators(job_id))
        signal_id = await send(job_id, reason=reason, plan_id=plan_id)
        told: SignalAnswer | None = None
        if not detach and is_alive:
            told = await client.answer(signal_id)
        elif not detach:
            # Nobody drives the job: an owner is needed for as long as it takes to answer.
            async with Services(store.connections.url, settings, only_job=job_id):
                while told is None:
                    told = await client.answer(signal_id)
        await refuse_if_told(client, job_id, verb, told)
    if as_json:
        answer_json(
            {
                "job_id": job_id,
                "verb": str(verb),
                "signal_id": signal_id,
                "answer": "applied" if told is not None else "pending",
            }
        )
    elif told is None:
        answer(f"The {verb} of job {job_id} is recorded; its owner has not answered yet.")
        if not is_alive:
            say(f"  → No orchestrator is alive. Start one with: {command('up', url)}")
    elif verb is SteeringVerb.PAUSE:
        answer(f"Job {job_id} is paused; tasks that run go on to their end.")
        say(f"  → {command(f'unpause {short(job_id)}', url)}")
    else:
        answer(f"Job {job_id} goes on.")
        say(f"  → {command(f'watch {short(job_id)}', url)}")
    return ExitCode.DONE
