"""`holdfast register`: make a definition the one that `submit ID` takes, without a job."""

from __future__ import annotations

from pathlib import Path

from holdfast.bootstrap import open_client
from holdfast.cli.data_files import load_definition
from holdfast.cli.schedules import show_next, times
from holdfast.cli.session import Target, begin, drive
from holdfast.cli.streams import answer, answer_json, say
from holdfast.errors import ExitCode
from holdfast.views.encoding import to_json
from holdfast.views.schedules import AppliedSchedule

_SENTENCES = {
    "registered": "Workflow {id}, version {version}, is registered.",
    "already_current": "Workflow {id}, version {version}, is the current one already.",
}


def register_file(file: Path, *, as_json: bool, target: Target) -> int:
    settings = begin(target)
    definition = load_definition(file)

    async def work() -> int:
        async with open_client(settings) as client:
            registration = await client.register(definition)
        if as_json:
            answer_json(to_json(registration))
        else:
            sentence = _SENTENCES[registration.answer]
            answer(sentence.format(id=registration.workflow_id, version=registration.version))
            _say_schedule(registration.schedule)
            say(f"  → {target.command(f'submit {registration.workflow_id}')}")
        return ExitCode.DONE

    return drive(work())


def _say_schedule(applied: AppliedSchedule | None) -> None:
    if applied is None:
        return
    one = applied.schedule
    if applied.answer == "paused":
        answer(f"Schedule {one.name} is paused: the file no longer has `schedule`.")
        return
    paused = f" It is paused by {one.paused.by}." if one.paused is not None else ""
    answer(f"Schedule {one.name} runs it {times(one)}.{paused}")
    show_next(one)
