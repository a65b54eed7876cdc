"""`holdfast stac …`: looking at the catalog, finding what a job has made, and writing a static copy."""

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

app = typer.Typer(help="The catalog of what was made: list, find, export.", no_args_is_help=True, rich_markup_mode=None)

Collection = Annotated[
    list[str], typer.Option("--collection", metavar="COLLECTION", help="Only this collection; may be repeated.")
]


@app.command("list", cls=PlainCommand)
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


@app.command(cls=PlainCommand)
def show(
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Id of the item.")],
    collection: Collection = [],  # noqa: B006
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Show one item: where it lies, what it is, and which job made it."""
    with _catalog(database_url) as catalog:
        found = catalog.search(ids=[item], collections=collection or None).items
    if not found:
        raise NotFound(
            f"There is no item {item}.", remedy="See the collections with: holdfast stac list", instance=item
        )
    if len(found) > 1:
        places = ", ".join(one["collection"] for one in found)
        raise Refused(f"Several collections have an item {item}: {places}.", remedy="Name one with: --collection")
    if as_json:
        answer_json(found[0])
        return 0
    for line in _lines(found[0]):
        answer(harmless(line))
    return 0


@app.command(cls=PlainCommand)
def find(
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Made by this job: its id, or its last 6 characters or more."),
    ] = None,
    content_hash: Annotated[
        str | None, typer.Option("--hash", metavar="SHA256", help="Whose file has this sha256.")
    ] = None,
    external: Annotated[
        list[str],
        typer.Option("--external", metavar="NAME=VALUE", help="With this property, as platform:id=7; may be repeated."),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Find items by the job that made them, by the hash of their file, or by an id that somebody else gave them."""
    if job is None and content_hash is None and not external:
        raise InvalidInput("Nothing to look for.", remedy="Give --job JOB, --hash SHA256 or --external NAME=VALUE.")
    with _catalog(database_url) as catalog:
        wanted: dict[str, Any] = {"content_hash": content_hash.lower() if content_hash is not None else None}
        if job is not None:
            wanted["job_id"] = _job(catalog, job)
        found = _with_properties(catalog, wanted, external)
    if as_json:
        answer_json({"items": found})
        return 0
    if not found:
        say("No item fits.")
        return 0
    table = _table("item", "collection", "job", "node", "asset")
    for one in found:
        properties = one["properties"]
        hrefs = ", ".join(str(asset["href"]) for asset in one["assets"].values())
        told = (properties.get(JOB), properties.get(NODE), hrefs)
        table.add_row(one["id"], one["collection"], *(harmless(str(text or "")) for text in told))
    display(table)
    return 0


@app.command(cls=PlainCommand)
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory, or an earlier export.")],
    collection: Collection = [],  # noqa: B006
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage", metavar="PLACE", help="Directory or URL below which files lie. Default: our own storage."
        ),
    ] = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Write the catalog as plain files that any STAC tool opens."""
    from holdfast.apps.catalog.export import export as write_copy

    with _catalog(database_url) as catalog:
        try:
            written = write_copy(catalog, directory, storage or str(home() / "storage"), collection or None)
        except OSError as error:
            raise InvalidInput(
                f"The copy cannot be written to {str(directory)[:200]}: {error.strerror}.",
                remedy="Name a directory whose parent can be written.",
            ) from None
    if as_json:
        answer_json(written.to_json())
    else:
        told = f"{_counted(written.collections, 'collection')} with {_counted(written.items, 'item')}"
        answer(f"Wrote {told} to {written.directory}.")
    return 0


@contextmanager
def _catalog(database_url: str | None) -> Iterator[Catalog]:
    from holdfast.apps.catalog.postgres import PostgresCatalog

    with use_database(database_url) as url:
        yield PostgresCatalog(url)


def _job(catalog: Catalog, given: str) -> str:
    """A job's id from its ending; of a job that made nothing, as it was given."""
    if len(given) < SHORTEST_ENDING:
        raise InvalidInput(f"'{given}' is too short for a job.", remedy="Give at least 6 characters of its id's end.")
    found = catalog.jobs_ending(given.lower())
    if len(found) > 1:
        raise Refused(f"Several jobs end with {given}: {', '.join(found)}.", remedy="Give more of its id.")
    return found[0] if found else given


def _with_properties(catalog: Catalog, wanted: dict[str, Any], external: list[str]) -> list[Json]:
    """The items that fit everything; a value is taken as the text that it is, and as JSON."""
    fitting: dict[tuple[str, str], Json] | None = None
    assignments: list[str | None] = [*external] or [None]
    for assignment in assignments:
        found = {
            (item["collection"], item["id"]): item
            for properties in _readings(assignment)
            for item in all_items(catalog, **wanted, properties=properties)
        }
        fitting = found if fitting is None else {key: fitting[key] for key in fitting.keys() & found.keys()}
    return [item for _, item in sorted((fitting or {}).items())]


def _readings(assignment: str | None) -> list[Json | None]:
    if assignment is None:
        return [None]
    name, equals, text = assignment.partition("=")
    if not name or not equals:
        raise InvalidInput(f"'{assignment}' has no value.", remedy="Write it as: --external platform:dataset_id=42")
    readings: list[Json | None] = [{name: text}]
    with contextlib.suppress(ValueError):
        readings.append({name: json.loads(text)})
    return readings


def _lines(item: Json) -> list[str]:
    properties = item["properties"]
    when = properties.get("datetime") or f"{properties.get('start_datetime')} to {properties.get('end_datetime')}"
    bbox = ", ".join(f"{degrees:g}" for degrees in item.get("bbox") or ())
    told = [("collection", item["collection"]), ("when", when), ("where", bbox)]
    told += [("job", properties.get(JOB)), ("node", properties.get(NODE)), ("sha256", properties.get(CONTENT_HASH))]
    told += [("registered", properties["created"]), ("changed", properties["updated"])]
    told += [(name, str(value)) for name, value in properties.items() if _is_external(name)]
    told += [(f"asset {key}", asset["href"]) for key, asset in item["assets"].items()]
    width = max(len(name) for name, _ in told)
    return [item["id"], *(f"  {name:<{width}}  {text}" for name, text in told if text)]


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
