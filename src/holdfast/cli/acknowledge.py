"""`holdfast acknowledge`: a person has seen that a job failed or is partial."""

from __future__ import annotations

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer, answer_json, say
from holdfast.errors import ExitCode
from holdfast.views.encoding import to_json


def acknowledge_job(job: str, *, reason: str, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            acknowledged = await client.acknowledge(job_id, reason=reason)
        if as_json:
            answer_json({"job_id": job_id, "acknowledged": to_json(acknowledged)})
        else:
            answer(f"Job {job_id} is acknowledged by {acknowledged.by}; it stays as it is.")
            say(f"  → Jobs that are not: {target.command('status --unacknowledged')}")
        return ExitCode.DONE

    return drive(work())
