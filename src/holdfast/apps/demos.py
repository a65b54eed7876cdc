"""`holdfast demo …`: demos of the apps on this machine. An app is imported only when its demo runs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from holdfast import InvalidInput, Permanent
from holdfast.extend.commands import Json, PlainCommand, answer, answer_json, home, say

MOST_ITEMS = 20_000

app = typer.Typer(help="Run a demo on this machine, with real files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def demo() -> None:
    pass


@app.command(cls=PlainCommand)
def flood(
    region: Annotated[str, typer.Option("--region", metavar="CODE", help="Three letters, such as RWA or CIV.")] = "RWA",
    items: Annotated[int, typer.Option("--items", metavar="N", help="How many stacks to make.")] = 234,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the orchestrator and the workers running at the end.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Stack and register flood maps. A worker is killed on the way; a registration fails and is retried."""
    if not 8 <= items <= MOST_ITEMS:
        raise InvalidInput(f"--items must be between 8 and {MOST_ITEMS:,}, not {items}.")
    from holdfast.apps.flood.demo import Demo
    from holdfast.apps.flood.naming import checked_region

    began = time.monotonic()
    try:
        show = Demo(home().absolute(), checked_region(region), items)
    except Permanent as problem:
        raise InvalidInput(f"--region: {problem}.") from None
    kept = False
    try:
        report = show.run()
        kept = keep
    except Permanent as problem:
        raise InvalidInput(f"{problem}.") from None
    finally:
        if kept:
            show.keep()
        else:
            show.stop()
    report["seconds"]["all"] = round(time.monotonic() - began, 1)
    if as_json:
        answer_json(report | {"outputs": str(show.outputs)})
        return 0
    seconds = report["seconds"]
    answer(
        f"\nThe job is {report['status']}, in generation {report['generation']}: {report['stacks']:,} stacks of"
        f" {report['region']} ({report['stack_bytes'] / 1e6:,.1f} MB) were made and {report['registered']:,} were"
        f" registered.\n"
        f"  The killed worker lost {report['attempts_lost']} attempts, which ran again."
        f" {report['stacked_twice']} finished stacks were made twice.\n"
        f"  Peak memory: {_megabytes(report['peak_mb']['orchestrator'])} in the orchestrator,"
        f" {_megabytes(report['peak_mb']['worker'])} in a worker, {_megabytes(report['peak_mb']['handler'])} in a"
        f" handler's process. Database: {report['database_bytes'] / 1e6:,.1f} MB.\n"
        f"  Time: {seconds['generate']} s to generate, {seconds['run']} s until the registration failed,"
        f" {seconds['retry']} s to retry, {seconds['all']} s in total.\n"
        f"\n  stacks     {show.storage}/silver/flood/{report['region']}\n"
        f"  catalog    {show.outputs}/catalog/catalog.json\n"
        f"  pictures   {show.outputs}/footprints.png\n"
        f"             {show.outputs}/contact-sheet.png"
    )
    if kept:
        pids = " ".join(str(process.pid) for process in show.processes if process.poll() is None)
        say(f"\nThe orchestrator and the workers keep running. Try: holdfast status. Stop them with: kill {pids}")
    return 0


def _megabytes(size: float | None) -> str:
    return f"{size:,.0f} MB" if size is not None else "an unknown amount"
