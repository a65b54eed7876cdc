"""`status`, `watch`, `events`, `logs`: looking at jobs. Looking changes nothing and starts nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from rich.text import Text

from holdfast.cli.ending import end_with, exit_code, say_unreadable, show_card
from holdfast.cli.fleet import fleet_lines, start, unserved_remedy, unserved_text
from holdfast.cli.given import handlers_of
from holdfast.cli.progress import LOOK_SECONDS, View, follow, make_view
from holdfast.cli.render import attempt_text, event_line, job_list
from holdfast.cli.session import begin, begin_on, command, drive, has_database, open_database, reader_of
from holdfast.cli.streams import answer, answer_json, answers, say, show
from holdfast.cli.words import clock
from holdfast.core.states import JOB_TERMINAL
from holdfast.errors import ExitCode, NotFound
from holdfast.settings import Settings
from holdfast.store.fleet import NO_FLEET
from holdfast.store.reading import Reader, Snapshot
from holdfast.views.fleet import fleet_json
from holdfast.views.jobs import attempt_json, event_json, job_line_json, status_json

LIST_LENGTH = 20
LOGS_LENGTH = 1000


def show_status(job: str | None, *, as_json: bool, database_url: str | None) -> int:
    if job is None:
        return drive(_list(begin(database_url), as_json=as_json, database_url=database_url))
    return drive(_status(begin_on(job, database_url), job, as_json=as_json, database_url=database_url))


async def _list(settings: Settings, *, as_json: bool, database_url: str | None) -> int:
    jobs: list[dict[str, Any]] = []
    fleet = NO_FLEET
    if has_database(settings):
        async with open_database(settings) as store:
            reader = reader_of(store, settings)
            jobs = [job_line_json(line) for line in await reader.jobs(LIST_LENGTH)]
            fleet = await reader.fleet()
    if as_json:
        answer_json({"jobs": jobs} | fleet_json(fleet))
        return ExitCode.DONE
    if jobs:
        show(job_list(jobs))
    else:
        answer("There are no jobs yet.")
    lines = list(fleet_lines(fleet, database_url))
    for line in [Text(""), *lines] if lines else []:
        show(line)
    what = "One of them: {}" if jobs else "Run one: {}"
    say("  → " + what.format(command("status JOB" if jobs else "run workflow.yaml", database_url)))
    return ExitCode.DONE


async def _status(settings: Settings, job: str, *, as_json: bool, database_url: str | None) -> int:
    async with open_database(settings) as store:
        reader = reader_of(store, settings)
        snapshot = await reader.snapshot(await reader.find_job(job))
        if as_json:
            answer_json(status_json(snapshot))
        else:
            await show_card(reader, snapshot, database_url)
            if snapshot.unreadable is None:
                await _tell_what_is_missing(reader, snapshot, database_url)
    return ExitCode.DONE


async def _tell_what_is_missing(reader: Reader, snapshot: Snapshot, database_url: str | None) -> None:
    """An open job that nobody drives, or whose tasks nobody takes, says so; one that cannot be read whole, too."""
    if snapshot.unreadable is not None:
        say_unreadable(snapshot.unreadable)
        return
    if snapshot.job.status in JOB_TERMINAL:
        return
    if not await reader.orchestrators(snapshot.job.job_id):
        how = start("up", handlers_of(snapshot.definition), database_url)
        say(f"Nothing drives it: no orchestrator is alive. Start one with: {how}")
        return
    for node, tasks in snapshot.unserved.items():
        say(f"{node}: {unserved_text(tasks)}.")
        say(f"  → {unserved_remedy(tasks, database_url)}")


def watch_job(job: str, *, as_json: bool, database_url: str | None) -> int:
    settings = begin_on(job, database_url)
    return drive(_watch(settings, job, as_json=as_json, database_url=database_url))


async def _watch(settings: Settings, job: str, *, as_json: bool, database_url: str | None) -> int:
    async with open_database(settings) as store:
        reader = reader_of(store, settings)
        job_id = await reader.find_job(job)
        if as_json:
            return await _watch_as_json(reader, job_id)
        await _tell_what_is_missing(reader, await reader.snapshot(job_id, whole=False), database_url)
        view = make_view(as_json=False)
        try:
            await follow(reader, job_id, view)
        finally:
            view.close()
        return await end_with(reader, job_id, as_json=False, database_url=database_url)


async def _watch_as_json(reader: Reader, job_id: str) -> int:
    """One status object a line, whenever it differs from the one before."""
    last: dict[str, Any] = {}

    def tell(status: dict[str, Any]) -> None:
        if status != last:
            last.clear()
            last.update(status)
            answer_json(status)

    view: View = make_view(as_json=True)
    await follow(reader, job_id, view, on_status=tell)
    return exit_code(last["status"])


def show_events(
    job: str, *, follow: bool, after: int, node: str | None, as_json: bool, database_url: str | None
) -> int:
    settings = begin_on(job, database_url)
    return drive(_events(settings, job, follow=follow, after=after, node=node, as_json=as_json))


async def _events(settings: Settings, job: str, *, follow: bool, after: int, node: str | None, as_json: bool) -> int:
    async with open_database(settings) as store:
        reader = reader_of(store, settings)
        snapshot = await reader.snapshot(await reader.find_job(job), whole=False)
        _check(snapshot, node)
        job_id = snapshot.job.job_id
        while True:
            # Looked at before the events: when it was over by then, they are complete.
            is_over = not follow or (await reader.snapshot(job_id, whole=False)).job.status in JOB_TERMINAL
            async for event in reader.events(job_id, after, node):
                after = event.seq
                _print_event(event_json(event), as_json=as_json)
            if is_over:
                return ExitCode.DONE
            await asyncio.sleep(LOOK_SECONDS)


def show_logs(job: str, *, node: str | None, item: int | None, as_json: bool, database_url: str | None) -> int:
    settings = begin_on(job, database_url)
    return drive(_logs(settings, job, node=node, item=item, as_json=as_json))


async def _logs(settings: Settings, job: str, *, node: str | None, item: int | None, as_json: bool) -> int:
    async with open_database(settings) as store:
        reader = reader_of(store, settings)
        snapshot = await reader.snapshot(await reader.find_job(job), whole=False)
        _check(snapshot, node)
        attempts = await reader.attempts(snapshot.job.job_id, node, item, LOGS_LENGTH + 1)
        for attempt in attempts[:LOGS_LENGTH]:
            told = attempt_json(attempt)
            if as_json:
                answer_json(told)
            else:
                answer(attempt_text(told))
        if not attempts and not as_json:
            say("Nothing was printed and no attempt failed.")
        if len(attempts) > LOGS_LENGTH:
            say(f"Only the first {LOGS_LENGTH:,} attempts are shown. Narrow it down with --node and --item.")
    return ExitCode.DONE


def _print_event(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        answer_json(event)
    else:
        answers().print(event_line(event, clock(event["at"])), soft_wrap=not answers().is_terminal, no_wrap=True)


def _check(snapshot: Snapshot, node: str | None) -> None:
    """Refuse a node that the workflow does not have; if nobody can know, say so."""
    if snapshot.unreadable is not None:
        say_unreadable(snapshot.unreadable)
        return
    known = [n.name for n in snapshot.definition.nodes]
    if node is None or node in known:
        return
    raise NotFound(f"The job's workflow has no node '{node}'.", remedy=f"Its nodes are: {', '.join(known[:20])}")
