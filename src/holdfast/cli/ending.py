"""How a command that waited for a job ends: with the status object or a summary, and the job's exit code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from holdfast.cli.fleet import handlers_of, start
from holdfast.cli.progress import follow, make_view
from holdfast.cli.render import job_card
from holdfast.cli.session import Target
from holdfast.cli.streams import answer_json, answers, say, show
from holdfast.cli.words import short
from holdfast.client import Client
from holdfast.define.definition import UNREADABLE_REMEDY, Definition
from holdfast.errors import ExitCode
from holdfast.views.encoding import to_json
from holdfast.views.jobs import Job
from holdfast.views.outcome import Recovery

SHOWN_STAGES = 3
_EXIT_CODES = {
    "completed": ExitCode.DONE,
    "partial": ExitCode.JOB_PARTIAL,
    "failed": ExitCode.JOB_FAILED,
    "cancelled": ExitCode.JOB_CANCELLED,
}


async def follow_to_the_end(
    client: Client, job_id: str, *, as_json: bool, target: Target, handlers: Sequence[str] = ()
) -> int:
    """Show the job while others run it, then how it ended; returns the exit code that says it."""
    view = make_view(as_json=as_json)
    try:
        await follow(client, job_id, view)
    finally:
        view.close()
    return await end_with(client, job_id, as_json=as_json, target=target, handlers=handlers)


async def end_with(client: Client, job_id: str, *, as_json: bool, target: Target, handlers: Sequence[str] = ()) -> int:
    """Print how the job ended; returns the exit code that says it. `handlers` are modules that it needed."""
    job = await client.job(job_id)
    if as_json:
        answer_json(to_json(job))
    else:
        await show_card(client, job, target, handlers)
    return exit_code(job.status)


def exit_code(status: str) -> int:
    return _EXIT_CODES.get(status, ExitCode.DONE)


def say_unreadable(job: Job) -> None:
    """Another version wrote the job's definition: what is shown lacks the nodes that have not begun."""
    if job.unreadable is not None:
        say(job.unreadable)
        say(f"  → {UNREADABLE_REMEDY}")


async def show_card(client: Client, job: Job, target: Target, handlers: Sequence[str] = ()) -> None:
    """The job for people, with what its failed items have in common."""
    name = short(job.job_id)
    failed = {
        node.node: await client.failures(job.job_id, node.node)
        for node in job.nodes
        if node.width and node.counts.failed
    }
    card = job_card(
        job,
        retries=await client.retries(job.job_id),
        failed=failed,
        command=target.command,
        revive=None if job.is_terminal else await _revival(client, job, target),
        advised=[
            (await with_handlers(client, one.words(name), job.definition, target, handlers), one.note)
            for one in _shown(job.outcome.recovery)
        ],
        plan=target.command(naming(f"plan {name}", handlers)),
        width=answers().width,
    )
    show(card)


def _shown(recoveries: Sequence[Recovery]) -> Sequence[Recovery]:
    """A resume does everything; where none is possible, what helps with a few stages."""
    return recoveries[:1] if recoveries and recoveries[0].is_resume else recoveries[:SHOWN_STAGES]


async def with_handlers(
    client: Client, text: str, definition: Definition, target: Target, handlers: Sequence[str]
) -> str:
    """A command that runs tasks: without a running orchestrator it must bring the handlers itself."""
    if not handlers and not await client.is_served():
        return start(text, handlers_of(definition), target)
    return target.command(naming(text, handlers))


def naming(text: str, handlers: Sequence[str]) -> str:
    """A command with the handler modules of this one."""
    return " ".join([text, *(f"--handlers {shlex.quote(module)}" for module in handlers)])


async def _revival(client: Client, job: Job, target: Target) -> str | None:
    """What must be started before an open job continues; None if an orchestrator drives it."""
    if await client.is_served(job.job_id):
        return None
    return start("up", handlers_of(job.definition), target)
