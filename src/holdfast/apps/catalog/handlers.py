"""The handlers `raster.stac_…`, which register files in the catalog. All are idempotent."""

from __future__ import annotations

from typing import Any

from holdfast import Context, Permanent, Result, handler
from holdfast.apps.catalog import registering
from holdfast.apps.catalog.collection import new_collection
from holdfast.apps.catalog.interface import Json
from holdfast.apps.catalog.registering import (
    EXTRA_MISSING,
    STAC_COLLECTION_UNKNOWN,
    STAC_INVALID,
    STAC_REFUSED,
    STAC_UNREACHABLE,
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
    *,
    ctx: Context,
) -> Json:
    """Create or update a collection. Its extents come from its items; `properties` are additional fields."""
    collection = new_collection(collection_id, title, description, license, keywords, providers, properties)
    return {"collection_id": collection_id, "change": ensure(collection, ctx)}


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
    *,
    ctx: Context,
) -> Result | None:
    """Register one item, from STAC (`item`) or from the facts of its file (`facts`)."""
    if (item is None) == (facts is None):
        raise Permanent("raster.stac_register_item takes either 'item' or 'facts'", code=STAC_INVALID.code)
    source = item if item is not None else facts
    assert source is not None
    done = register(collection_id, [source], properties, ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    change = next(name for name, count in upserted.to_json().items() if count)
    return Result({"collection_id": collection_id, "item_id": source["id"], "change": change}, warnings=warnings)


@handler("raster.stac_register_items", database=True)
def register_items(
    collection_id: str,
    items: list[dict[str, Any]] | None = None,
    from_node: str | None = None,
    page: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register items, all or none: `items` as STAC or as facts, or the outputs of a node, whole or one `page` of them.

    `properties` are added to every item that does not have them.
    """
    if [items, from_node, page].count(None) != 2:
        raise Permanent(
            "raster.stac_register_items takes one of 'items', 'from_node' and 'page'", code=STAC_INVALID.code
        )
    asked = page if page is not None else {"node": from_node}
    sources = items if items is not None else list(ctx.results(**asked))
    done = register(collection_id, sources, properties, asked["node"] or ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    return Result({"collection_id": collection_id, "items": len(sources), **upserted.to_json()}, warnings=warnings)


@handler("raster.stac_finalize")
def finalize(collection_id: str, *, ctx: Context) -> Json:
    """Add up what the batches of this node have registered."""
    batches = list(ctx.results(ctx.node))
    counts = ("items", "created", "updated", "unchanged")
    return {"collection_id": collection_id, **{name: sum(batch[name] for batch in batches) for name in counts}}
