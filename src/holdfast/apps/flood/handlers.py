"""The handlers of the flood workflows: where things lie, and what is told; the work is done by the modules beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.flood.inventory import read_expected, take_inventory
from holdfast.apps.flood.merge import merge as merge_stacks
from holdfast.apps.flood.naming import Group
from holdfast.apps.flood.quicklook import contact_sheet, footprint_map
from holdfast.apps.flood.registering import finish, register_page
from holdfast.apps.flood.stack import stack
from holdfast.apps.flood.storage import below
from holdfast.apps.raster.handlers import opening_rasters
from holdfast.apps.raster.storage import fetched, place


@handler("flood.inventory")
def inventory(
    region: str, source: str, expected: dict[str, Any] | str | None = None, *, ctx: Context
) -> dict[str, Any]:
    """Find and group the source tiles of a region; `expected` is what should be there, or a JSON file that says so."""
    wanted = read_expected(fetched(place(expected))) if isinstance(expected, str) else expected
    found = take_inventory(region, place(source), wanted)
    ctx.log("inventory", **found["counts"], missing=found["missing"]["count"], empty=found["empty"]["count"])
    return found


@opening_rasters("flood.band_stack")
def band_stack(group: Group, source: str, target: str, *, ctx: Context) -> Result:
    """Make the stack of one group: `target/REGION/scenario/PLACE.tif`."""
    href = f"{target.rstrip('/')}/{group.id}.tif"
    facts = stack(group, place(source), place(href), href)
    ctx.log("kept" if facts["reused"] else "stacked", href=href, bytes=facts["bytes"])
    return Result(facts, warnings=tuple(facts["warnings"]), deliverables={"cogs": href})


@handler("flood.register_batch", database=True)
def register_batch(
    page: dict[str, Any], collection_id: str, title: str | None = None, *, ctx: Context
) -> Result | None:
    """Register one page of stacks in the catalog, all or none; those that are there already stay as they are."""
    return register_page(page, collection_id, title, ctx)


@handler("flood.finalize", database=True)
def finalize(collection_id: str, node: str, title: str | None = None, *, ctx: Context) -> dict[str, Any]:
    """See that every stack of `node` is registered, and tell the extent, the counts and the summaries of it all."""
    found = finish(collection_id, title, node, ctx)
    ctx.log("registered", items=found["items"], created=found["created"], unchanged=found["unchanged"])
    return found


@opening_rasters("flood.merge")
def merge(
    target: str,
    stacks: list[str] | None = None,
    node: str | None = None,
    scenario: str | None = None,
    *,
    ctx: Context,
) -> Result:
    """Merge neighbouring stacks into the mosaic `target`: those named, or those that a node's items have made."""
    hrefs = [fact["href"] for fact in _facts(stacks, node, ctx) if scenario in (None, fact.get("scenario"))]
    facts = {"scenario": scenario, **merge_stacks([(href, _found(href)) for href in hrefs], place(target), target)}
    ctx.log("kept" if facts["reused"] else "merged", href=target, stacks=len(hrefs), bytes=facts["bytes"])
    return Result(facts, warnings=tuple(facts["warnings"]), deliverables={"mosaics": target})


@opening_rasters("flood.quicklook")
def quicklook(
    target: str,
    stacks: list[dict[str, Any]] | None = None,
    node: str | None = None,
    source: str | None = None,
    title: str = "Flood hazard",
    thumbnails: int = 12,
    *,
    ctx: Context,
) -> Result:
    """Draw `target/footprints.png` and `target/contact-sheet.png` of stacks: the outputs given, or those of a node.

    With `source` the thumbnails lie on the terrain that the source folder has.
    """
    facts = sorted(_facts(stacks, node, ctx), key=lambda fact: str(fact["id"]))
    if not facts:
        raise Permanent("There is no stack to look at", code="FLOOD_GROUP")
    folder = place(target)
    pictures = {
        "map": footprint_map(facts, below(folder, "footprints.png"), title),
        "sheet": contact_sheet(
            facts, below(folder, "contact-sheet.png"), title, _found, place(source) if source else None, thumbnails
        ),
    }
    hrefs = {name: f"{target.rstrip('/')}/{picture['name']}" for name, picture in pictures.items()}
    output = {name: {"href": hrefs[name], **picture} for name, picture in pictures.items()}
    return Result(output, deliverables={"pictures": f"{target.rstrip('/')}/"})


def _found(href: str) -> Path:
    return fetched(place(href))


def _facts(stacks: list[Any] | None, node: str | None, ctx: Context) -> Iterator[dict[str, Any]]:
    """The stacks meant: given by name or with all their facts, or read page by page from a node's results."""
    if (stacks is None) == (node is None):
        raise Permanent("Say either `stacks` or the `node` that made them", code="FLOOD_GROUP")
    for fact in stacks if stacks is not None else ctx.results(str(node)):
        yield {"href": fact} if isinstance(fact, str) else fact
