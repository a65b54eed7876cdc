"""How a command that waited for a job ends: with the status object or a summary, and the job's exit code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of
from holdfast.cli.progress import shown_status
from holdfast.cli.render import job_card
from holdfast.cli.session import command
from holdfast.cli.streams import answer_json, answers, say, show
from holdfast.cli.words import short
from holdfast.core.advising import Advice
from holdfast.core.signals import Verb
from holdfast.core.states import JOB_TERMINAL, JobStatus
from holdfast.define.definition import Definition
from holdfast.errors import ExitCode, Refused
from holdfast.store.reading import FailedItems, Reader, Snapshot
from holdfast.views.jobs import status_json

SHOWN_STAGES = 3
_EXIT_CODES = {
    JobStatus.COMPLETED: ExitCode.DONE,
    JobStatus.PARTIAL: ExitCode.JOB_PARTIAL,
    JobStatus.FAILED: ExitCode.JOB_FAILED,
    JobStatus.CANCELLED: ExitCode.JOB_CANCELLED,
}


async def end_with(
    reader: Reader, job_id: str, *, as_json: bool, database_url: str | None, handlers: Sequence[str] = ()
) -> int:
    """Print how the job ended; returns the exit code that says it. `handlers` are modules that it needed."""
    snapshot = await reader.snapshot(job_id)
    if as_json:
        answer_json(status_json(snapshot))
    else:
        await show_card(reader, snapshot, database_url, handlers)
    return exit_code(snapshot.job.status)


def exit_code(status: str) -> int:
    return _EXIT_CODES.get(JobStatus(status), ExitCode.DONE)


def say_unreadable(problem: Refused) -> None:
    """A job of another version: what can be told without its definition is told, and this."""
    say(problem.message)
    say(f"  → {problem.remedy}")


async def show_card(reader: Reader, snapshot: Snapshot, database_url: str | None, handlers: Sequence[str] = ()) -> None:
    """The job for people, with what its failed items have in common."""
    status: dict[str, Any] = shown_status(snapshot)
    job = short(snapshot.job.job_id)
    failed: dict[str, list[FailedItems]] = {}
    for node in status["nodes"]:
        if node["type"] == "fan_out" and node["counts"]["failed"]:
            failed[node["node"]] = await reader.failed_items(snapshot.job.job_id, node["node"])
    card = job_card(
        status,
        retries=await reader.retries(snapshot.job.job_id),
        failed=dict(failed),
        command=lambda text: command(text, database_url),
        revive=None if snapshot.job.status in JOB_TERMINAL else await _revival(reader, snapshot, database_url),
        advised=[
            (await with_handlers(reader, one.words(job), snapshot.definition, database_url, handlers), one.note)
            for one in _shown(snapshot.advice)
        ],
        plan=command(naming(f"plan {job}", handlers), database_url),
        width=answers().width,
    )
    show(card)


def _shown(advice: Sequence[Advice]) -> Sequence[Advice]:
    """A resume does all of it; where none would be taken, what helps with a few stages."""
    return advice[:1] if advice and advice[0].request.verb is Verb.RESUME else advice[:SHOWN_STAGES]


async def with_handlers(
    reader: Reader, text: str, definition: Definition, database_url: str | None, handlers: Sequence[str]
) -> str:
    """A command that has tasks run: where nobody serves, it has to bring the handlers itself."""
    if not handlers and not await reader.orchestrators():
        return start(text, handlers_of(definition), database_url)
    return command(naming(text, handlers), database_url)


def naming(text: str, handlers: Sequence[str]) -> str:
    """A command with the modules that were given to this one."""
    return " ".join([text, *(f"--handlers {shlex.quote(module)}" for module in handlers)])


async def _revival(reader: Reader, snapshot: Snapshot, database_url: str | None) -> str | None:
    """What must be started before an open job goes on; None if somebody drives it."""
    if await reader.orchestrators(snapshot.job.job_id):
        return None
    return start("up", handlers_of(snapshot.definition), database_url)
