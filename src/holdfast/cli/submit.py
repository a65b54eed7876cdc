"""`holdfast submit`: hand a job in, and wait for it if asked to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from holdfast.cli.ending import end_with
from holdfast.cli.fleet import start
from holdfast.cli.given import handlers_of, load_definition, read_inputs
from holdfast.cli.progress import follow, make_view
from holdfast.cli.session import begin, client_of, command, drive, open_database, reader_of
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import cut, short, value
from holdfast.client import Client
from holdfast.define.definition import Definition
from holdfast.errors import ExitCode, InvalidInput, Refused
from holdfast.operations.submitting import MAX_KEY_LENGTH, Submission
from holdfast.settings import Settings
from holdfast.store.reading import Reader

_TOLD = {
    "created": "Job {job} of workflow {workflow} was created.",
    "already_processing": "Job {job} was made by the same submission before; it is {status}.",
    "already_completed": "Job {job} was made by the same submission before and has completed.",
    "previously_failed": "Job {job} was made by the same submission before and ended {status}.",
    "resumed": "Job {job} was made by the same submission before and is resumed.",
    "forced": "Job {job} of workflow {workflow} was created: run {run} of the same submission.",
}
_GOES_ON = ("created", "already_processing", "resumed", "forced")


def submit_job(
    workflow: str,
    *,
    assignments: Sequence[str],
    inputs_file: Path | None,
    key: str | None,
    priority: int,
    wait: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    database_url: str | None,
) -> int:
    settings = begin(database_url)
    _check_key(key)
    if resume and force:
        raise InvalidInput(
            "--resume and --force do not go together.",
            remedy="--resume keeps what completed of the job that is there; --force makes a new one.",
        )
    # Refused before a database is started for it.
    definition = load_definition(Path(workflow)) if is_file_name(workflow) else None
    given = read_inputs(definition, assignments, inputs_file) if definition is not None else None

    async def work() -> int:
        async with open_database(settings, create=True) as store:
            client, reader = client_of(store, settings), reader_of(store, settings)
            chosen = definition or await client.definition(workflow)
            inputs = given if given is not None else read_inputs(chosen, assignments, inputs_file)
            hand_in = partial(client.submit, chosen, inputs, key=key, priority=priority, force=force)
            submission = await hand_in(resume=resume)
            is_served = bool(await reader.orchestrators())
            if is_served:
                submission = await _heard(client, reader, submission, hand_in)
            if not as_json or not wait:
                _tell(submission, as_json=as_json, wait=wait)
            if not as_json and not wait:
                _say_what_next(submission, chosen, is_served=is_served, database_url=database_url)
            if not is_served and submission.answer in _GOES_ON:
                _say_what_to_start(chosen, settings, database_url)
            if not wait:
                return ExitCode.DONE
            while submission.signal_id is not None:
                submission = await _heard(client, reader, submission, hand_in)
            return await _wait(reader, submission, as_json, database_url)

    return drive(work())


def _check_key(key: str | None) -> None:
    if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
        raise InvalidInput(f"A key has 1 to {MAX_KEY_LENGTH} characters; this one has {len(key)}.")


def is_file_name(text: str) -> bool:
    """What looks like a file is one, even if it is not there: its name would be no help as a workflow's id."""
    return text.endswith((".yaml", ".yml")) or "/" in text or _is_file(text)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:
        # A name that no file can have, as one that is too long.
        return False


async def _heard(
    client: Client, reader: Reader, submission: Submission, hand_in: Callable[[], Awaitable[Submission]]
) -> Submission:
    """A resumed job once its owner has answered; until then, and of any other submission, what was given."""
    told = await client.answer(submission.signal_id) if submission.signal_id is not None else None
    if told is None:
        return submission
    if told.applied:
        status = (await reader.snapshot(submission.job_id, whole=False)).job.status
        return replace(submission, status=status, signal_id=None)
    # Whoever resumed it at the same time was faster; else it stands as it stood.
    again = await hand_in()
    if again.answer == "previously_failed":
        raise Refused(f"Job {again.job_id} was not resumed: {told.reason}", instance=again.job_id)
    return again


def _tell(submission: Submission, *, as_json: bool, wait: bool) -> None:
    if as_json:
        answer_json(submission.to_json())
        return
    tell = say if wait else answer
    tell(
        _TOLD[submission.answer].format(
            job=submission.job_id,
            workflow=submission.workflow_id,
            status=submission.status,
            run=submission.run,
        )
    )
    if submission.answer == "previously_failed":
        if submission.failed_stage is not None:
            tell(f"Failed:    {cut(submission.failed_stage, 100)}")
        if submission.completed_stages:
            tell(f"Completed: {cut(', '.join(submission.completed_stages), 100)}")
    if submission.result is not None and not wait:
        answer(f"Result: {value(submission.result, 200)}")


def _say_what_next(
    submission: Submission, definition: Definition, *, is_served: bool, database_url: str | None
) -> None:
    job = short(submission.job_id)
    if submission.answer != "previously_failed":
        say(f"  → {command(f'watch {job}', database_url)}")
        return
    if submission.advice is not None:
        text = submission.advice.words(job)
        how = command(text, database_url) if is_served else start(text, handlers_of(definition), database_url)
        say(f"  → Go on where it stopped with: {how}")
    say("  → Begin anew, and keep this one, with: --force")


def _say_what_to_start(definition: Definition, settings: Settings, database_url: str | None) -> None:
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
