"""`holdfast submit`: hand a job in, and wait for it if asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.ending import end_with
from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of, load_definition, read_inputs
from holdfast.cli.progress import follow, make_view
from holdfast.cli.session import begin, command, drive, open_database
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import short, value
from holdfast.client import MAX_KEY_LENGTH, Client, Submission
from holdfast.define.definition import Definition
from holdfast.errors import ExitCode, InvalidInput
from holdfast.settings import Settings
from holdfast.store.reading import Reader

_TOLD = {
    "created": "Job {job} of workflow {workflow} was created.",
    "already_processing": "Job {job} was made by the same submission before; it is {status}.",
    "already_completed": "Job {job} was made by the same submission before and has completed.",
    "previously_failed": "Job {job} was made by the same submission before and ended {status}.",
}


def submit_job(
    workflow: str,
    *,
    assignments: Sequence[str],
    inputs_file: Path | None,
    key: str | None,
    priority: int,
    wait: bool,
    as_json: bool,
    database_url: str | None,
) -> int:
    settings = begin(database_url)
    _check_key(key)
    # Refused before a database is started for it.
    definition = load_definition(Path(workflow)) if is_file_name(workflow) else None
    given = read_inputs(definition, assignments, inputs_file) if definition is not None else None

    async def work() -> int:
        async with open_database(settings) as store:
            client, reader = Client(store), Reader(store.connections, store.payloads)
            chosen = definition or await client.definition(workflow)
            inputs = given if given is not None else read_inputs(chosen, assignments, inputs_file)
            submission = await client.submit(chosen, inputs, key=key, priority=priority)
            if not as_json or not wait:
                _tell(submission, as_json=as_json, wait=wait, database_url=database_url)
            await _hint_at_missing_orchestrator(reader, submission, chosen, settings, database_url)
            return await _wait(reader, submission, as_json, database_url) if wait else ExitCode.DONE

    return drive(work())


def _check_key(key: str | None) -> None:
    if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
        raise InvalidInput(f"A key has 1 to {MAX_KEY_LENGTH} characters; this one has {len(key)}.")


def is_file_name(text: str) -> bool:
    """What looks like a file is one, even if it is not there: its name would be no help as a workflow's id."""
    return text.endswith((".yaml", ".yml")) or "/" in text or Path(text).is_file()


def _tell(submission: Submission, *, as_json: bool, wait: bool, database_url: str | None) -> None:
    if as_json:
        answer_json(submission.to_json())
        return
    text = _TOLD[submission.answer].format(
        job=submission.job_id, workflow=submission.workflow_id, status=submission.status
    )
    tell = say if wait else answer
    tell(text)
    if submission.result is not None and not wait:
        answer(f"Result: {value(submission.result, 200)}")
    if not wait:
        verb = "status" if submission.answer == "previously_failed" else "watch"
        say(f"  → {command(f'{verb} {short(submission.job_id)}', database_url)}")


async def _hint_at_missing_orchestrator(
    reader: Reader, submission: Submission, definition: Definition, settings: Settings, database_url: str | None
) -> None:
    if submission.answer not in ("created", "already_processing") or await reader.orchestrators():
        return
    where = "" if settings.database_url is not None else " in this directory"
    how = start("up", handlers_of(definition), database_url)
    say(f"Nothing serves this database yet: the job waits. Start something{where}: {how}")


async def _wait(reader: Reader, submission: Submission, as_json: bool, database_url: str | None) -> int:
    view = make_view(as_json=as_json)
    try:
        await follow(reader, submission.job_id, view)
    finally:
        view.close()
    return await end_with(reader, submission.job_id, as_json=as_json, database_url=database_url)
