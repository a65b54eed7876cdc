"""`holdfast stac …`: list the catalog, find the items that a job made, and export plain files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import InvalidInput, NotFound, Refused
from holdfast.apps.catalog.interface import CONTENT_HASH, JOB, NODE, Catalog, Json, all_items
from holdfast.extend.commands import (
    DatabaseUrl,
    PlainCommand,
    PlainGroup,
    answer,
    answer_json,
    harmless,
    home,
    say,
    use_database,
)
from holdfast.extend.commands import Json as AsJson

if TYPE_CHECKING:
    from rich.table import Table
from holdfast.extend.commands import (
    show as display,
)

SHORTEST_ENDING = 6

app = typer.Typer(
    cls=PlainGroup,
    help="The catalog of registered items: list, show, find, export.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Collection = Annotated[
    list[str], typer.Option("--collection", metavar="COLLECTION", help="Only this collection; may be repeated.")
]


@app.command("list", cls=PlainCommand, epilog="holdfast stac list")
def list_collections(as_json: AsJson = False, database_url: DatabaseUrl = None) -> int:
    """List the collections with their number of items and their extents."""
    with _catalog(database_url) as catalog:
        summaries = [summary.to_json() for summary in catalog.summaries()]
    if as_json:
        answer_json({"collections": summaries})
        return 0
    if not summaries:
        answer("There are no collections yet.")
        return 0
    table = _table("collection", "items", "from", "to", "west, south, east, north", "title")
    for summary in summaries:
        begin, end = summary["interval"] or ("", "")
        bbox = ", ".join(f"{degrees:g}" for degrees in summary["bbox"] or ())
        title = harmless(summary["title"] or "")
        table.add_row(summary["collection_id"], f"{summary['items']:,}", begin[:10], end[:10], bbox, title)
    display(table)
    return 0


@app.command(cls=PlainCommand, epilog="holdfast stac show civ-coast --collection flood-civ")
def show(
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Id of the item.")],
    collection: Collection = [],  # noqa: B006
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show one item: its file, its place and time, and its job."""
    with _catalog(database_url) as catalog:
        items = catalog.search(ids=[item], collections=collection or None).items
    if not items:
        raise NotFound(
            f"There is no item {item}.", remedy="List the collections with: holdfast stac list", instance=item
        )
    if len(items) > 1:
        places = ", ".join(match["collection"] for match in items)
        raise Refused(f"Several collections have an item {item}: {places}.", remedy="Choose one with: --collection")
    if as_json:
        answer_json(items[0])
        return 0
    for line in _lines(items[0]):
        answer(harmless(line))
    return 0


@app.command(cls=PlainCommand, epilog="holdfast stac find --job 1a2b3c4d\nholdfast stac find --external platform:id=7")
def find(
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Made by this job: its id, or at least its last 6 characters."),
    ] = None,
    content_hash: Annotated[
        str | None, typer.Option("--hash", metavar="SHA256", help="The sha256 of the item's file.")
    ] = None,
    external: Annotated[
        list[str],
        typer.Option(
            "--external", metavar="NAME=VALUE", help="With this property, such as platform:id=7; may be repeated."
        ),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Find items by job, by the hash of their file, or by a property.

    A property can be the id that another system gave the item, for example.
    """
    if job is None and content_hash is None and not external:
        raise InvalidInput("`find` needs a criterion.", remedy="Use --job JOB, --hash SHA256 or --external NAME=VALUE.")
    with _catalog(database_url) as catalog:
        wanted: dict[str, Any] = {"content_hash": content_hash.lower() if content_hash is not None else None}
        if job is not None:
            wanted["job_id"] = _job(catalog, job)
        items = _with_properties(catalog, wanted, external)
    if as_json:
        answer_json({"items": items})
        return 0
    if not items:
        say("No item matches.")
        return 0
    table = _table("item", "collection", "job", "node", "asset")
    for item in items:
        properties = item["properties"]
        hrefs = ", ".join(str(asset["href"]) for asset in item["assets"].values())
        cells = (properties.get(JOB), properties.get(NODE), hrefs)
        table.add_row(item["id"], item["collection"], *(harmless(str(text or "")) for text in cells))
    display(table)
    return 0


@app.command(cls=PlainCommand, epilog="holdfast stac export catalog --collection flood-civ")
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory, or an earlier export.")],
    collection: Collection = [],  # noqa: B006
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage", metavar="PLACE", help="Directory or URL of the files. Default: HOLDFAST_HOME/storage."
        ),
    ] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Write the catalog as plain files that any STAC tool opens."""
    from holdfast.apps.catalog.export import export as write_files

    with _catalog(database_url) as catalog:
        try:
            written = write_files(catalog, directory, storage or str(home() / "storage"), collection or None)
        except OSError as error:
            raise InvalidInput(
                f"The export cannot be written to {str(directory)[:200]}: {error.strerror}.",
                remedy="Use a directory whose parent is writable.",
            ) from None
    if as_json:
        answer_json(written.to_json())
    else:
        amount = f"{_counted(written.collections, 'collection')} with {_counted(written.items, 'item')}"
        answer(f"Wrote {amount} to {written.directory}.")
    return 0


@contextmanager
def _catalog(database_url: str | None) -> Iterator[Catalog]:
    from holdfast.apps.catalog.postgres import PostgresCatalog

    with use_database(database_url) as url:
        yield PostgresCatalog(url)


def _job(catalog: Catalog, ending: str) -> str:
    """The full id of the job with this ending; the ending itself if no such job made an item."""
    if len(ending) < SHORTEST_ENDING:
        raise InvalidInput(
            f"'{ending}' is too short for a job id.", remedy="Use at least the last 6 characters of the id."
        )
    job_ids = catalog.jobs_ending(ending.lower())
    if len(job_ids) > 1:
        raise Refused(f"Several jobs end with {ending}: {', '.join(job_ids)}.", remedy="Use more characters of the id.")
    return job_ids[0] if job_ids else ending


def _with_properties(catalog: Catalog, wanted: dict[str, Any], external: list[str]) -> list[Json]:
    """The items that match all criteria. Each value is tried as text and as JSON."""
    matching: dict[tuple[str, str], Json] | None = None
    assignments: list[str | None] = [*external] or [None]
    for assignment in assignments:
        items = {
            (item["collection"], item["id"]): item
            for properties in _readings(assignment)
            for item in all_items(catalog, **wanted, properties=properties)
        }
        matching = items if matching is None else {key: matching[key] for key in matching.keys() & items.keys()}
    return [item for _, item in sorted((matching or {}).items())]


def _readings(assignment: str | None) -> list[Json | None]:
    if assignment is None:
        return [None]
    name, equals, text = assignment.partition("=")
    if not name or not equals:
        raise InvalidInput(f"'{assignment}' is not NAME=VALUE.", remedy="Write: --external platform:dataset_id=42")
    readings: list[Json | None] = [{name: text}]
    with contextlib.suppress(ValueError):
        readings.append({name: json.loads(text)})
    return readings


def _lines(item: Json) -> list[str]:
    properties = item["properties"]
    when = properties.get("datetime") or f"{properties.get('start_datetime')} to {properties.get('end_datetime')}"
    bbox = ", ".join(f"{degrees:g}" for degrees in item.get("bbox") or ())
    fields = [("collection", item["collection"]), ("when", when), ("where", bbox)]
    fields += [("job", properties.get(JOB)), ("node", properties.get(NODE)), ("sha256", properties.get(CONTENT_HASH))]
    fields += [("registered", properties["created"]), ("changed", properties["updated"])]
    fields += [(name, str(value)) for name, value in properties.items() if _is_external(name)]
    fields += [(f"asset {key}", asset["href"]) for key, asset in item["assets"].items()]
    width = max(len(name) for name, _ in fields)
    return [item["id"], *(f"  {name:<{width}}  {text}" for name, text in fields if text)]


def _is_external(name: str) -> bool:
    return ":" in name and not name.startswith(("holdfast:", "proj:", "raster:", "file:"))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
