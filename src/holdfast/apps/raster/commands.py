"""`holdfast raster …`: looking after the storage of rasters."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.extend.commands import Json, PlainCommand, answer, answer_json, counted, parse_duration, say, size

app = typer.Typer(help="The storage of rasters on this machine.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def raster() -> None:
    pass


@app.command(cls=PlainCommand)
def sweep(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Not used for this long, such as 12h or 30d.")
    ] = "30d",
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this it is only told.")] = False,
    as_json: Json = False,
) -> int:
    """Remove scratch of jobs, drafts and copies of objects that nobody has used for a long time."""
    from holdfast.apps.raster import sweeping

    seconds = parse_duration(older_than, "--older-than")
    found = sweeping.sweep(seconds) if yes else sweeping.amounts(sweeping.leftovers(seconds))
    if as_json:
        told = {kind: amount._asdict() for kind, amount in found.items()}
        answer_json({"older_than_seconds": seconds, "removed": yes, **told})
        return 0
    if not any(amount.files for amount in found.values()):
        answer(f"There is nothing to remove that nobody has used for {older_than}.")
        return 0
    for kind, amount in found.items():
        answer(f"{kind:<8} {counted(amount.files, 'file')}, {size(amount.bytes)}{' removed' if yes else ''}")
    if not yes:
        say(f"  → Nothing was removed. Do it with: holdfast raster sweep --older-than {older_than} --yes")
    return 0
