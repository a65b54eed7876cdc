"""`holdfast raster …`: maintenance of the raster storage on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.extend.commands import (
    Json,
    PlainCommand,
    PlainGroup,
    answer,
    answer_json,
    counted,
    parse_duration,
    say,
    size,
)

app = typer.Typer(
    cls=PlainGroup, help="Maintain the raster storage on this machine.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def raster() -> None:
    pass


@app.command(cls=PlainCommand, epilog="holdfast raster sweep\nholdfast raster sweep --older-than 7d --yes")
def sweep(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Only files not used for this long, such as 12h or 30d.")
    ] = "30d",
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the files. Without this option they are only listed.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Remove scratch files, drafts and copies that are old. They were not used for a long time; no job needs them."""
    from holdfast.apps.raster import sweeping

    seconds = parse_duration(older_than, "--older-than")
    amounts = sweeping.sweep(seconds) if yes else sweeping.amounts(sweeping.leftovers(seconds))
    if as_json:
        by_kind = {kind: amount._asdict() for kind, amount in amounts.items()}
        answer_json({"older_than_seconds": seconds, "removed": yes, **by_kind})
        return 0
    if not any(amount.files for amount in amounts.values()):
        answer(f"There is nothing to remove: no leftover file has been unused for {older_than}.")
        return 0
    for kind, amount in amounts.items():
        answer(f"{kind:<8} {counted(amount.files, 'file')}, {size(amount.bytes)}{' removed' if yes else ''}")
    if not yes:
        say(f"  → Nothing was removed. Remove them with: holdfast raster sweep --older-than {older_than} --yes")
    return 0
