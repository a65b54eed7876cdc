"""`holdfast submit`: submit a job, and wait for its end if asked to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.bootstrap import open_client
from holdfast.cli.data_files import load_definition, read_inputs
from holdfast.cli.ending import follow_to_the_end
from holdfast.cli.fleet import handlers_of, start
from holdfast.cli.job_list import parse_labels
from holdfast.cli.session import Target, begin, begin_traces, drive, find_job
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import cut, short, value
from holdfast.client import Client
from holdfast.define.changes import shown
from holdfast.define.definition import Definition
from holdfast.define.workflow_file import is_python
from holdfast.errors import ExitCode, InvalidInput, NotFound
from holdfast.operations.labels import check_labels
from holdfast.operations.marks import Marks, check_marks
from holdfast.operations.submitting import Submission, check_key
from holdfast.outgoing import warning_of
from holdfast.settings import Settings
from holdfast.views.encoding import to_json

BAD_ENDS = ("partial", "failed")
"""Of what `--notify` tells without events."""

_SENTENCES = {
    "created": "Job {job} of workflow {workflow} was created.",
    "already_processing": "The same submission made job {job} before; it is {status}.",
    "already_completed": "The same submission made job {job} before; it has completed. Nothing was run.",
    "previously_failed": "The same submission made job {job} before; it ended {status}.",
    "resumed": "The same submission made job {job} before; it is resumed.",
    "forced": "Job {job} of workflow {workflow} was created: run {run} of the same submission.",
}


def submit_job(
    workflow: str | None,
    *,
    assignments: Sequence[str],
    inputs_file: Path | None,
    like: str | None,
    labels: Sequence[str],
    key: str | None,
    correlation_id: str | None,
    external_ids: Sequence[str],
    callback_url: str | None,
    notify: Sequence[str],
    priority: int,
    wait: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    target: Target,
) -> int:
    settings = begin(target)
    begin_traces(settings)
    check_key(key)
    _check_flags(workflow, like, resume=resume, force=force)
    # Refused before a database is started for it.
    named = check_labels(parse_labels(labels))
    marks = _check_marks(correlation_id, external_ids, callback_url, notify)
    definition = load_definition(Path(workflow)) if workflow is not None and is_file_name(workflow) else None
    is_whole = like is None
    inputs = read_inputs(definition, assignments, inputs_file, is_whole=is_whole) if definition is not None else None

    async def work() -> int:
        async with open_client(settings) as client:
            before = await find_job(client, like, settings) if like is not None else None
            chosen = definition or await _known(client, workflow, before)
            values = inputs if inputs is not None else read_inputs(chosen, assignments, inputs_file, is_whole=is_whole)
            submission = await client.submit(
                chosen,
                values,
                key=key,
                priority=priority,
                resume=resume,
                force=force,
                labels=named,
                **_given(marks),
                like=before,
                refuse_changed=definition is not None and key is None and not force,
            )
            is_served = await client.is_served()
            if is_served:
                submission = await client.settle_submission(submission)
            if not as_json or not wait:
                _show(submission, as_json=as_json, wait=wait)
            _say_what_was_not_added(submission, named, marks)
            if not as_json and not wait:
                _say_what_next(submission, chosen, is_served=is_served, target=target)
            if not is_served and submission.is_open:
                _say_what_to_start(chosen, settings, target)
            return await _wait(client, submission, as_json=as_json, target=target) if wait else ExitCode.DONE

    return drive(work())


async def _wait(client: Client, submission: Submission, *, as_json: bool, target: Target) -> int:
    """Follow the job to its end."""
    while submission.signal_id is not None:
        submission = await client.settle_submission(submission)
    return await follow_to_the_end(client, submission.job_id, as_json=as_json, target=target)


async def _known(client: Client, workflow: str | None, like: str | None) -> Definition:
    """The definition that was registered last: that of an id, or that of a job's workflow."""
    if workflow is None and like is not None:
        return await client.definition((await client.job(like, whole=False)).workflow_id)
    try:
        return await client.definition(workflow or "")
    except NotFound as problem:
        message = f"There is no file '{workflow}', and this database has no workflow of that id."
        raise NotFound(message, remedy=problem.remedy, instance=problem.instance) from None


def _check_flags(workflow: str | None, like: str | None, *, resume: bool, force: bool) -> None:
    if resume and force:
        raise InvalidInput(
            "--resume and --force exclude each other.",
            remedy="--resume continues the existing job and keeps what completed; --force makes a new one.",
        )
    if workflow is None and like is None:
        raise InvalidInput(
            "submit needs a workflow.", remedy="Name a file or a known workflow, or a job to take both from: --like JOB"
        )


def _check_marks(
    correlation_id: str | None, external_ids: Sequence[str], callback_url: str | None, notify: Sequence[str]
) -> Marks:
    marks = check_marks(correlation_id, _parse_external_ids(external_ids), callback_url, _parse_notify(notify))
    warning = warning_of(callback_url) if callback_url is not None else None
    if warning is not None:
        say(f"warning: {warning}, in the settings of the processes that send.")
    return marks


def _parse_external_ids(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        namespace, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(
                f"--external-id: '{text}' has no '='.", remedy="Write NAMESPACE=VALUE: --external-id gateway=4711"
            )
        if namespace in found:
            raise InvalidInput(f"--external-id: {namespace} stands twice.", remedy="Give each namespace one value.")
        found[namespace] = value
    return found


def _parse_notify(texts: Sequence[str]) -> list[dict[str, Any]]:
    """`RECEIVER` or `RECEIVER=EVENT,…`: an address has an @, a webhook has none."""
    rules = []
    for text in texts:
        receiver, equals, events = text.partition("=")
        kind = "email" if "@" in receiver else "webhook"
        rules.append({"on": events.split(",") if equals else list(BAD_ENDS), kind: receiver})
    return rules


def _say_what_was_not_added(submission: Submission, labels: dict[str, str], marks: Marks) -> None:
    if submission.answer in ("created", "forced"):
        return
    if labels:
        say("The job keeps the labels that it has: those of this submission were not added.")
    if marks != Marks():
        say("The job keeps the ids and the receivers that it has: those of this submission were not added.")


def _given(marks: Marks) -> dict[str, Any]:
    """The arguments of `Client.submit`."""
    return {one.name: getattr(marks, one.name) for one in fields(marks)}


def is_file_name(text: str) -> bool:
    """What looks like a file is a file, even if it does not exist: as the id of a workflow it would make no sense."""
    return text.endswith((".yaml", ".yml")) or is_python(text) or "/" in text or _is_file(text)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:
        # No file can have that name; for example, it is too long.
        return False


def _show(submission: Submission, *, as_json: bool, wait: bool) -> None:
    if as_json:
        answer_json(to_json(submission))
        return
    print_line = say if wait else answer
    print_line(
        _SENTENCES[submission.answer].format(
            job=submission.job_id,
            workflow=submission.workflow_id,
            status=submission.status,
            run=submission.run,
        )
    )
    if submission.misses_only_tolerated:
        print_line("Nothing is missing but items whose failure the workflow tolerates. Nothing was run.")
    if submission.answer == "previously_failed":
        if submission.failed_stage is not None:
            print_line(f"Failed:    {cut(submission.failed_stage, 100)}")
        if submission.completed_stages:
            print_line(f"Completed: {cut(', '.join(submission.completed_stages), 100)}")
    if submission.result is not None and not wait:
        answer(f"Result: {value(submission.result, 200)}")


def _say_what_next(submission: Submission, definition: Definition, *, is_served: bool, target: Target) -> None:
    job = short(submission.job_id)
    if submission.definition_changed:
        say(f"The workflow has changed since that job was made: {shown(list(submission.changes))}.")
    if submission.answer == "already_completed":
        say("  → Make a new job with: --force. Name another piece of work with: --key NAME")
        return
    if submission.answer != "previously_failed":
        say(f"  → {target.command(f'watch {job}')}")
        return
    if submission.advice is not None:
        text = submission.advice.words(job)
        how = target.command(text) if is_served else start(text, handlers_of(definition), target)
        say(f"  → {'Run them again' if submission.misses_only_tolerated else 'Continue it'} with: {how}")
    say("  → Make a new job and keep this one with: --force")


def _say_what_to_start(definition: Definition, settings: Settings, target: Target) -> None:
    where = "" if settings.database_url is not None else " in this directory"
    how = start("up", handlers_of(definition), target)
    say(f"No orchestrator is running: the job waits. Start one{where} with: {how}")
