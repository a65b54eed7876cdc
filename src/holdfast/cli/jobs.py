"""`status`, `watch`, `events` and `logs`: looking at jobs. Looking changes nothing and starts nothing."""

from __future__ import annotations

from rich.text import Text

from holdfast.bootstrap import open_client
from holdfast.cli.attempt_logs import follow as follow_attempts
from holdfast.cli.attempt_logs import nothing_printed
from holdfast.cli.ending import exit_code, follow_to_the_end, say_unreadable, show_card
from holdfast.cli.event_lines import event_line
from holdfast.cli.fleet import fleet_lines, handlers_of, start, unserved_remedy, unserved_text
from holdfast.cli.job_list import Filters, job_lines
from holdfast.cli.progress import say_outage
from holdfast.cli.render import attempt_text
from holdfast.cli.session import Target, begin, begin_on, drive, find_job, has_database, where
from holdfast.cli.streams import answer, answer_json, answers, say, show
from holdfast.client import Client
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.views.encoding import to_json
from holdfast.views.fleet import Fleet
from holdfast.views.history import Event, last_lines
from holdfast.views.jobs import Job, JobPage

LOGS_LENGTH = 1000


def show_status(
    job: str | None, *, filters: Filters, limit: int, after: str | None, as_json: bool, target: Target
) -> int:
    if job is None:
        return drive(_list(begin(target), filters, limit, after, as_json=as_json, target=target))
    if filters.are_given or after is not None:
        raise InvalidInput(
            f"status of one job, {job}, takes no filters.",
            remedy="Leave the job out to list jobs, or the filters to show the job.",
        )
    return drive(_status(begin_on(job, target), job, as_json=as_json, target=target))


async def _list(
    settings: Settings, filters: Filters, limit: int, after: str | None, *, as_json: bool, target: Target
) -> int:
    page, fleet = JobPage(), Fleet()
    arguments = filters.arguments()
    if has_database(settings):
        async with open_client(settings) as client:
            page, fleet = await client.jobs(**arguments, limit=limit, after=after), await client.fleet()
    if as_json:
        more = {"after": page.after} if page.after is not None else {}
        answer_json({"jobs": to_json(page.jobs)} | to_json(fleet) | more)
        return ExitCode.DONE
    for line in job_lines(page.jobs) if page.jobs else []:
        answers().print(line, soft_wrap=True)
    if not page.jobs:
        answer(_without_jobs(filters, page, after, settings))
    lines = list(fleet_lines(fleet, target)) if not filters.are_given else []
    for line in [Text(""), *lines] if lines else []:
        show(line)
    _say_what_to_look_at(filters, page, limit, target)
    return ExitCode.DONE


def _without_jobs(filters: Filters, page: JobPage, after: str | None, settings: Settings) -> str:
    if page.after is not None:
        return f"None of the {'newest' if after is None else 'next'} jobs matches; older ones may."
    if after is not None:
        return "There are no more jobs."
    if filters.are_given:
        return f"No job matches{where(settings)}."
    return f"There are no jobs yet{where(settings)}."


def _say_what_to_look_at(filters: Filters, page: JobPage, limit: int, target: Target) -> None:
    if page.jobs:
        say(f"  → One of them: {target.command('status JOB')}")
    elif filters.are_given:
        say(f"  → All jobs: {target.command('status')}")
    else:
        verb = "run" if target.url is None else "submit"
        say(f"  → Run one: {target.command(f'{verb} workflow.yaml')}")
    if page.after is not None:
        older = target.command(f"status{filters.words()} --limit {limit} --after {page.after}")
        say(f"  → Older ones: {older}")


async def _status(settings: Settings, name: str, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        job = await client.job(await find_job(client, name, settings))
        if as_json:
            answer_json(to_json(job))
        else:
            await show_card(client, job, target)
            if job.unreadable is None:
                await _say_what_is_missing(client, job, target)
    return ExitCode.DONE


async def _say_what_is_missing(client: Client, job: Job, target: Target) -> None:
    """Say what an open job lacks: an orchestrator, a worker for its tasks, or a version that can read it."""
    if job.unreadable is not None:
        say_unreadable(job)
        return
    if job.is_terminal:
        return
    if not await client.is_served(job.job_id):
        how = start("up", handlers_of(job.definition), target)
        say(f"No orchestrator is running, so this job cannot make progress. Start one with: {how}")
        return
    for node in job.nodes:
        if node.unserved is not None:
            say(f"{node.node}: {unserved_text(node.unserved)}.")
            say(f"  → {unserved_remedy(node.unserved, target)}")


def watch_job(job: str, *, as_json: bool, target: Target) -> int:
    return drive(_watch(begin_on(job, target), job, as_json=as_json, target=target))


async def _watch(settings: Settings, name: str, *, as_json: bool, target: Target) -> int:
    async with open_client(settings) as client:
        job_id = await find_job(client, name, settings)
        if as_json:
            return await _watch_as_json(client, job_id)
        await _say_what_is_missing(client, await client.job(job_id, whole=False), target)
        return await follow_to_the_end(client, job_id, as_json=False, target=target)


async def _watch_as_json(client: Client, job_id: str) -> int:
    """One status object a line, whenever it differs from the one before."""
    status = ""
    async for job in client.watch(job_id, on_outage=say_outage):
        status = job.status
        answer_json(to_json(job))
    return exit_code(status)


def show_events(job: str, *, follow: bool, after: int, node: str | None, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            say_unreadable(await client.job(job_id, whole=False))
            async for event in client.events(job_id, after=after, node=node, follow=follow):
                _print_event(event, as_json=as_json)
        return ExitCode.DONE

    return drive(work())


def show_logs(
    job: str, *, node: str | None, item: int | None, is_followed: bool, tail: int | None, as_json: bool, target: Target
) -> int:
    work = _follow_logs if is_followed else _logs
    return drive(work(begin_on(job, target), job, node=node, item=item, tail=tail, as_json=as_json))


async def _follow_logs(
    settings: Settings, name: str, *, node: str | None, item: int | None, tail: int | None, as_json: bool
) -> int:
    async with open_client(settings) as client:
        job = await client.job(await find_job(client, name, settings), whole=False)
        say_unreadable(job)
        await follow_attempts(client, job.job_id, node=node, item=item, tail=tail, as_json=as_json)
    return ExitCode.DONE


async def _logs(
    settings: Settings, name: str, *, node: str | None, item: int | None, tail: int | None, as_json: bool
) -> int:
    async with open_client(settings) as client:
        job = await client.job(await find_job(client, name, settings), whole=False)
        say_unreadable(job)
        attempts = await client.attempts(job.job_id, node=node, index=item, limit=LOGS_LENGTH + 1)
        running = await client.running_attempts(job.job_id, node=node, index=item)
        for attempt in [*attempts[:LOGS_LENGTH], *running]:
            if as_json:
                answer_json(to_json(last_lines(attempt, tail)))
            else:
                answer(attempt_text(last_lines(attempt, tail)))
        if not attempts and not running and not as_json:
            say(nothing_printed(job, node))
        if len(attempts) > LOGS_LENGTH:
            say(f"Only the first {LOGS_LENGTH:,} attempts are shown. Narrow them down with --node and --item.")
    return ExitCode.DONE


def _print_event(event: Event, *, as_json: bool) -> None:
    if as_json:
        answer_json(to_json(event))
    else:
        screen = answers()
        screen.print(event_line(event, screen.width if screen.is_terminal else None), soft_wrap=not screen.is_terminal)
