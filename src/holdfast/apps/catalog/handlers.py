"""The handlers `raster.stac_…`, which register files in the catalog. All are idempotent."""

from __future__ import annotations

from typing import Any

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.catalog import named_cogs, registering
from holdfast.apps.catalog.collection import new_collection
from holdfast.apps.catalog.interface import Json
from holdfast.apps.catalog.named_cogs import platform
from holdfast.apps.catalog.registering import (
    EXTRA_MISSING,
    STAC_COLLECTION_UNKNOWN,
    STAC_INVALID,
    STAC_REFUSED,
    STAC_UNREACHABLE,
    as_failures,
    catalog_of,
    ensure,
    register,
)

__all__ = [
    "EXTRA_MISSING",
    "STAC_COLLECTION_UNKNOWN",
    "STAC_INVALID",
    "STAC_REFUSED",
    "STAC_UNREACHABLE",
    "check_properties",
    "ensure_collection",
    "finalize",
    "register_item",
    "register_items",
]


@handler("raster.stac_ensure_collection", database=True)
def ensure_collection(
    collection_id: str,
    title: str | None = None,
    description: str | None = None,
    license: str = "other",
    keywords: list[str] | None = None,
    providers: list[dict[str, Any]] | None = None,
    properties: dict[str, Any] | None = None,
    bounds: list[float] | None = None,
    grid_dimensions: dict[str, Any] | None = None,
    is_tiled: bool = False,
    dataset_id: str | None = None,
    access_level: str | None = None,
    *,
    ctx: Context,
) -> Json:
    """Create or update a collection. Its extents come from its items; `properties` are additional fields.

    `bounds`, `grid_dimensions` and `is_tiled` are accepted and change nothing: the items know better.
    """
    with as_failures():
        named = platform(dataset_id=dataset_id, access_level=access_level)
        fields = named_cogs.properties_named(properties, **named)
    collection = new_collection(collection_id, title or None, description, license, keywords, providers, fields)
    change = ensure(collection, ctx)
    return {
        "collection_id": collection_id,
        "change": change,
        "created": change == "created",
        "updated": change == "updated",
    }


@handler("raster.stac_check_properties")
def check_properties(properties: dict[str, Any]) -> Json:
    """Fail if no item could have these properties, so that a job ends before it makes files that it cannot register."""
    registering.check_properties(properties)
    return {"properties": len(properties)}


@handler("raster.stac_register_item", database=True)
def register_item(
    collection_id: str,
    item: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    cog_blob: str | None = None,
    cog_container: str | None = None,
    validation: dict[str, Any] | None = None,
    item_id: str | None = None,
    title: str | None = None,
    tags: list[str] | None = None,
    dataset_id: str | None = None,
    resource_id: str | None = None,
    version_id: str | None = None,
    access_level: str | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register one item: from STAC (`item`), from the facts of its file (`facts`), or the COG `cog_blob`."""
    if [item, facts, cog_blob].count(None) != 2:
        raise Permanent("raster.stac_register_item takes one of 'item', 'facts' and 'cog_blob'", code=STAC_INVALID.code)
    source = item if item is not None else facts
    remarks: tuple[str, ...] = ()
    with as_failures():
        if cog_blob is not None:
            made = named_cogs.facts_of_cog(cog_container, cog_blob, validation, item_id or None)
            (source,), remarks = named_cogs.with_times([made], catalog_of(ctx), collection_id)
        assert source is not None
        source = {**source, "id": item_id} if item_id else source
        named = named_cogs.properties_named(
            properties,
            title=title,
            keywords=tags,
            **platform(
                dataset_id=dataset_id, resource_id=resource_id, version_id=version_id, access_level=access_level
            ),
        )
    done = register(collection_id, [source], named, ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    change = next(name for name, count in upserted.to_json().items() if count)
    output = {"collection_id": collection_id, "item_id": source["id"], "change": change, "inserted": True}
    return Result(output, warnings=(*remarks, *warnings))


@handler("raster.stac_register_items", database=True)
def register_items(
    collection_id: str,
    items: list[dict[str, Any]] | None = None,
    from_node: str | None = None,
    page: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    tile_cogs: list[dict[str, Any]] | None = None,
    cog_container: str | None = None,
    validation: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    dataset_id: str | None = None,
    resource_id: str | None = None,
    version_id: str | None = None,
    access_level: str | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register items, all or none: `items` as STAC or as facts, or the outputs of a node, whole or one `page` of them.

    `tile_cogs` are the tiles of `raster.process_tile_batch`, which describe themselves: `validation` adds nothing.
    `properties` are added to every item that does not have them.
    """
    if [items, from_node, page, tile_cogs].count(None) != 3:
        raise Permanent(
            "raster.stac_register_items takes one of 'items', 'from_node', 'page' and 'tile_cogs'",
            code=STAC_INVALID.code,
        )
    asked = page if page is not None else {"node": from_node}
    remarks: tuple[str, ...] = ()
    with as_failures():
        if tile_cogs is not None:
            tiles = [named_cogs.facts_of_tile(tile, cog_container) for tile in tile_cogs]
            items, remarks = named_cogs.with_times(tiles, catalog_of(ctx), collection_id)
        named = named_cogs.properties_named(
            properties,
            keywords=tags,
            **platform(
                dataset_id=dataset_id, resource_id=resource_id, version_id=version_id, access_level=access_level
            ),
        )
    sources = items if items is not None else list(ctx.results(**asked))
    done = register(collection_id, sources, named, asked["node"] or ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    output = {"collection_id": collection_id, "items": len(sources), **upserted.to_json()}
    if tile_cogs is not None:
        output |= {"items_created": len(sources), "items_failed": 0, "item_ids": [one["id"] for one in sources]}
    return Result(output, warnings=(*remarks, *warnings))


@handler("raster.stac_finalize")
def finalize(collection_id: str, *, ctx: Context) -> Json:
    """Add up what the batches of this node have registered."""
    batches = list(ctx.results(ctx.node))
    counts = ("items", "created", "updated", "unchanged")
    return {"collection_id": collection_id, **{name: sum(batch[name] for batch in batches) for name in counts}}
