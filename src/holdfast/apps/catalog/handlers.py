"""The handlers `raster.stac_…`, which register files in the catalog. All are idempotent."""

from __future__ import annotations

from typing import Any

from holdfast import Context, Permanent, Result, handler
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
    "ensure_collection",
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
    properties: dict[str, Any] | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register items, all or none: `items` as STAC or as facts, or the outputs of the node `from_node`.

    `properties` are added to every item that does not have them.
    """
    if (items is None) == (from_node is None):
        raise Permanent("raster.stac_register_items takes either 'items' or 'from_node'", code=STAC_INVALID.code)
    sources = items if items is not None else list(ctx.results(str(from_node)))
    done = register(collection_id, sources, properties, from_node or ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    return Result({"collection_id": collection_id, "items": len(sources), **upserted.to_json()}, warnings=warnings)
