"""`holdfast demo …`: what the apps can do, shown on this machine. Imports no app before it is asked for one."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from holdfast import InvalidInput, Permanent
from holdfast.extend.commands import Json, PlainCommand, answer, answer_json, home, say

MOST_ITEMS = 20_000

app = typer.Typer(help="Demos that run on this machine, with real files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def demo() -> None:
    pass


@app.command(cls=PlainCommand)
def flood(
    region: Annotated[str, typer.Option("--region", metavar="CODE", help="Three letters, such as RWA or CIV.")] = "RWA",
    items: Annotated[int, typer.Option("--items", metavar="N", help="How many stacks to make.")] = 234,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the orchestrator and the workers up at the end.")] = False,
    as_json: Json = False,
) -> int:
    """Stack and register flood maps, with a worker killed and a registration that fails and is retried."""
    if not 8 <= items <= MOST_ITEMS:
        raise InvalidInput(f"--items: {items} is not between 8 and {MOST_ITEMS:,}.")
    from holdfast.apps.flood.demo import Demo
    from holdfast.apps.flood.naming import checked_region

    began = time.monotonic()
    try:
        show = Demo(home().absolute(), checked_region(region), items)
    except Permanent as problem:
        raise InvalidInput(f"--region: {problem}.") from None
    kept = False
    try:
        found = show.run()
        kept = keep
    except Permanent as problem:
        raise InvalidInput(f"{problem}.") from None
    finally:
        if kept:
            show.keep()
        else:
            show.stop()
    found["seconds"]["all"] = round(time.monotonic() - began, 1)
    if as_json:
        answer_json(found | {"outputs": str(show.outputs)})
        return 0
    seconds = found["seconds"]
    answer(
        f"\n{found['stacks']:,} stacks ({found['stack_bytes'] / 1e6:,.1f} MB) of {found['region']} are made and"
        f" {found['registered']:,} are registered; the job is {found['status']}, in its generation"
        f" {found['generation']}.\n"
        f"  {found['attempts_lost']} attempts went with the worker that was killed, and ran again;"
        f" {found['stacked_twice']} finished stacks were made twice.\n"
        f"  at most {_megabytes(found['peak_mb']['orchestrator'])} in the orchestrator,"
        f" {_megabytes(found['peak_mb']['worker'])} in a worker and {_megabytes(found['peak_mb']['handler'])} in a"
        f" process of a handler; {found['database_bytes'] / 1e6:,.1f} MB of database\n"
        f"  generate {seconds['generate']} s, stack and fail to register {seconds['run']} s,"
        f" retry {seconds['retry']} s; all {seconds['all']} s\n"
        f"\n  stacks     {show.storage}/silver/flood/{found['region']}\n"
        f"  catalog    {show.outputs}/catalog/catalog.json\n"
        f"  pictures   {show.outputs}/footprints.png\n"
        f"             {show.outputs}/contact-sheet.png"
    )
    if kept:
        pids = " ".join(str(process.pid) for process in show.processes if process.poll() is None)
        say(f"\nThe orchestrator and the workers stay up. Look around: holdfast status; end them with: kill {pids}")
    return 0


def _megabytes(size: float | None) -> str:
    return f"{size:,.0f} MB" if size is not None else "an unknown amount of memory"
