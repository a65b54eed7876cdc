"""The handlers of the flood workflows. They resolve paths and shape outputs; the other modules do the work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.flood.inventory import read_expected, take_inventory
from holdfast.apps.flood.listing import read_listing
from holdfast.apps.flood.merge import merge as merge_stacks
from holdfast.apps.flood.naming import Group
from holdfast.apps.flood.quicklook import contact_sheet, footprint_map
from holdfast.apps.flood.registering import finish, finish_one_by_one, register_one, register_page
from holdfast.apps.flood.stack import stack
from holdfast.apps.flood.storage import below
from holdfast.apps.raster.handlers import opening_rasters
from holdfast.apps.raster.storage import fetched, place, readable


@handler("flood.inventory")
def inventory(
    region: str, source: str, expected: dict[str, Any] | str | None = None, *, ctx: Context
) -> dict[str, Any]:
    """Find and group the source tiles of a region. `expected` has the expected groups, or the path of a manifest."""
    wanted = read_expected(fetched(place(expected))) if isinstance(expected, str) else expected
    output = take_inventory(region, place(source), wanted)
    ctx.log("inventory", **output["counts"], missing=output["missing"]["count"], empty=output["empty"]["count"])
    return output


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
    """Register one page of stacks in the catalog, all or none. Stacks that are registered already do not change."""
    return register_page(page, collection_id, title, ctx)


@handler("flood.finalize", database=True)
def finalize(collection_id: str, node: str, title: str | None = None, *, ctx: Context) -> dict[str, Any]:
    """Check that every stack of `node` is registered; returns the collection's extents, counts and summaries."""
    output = finish(collection_id, title, node, ctx)
    ctx.log("registered", items=output["items"], created=output["created"], unchanged=output["unchanged"])
    return output


@handler("flood.read_stacks")
def read_stacks(file: str, *, ctx: Context) -> Result:
    """Read the stacks that a file lists: what `holdfast results` wrote, or a JSON list of outputs."""
    output = read_listing(readable(file), file).to_json()
    left_out = output["left_out"]
    ctx.log("read", stacks=len(output["stacks"]), left_out=left_out["count"])
    statuses = ", ".join(f"{count:,} {status}" for status, count in left_out["statuses"].items())
    return Result(output, warnings=(f"left out of {file}: {statuses}",) if statuses else ())


@handler("flood.register_stack", database=True)
def register_stack(
    stack: dict[str, Any],
    collection_id: str,
    title: str | None = None,
    origin: dict[str, str] | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register one stack in the catalog. `origin` has the `job_id` and the `node` that made it, if not this one."""
    return register_one(stack, collection_id, title, origin or {}, ctx)


@handler("flood.finalize_stacks", database=True)
def finalize_stacks(
    collection_id: str, node: str, title: str | None = None, left_out: int = 0, *, ctx: Context
) -> dict[str, Any]:
    """Check that every stack of the fan-out `node` is registered, and count what it changed."""
    output = finish_one_by_one(collection_id, title, node, left_out, ctx)
    ctx.log("registered", **{name: count for name, count in output.items() if name != "collection_id"})
    return output


@opening_rasters("flood.merge")
def merge(
    target: str,
    stacks: list[str] | None = None,
    node: str | None = None,
    scenario: str | None = None,
    *,
    ctx: Context,
) -> Result:
    """Merge neighbouring stacks into the mosaic `target`: the listed `stacks`, or the outputs of a node."""
    hrefs = [fact["href"] for fact in _facts(stacks, node, ctx) if scenario in (None, fact.get("scenario"))]
    facts = {"scenario": scenario, **merge_stacks([(href, _local_file(href)) for href in hrefs], place(target), target)}
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
    """Draw `target/footprints.png` and `target/contact-sheet.png` of `stacks`, or of the outputs of a node.

    With `source` the thumbnails show the terrain from the source folder.
    """
    facts = sorted(_facts(stacks, node, ctx), key=lambda fact: str(fact["id"]))
    if not facts:
        raise Permanent("There is no stack to draw", code="FLOOD_GROUP")
    folder = place(target)
    pictures = {
        "map": footprint_map(facts, below(folder, "footprints.png"), title),
        "sheet": contact_sheet(
            facts, below(folder, "contact-sheet.png"), title, _local_file, place(source) if source else None, thumbnails
        ),
    }
    hrefs = {name: f"{target.rstrip('/')}/{picture['name']}" for name, picture in pictures.items()}
    output = {name: {"href": hrefs[name], **picture} for name, picture in pictures.items()}
    return Result(output, deliverables={"pictures": f"{target.rstrip('/')}/"})


def _local_file(href: str) -> Path:
    return fetched(place(href))


def _facts(stacks: list[Any] | None, node: str | None, ctx: Context) -> Iterator[dict[str, Any]]:
    """The facts of the stacks: from names or facts in `stacks`, or read page by page from a node's results."""
    if (stacks is None) == (node is None):
        raise Permanent("Set either `stacks` or the `node` that made them", code="FLOOD_GROUP")
    for fact in stacks if stacks is not None else ctx.results(str(node)):
        yield {"href": fact} if isinstance(fact, str) else fact
