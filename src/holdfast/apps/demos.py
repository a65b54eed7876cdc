"""`holdfast demo …`: demos of the apps on this machine. An app is imported only when its demo runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import InvalidInput, Permanent
from holdfast.extend.commands import Json, PlainCommand, PlainGroup, answer, answer_json, counted, home

if TYPE_CHECKING:
    from holdfast.apps.staging import Services

MOST_ITEMS = 20_000
Keep = Annotated[bool, typer.Option("--keep", help="Keep everything running at the end, until Ctrl-C.")]

app = typer.Typer(cls=PlainGroup, rich_markup_mode=None)


@app.callback(
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
    epilog="holdfast demo\nholdfast demo --keep\nholdfast demo flood",
)
def demo(context: typer.Context, keep: Keep = False, as_json: Json = False) -> int:
    """Break a job of 40 real files, and continue it."""
    if context.invoked_subcommand is not None:
        if keep or as_json:
            flag = "--keep" if keep else "--json"
            raise InvalidInput(f"{flag} stands before the name of the demo.", remedy=f"Put {flag} behind it.")
        return 0
    from holdfast.apps.words.demo import Demo

    began = time.monotonic()
    show = Demo(home())
    report = _run(show.run, show.services, keep=keep)
    report["seconds"] = round(time.monotonic() - began, 1)
    if as_json:
        answer_json(report)
    else:
        _answer_words(report)
    if keep:
        show.services.keep()
    return 0


def _answer_words(report: dict[str, Any]) -> None:
    job = report["job_id"][-8:]
    answer(
        f"\nThe job is {report['status']}: {report['files']} files were counted, {report['words']:,} words in all.\n"
        f"  The killed worker lost {counted(report['attempts_lost'], 'attempt')}, which ran again."
        f" {_happened(report['counted_twice'], 'file')} counted twice.\n"
        f"  It took {report['seconds']} s. The report is in {report['report']}\n"
        f"\nNext      holdfast events {job}   everything that happened, in order\n"
        f"          holdfast init PATH   write a small project of your own\n"
        f"          holdfast demo flood   the same with rasters and a catalog, in a minute\n"
        f"          holdfast --help   all commands"
    )


def _happened(number: int, noun: str) -> str:
    """`1 file was`, `3 files were`"""
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"


@app.command(cls=PlainCommand, epilog="holdfast demo flood\nholdfast demo flood --region CIV --items 40 --keep")
def flood(
    region: Annotated[str, typer.Option("--region", metavar="CODE", help="Three letters, such as RWA or CIV.")] = "RWA",
    items: Annotated[int, typer.Option("--items", metavar="N", help="How many stacks to make.")] = 234,
    keep: Keep = False,
    as_json: Json = False,
) -> int:
    """Stack and register flood maps. A worker is killed on the way; a registration fails and is retried."""
    if not 8 <= items <= MOST_ITEMS:
        raise InvalidInput(f"--items must be between 8 and {MOST_ITEMS:,}, not {items}.")
    try:
        from holdfast.apps.flood.demo import Demo
    except ImportError as missing:
        raise InvalidInput(
            f"The flood demo needs libraries for rasters, which are not installed: {missing.name or missing}.",
            remedy="Install them with: pip install 'holdfast[geo]'. Without them, run: holdfast demo",
        ) from None
    from holdfast.apps.flood.naming import checked_region

    began = time.monotonic()
    try:
        show = Demo(home().absolute(), checked_region(region), items)
    except Permanent as problem:
        raise InvalidInput(f"--region: {problem}.") from None
    report = _run(show.run, show.services, keep=keep)
    report["seconds"]["all"] = round(time.monotonic() - began, 1)
    report["outputs"] = str(show.outputs)
    if as_json:
        answer_json(report)
    else:
        link = show.link_to(report["job_id"]) if keep else None
        _answer_flood(report, f"{show.storage}/silver/flood/{report['region']}", link)
    if keep:
        show.services.keep()
    return 0


def _answer_flood(report: dict[str, Any], stacks: str, link: str | None) -> None:
    seconds = report["seconds"]
    answer(
        f"\nThe job is {report['status']}, in generation {report['generation']}: {report['stacks']:,} stacks of"
        f" {report['region']} ({report['stack_bytes'] / 1e6:,.1f} MB) were made and {report['registered']:,} were"
        f" registered.\n"
        f"  The killed worker lost {counted(report['attempts_lost'], 'attempt')}, which ran again."
        f" {_happened(report['stacked_twice'], 'finished stack')} made twice.\n"
        f"  Peak memory: {_megabytes(report['peak_mb']['orchestrator'])} in the orchestrator,"
        f" {_megabytes(report['peak_mb']['worker'])} in a worker, {_megabytes(report['peak_mb']['handler'])} in a"
        f" handler's process. Database: {report['database_bytes'] / 1e6:,.1f} MB.\n"
        f"  Time: {seconds['generate']} s to generate, {seconds['run']} s until the registration failed,"
        f" {seconds['retry']} s to retry, {seconds['all']} s in total.\n"
        f"\n  stacks     {stacks}\n"
        f"  catalog    {report['outputs']}/catalog/catalog.json\n"
        f"  pictures   {report['outputs']}/footprints.png\n"
        f"             {report['outputs']}/contact-sheet.png\n"
        f"  web UI     {_where_the_ui_is(report['web_ui'], link)}"
    )


def _where_the_ui_is(address: str | None, link: str | None) -> str:
    if address is None:
        return "not there: npm could not be reached, or the HTTP service did not start. To build it: make ui"
    if link is not None:
        return f"{address}\n             sign in, once and within a minute: {link}"
    return (
        f"{address}\n"
        "             while `holdfast up` runs, which prints a link to sign in. To leave it up: make demo KEEP=1"
    )


def _run(run: Callable[[], dict[str, Any]], services: Services, *, keep: bool) -> dict[str, Any]:
    """Run a demo. Its services end, unless it went well and they are kept."""
    kept = False
    try:
        report = run()
        kept = keep
    except Permanent as problem:
        raise InvalidInput(f"{problem}.") from None
    finally:
        if not kept:
            services.stop()
    return report


def _megabytes(size: float | None) -> str:
    return f"{size:,.0f} MB" if size is not None else "an unknown amount"
