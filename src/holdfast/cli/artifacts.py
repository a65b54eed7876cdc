"""`artifacts`: the files that a job's tasks have published and what the job delivers; `--get` copies a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path, PurePath

from rich.text import Text

from holdfast.bootstrap import open_client
from holdfast.cli.destination import draft_of, writing_to
from holdfast.cli.render import delivered_text
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer, answer_json, json_text, say, show
from holdfast.cli.words import cut, day_and_clock, short, size
from holdfast.client import Client
from holdfast.define.named_file import shown_name
from holdfast.errors import ExitCode, InvalidInput, NotFound, Refused
from holdfast.views.encoding import to_json
from holdfast.views.history import Artifact
from holdfast.views.jobs import Job

PAGE_LENGTH = 1000
SHOWN_PLACES = 5


def show_artifacts(job: str, *, node: str | None, item: int | None, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            whole_job = await client.job(await find_job(client, job, settings))
            artifacts = _pages(client, whole_job.job_id, node, item)
            if as_json:
                await _write_json(whole_job, artifacts)
            else:
                await _show(whole_job, artifacts, target)
        return ExitCode.DONE

    return drive(work())


async def _pages(client: Client, job_id: str, node: str | None, item: int | None) -> AsyncIterator[Artifact]:
    after = None
    while page := await client.artifacts(job_id, node=node, index=item, limit=PAGE_LENGTH, after=after):
        for artifact in page:
            yield artifact
        after = page[-1]


async def _write_json(job: Job, artifacts: AsyncIterator[Artifact]) -> None:
    """One object, written piece by piece: a fan-out may have published any number of files."""
    with writing_to(None) as write:
        write(f'{{"deliverables": {json_text(to_json(job.outcome.deliverables))}, "artifacts": [')
        separator = ""
        async for artifact in artifacts:
            write(separator + json_text(to_json(artifact)))
            separator = ", "
        write("]}\n")


async def _show(job: Job, artifacts: AsyncIterator[Artifact], target: Target) -> None:
    for name, deliverable in job.outcome.deliverables.items():
        show(Text(cut(f"Delivered {name}: {delivered_text(deliverable)}", 400)))
    first = None
    async for artifact in artifacts:
        if first is None:
            first = artifact
            answer(f"{'size':>10}  {'published':<19}  {'task':<20}  name")
        published = day_and_clock(artifact.published_at)
        answer(f"{size(artifact.bytes):>10}  {published}  {_task(artifact):<20}  {cut(artifact.name, 400)}")
    if first is None:
        answer(f"No task of job {job.job_id} has published a file.")
    else:
        say(f"  → Copy one: {target.command(f'artifacts {short(job.job_id)} --get NAME')}")


def _task(artifact: Artifact) -> str:
    return artifact.node if artifact.index is None else f"{artifact.node}[{artifact.index}]"


def get_artifact(
    job: str, name: str, *, node: str | None, item: int | None, to: Path | None, as_json: bool, target: Target
) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            artifacts = await client.artifacts(job_id, node=node, index=item, name=name, limit=SHOWN_PLACES + 1)
            artifact = await _only_one(client, job_id, name, artifacts, target)
            file = _file_for(artifact, to)
            with draft_of(file) as draft:
                await client.fetch_artifact(job_id, artifact, draft)
        if as_json:
            answer_json(to_json(artifact) | {"to": str(file)})
        else:
            answer(f"Wrote {size(artifact.bytes)} to {shown_name(file)}.")
        return ExitCode.DONE

    return drive(work())


async def _only_one(client: Client, job_id: str, name: str, artifacts: list[Artifact], target: Target) -> Artifact:
    if len(artifacts) == 1:
        return artifacts[0]
    if artifacts:
        places = ", ".join(map(_task, artifacts[:SHOWN_PLACES])) + (", …" if len(artifacts) > SHOWN_PLACES else "")
        raise Refused(
            f"Several tasks of job {job_id} have published '{name}': {places}",
            remedy="Choose one of them with --node and --item.",
            instance=job_id,
        )
    deliverable = (await client.job(job_id)).outcome.deliverables.get(name)
    if deliverable is not None:
        where = delivered_text(deliverable)
        raise NotFound(
            f"'{name}' is a deliverable of job {job_id}, not a file that Holdfast stores: {where}.",
            remedy="Get it from that location.",
            instance=job_id,
        )
    raise NotFound(
        f"No task of job {job_id} has published '{name}'.",
        remedy=f"List the files with: {target.command(f'artifacts {short(job_id)}')}",
        instance=job_id,
    )


def _file_for(artifact: Artifact, to: Path | None) -> Path:
    """The file that is written: without `--to` one of the artifact's own name in the working directory."""
    if to is not None:
        if str(to) == "-":
            raise InvalidInput("--to: a file cannot be copied to stdout.", remedy="Name a file.")
        return to
    file = Path(PurePath(artifact.name).name)
    if file.exists():
        raise Refused(
            f"There is already a file {shown_name(file)} in this directory.",
            remedy="Name another file, or this one to replace it: --to FILE",
        )
    return file
