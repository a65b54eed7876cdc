"""`checkpoints`: the points that the tasks of a node have saved."""

from __future__ import annotations

from holdfast.bootstrap import open_client
from holdfast.cli.session import Target, begin_on, drive, find_job
from holdfast.cli.streams import answer, answer_json, say
from holdfast.cli.words import cut, day_and_clock, short, size
from holdfast.errors import ExitCode
from holdfast.views.data import Checkpoint
from holdfast.views.encoding import to_json


def show_checkpoints(job: str, node: str, *, item: int | None, as_json: bool, target: Target) -> int:
    settings = begin_on(job, target)

    async def work() -> int:
        number = 0
        async with open_client(settings) as client:
            job_id = await find_job(client, job, settings)
            async for checkpoint in client.checkpoints(job_id, node, index=item):
                if as_json:
                    answer_json(to_json(checkpoint))
                else:
                    _show(checkpoint, is_first=number == 0)
                number += 1
        if as_json:
            return ExitCode.DONE
        chosen = f" --item {item}" if item is not None else ""
        if number:
            say(f"  → With their values: {target.command(f'checkpoints {short(job_id)} {node}{chosen} --json')}")
        else:
            where = node if item is None else f"{node}[{item}]"
            answer(f"{where} has no checkpoints.")
        return ExitCode.DONE

    return drive(work())


def _show(checkpoint: Checkpoint, *, is_first: bool) -> None:
    if is_first:
        answer(f"{'item':>6}  {'number':>6}  {'saved':<19}  {'size':>9}  name")
    item = str(checkpoint.item) if checkpoint.item is not None else "-"
    saved = day_and_clock(checkpoint.saved_at)
    answer(f"{item:>6}  {checkpoint.number:>6}  {saved}  {size(checkpoint.bytes):>9}  {cut(checkpoint.name, 400)}")
