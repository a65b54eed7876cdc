"""Registers stacks in the catalog, page by page or one by one, and checks at the end that none is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast import Context, Permanent, Result
from holdfast.apps.catalog.collection import new_collection
from holdfast.apps.catalog.interface import CONTENT_HASH, Catalog, CollectionSummary, all_items
from holdfast.apps.catalog.registering import STAC_COLLECTION_UNKNOWN, as_failures, catalog_of, ensure, register
from holdfast.apps.flood.naming import years_of

NAMES_SHOWN = 5


def item_id(stack: Mapping[str, Any]) -> str:
    """The stack's id without slashes, because it becomes a file name."""
    return f"{stack['region']}-{stack['scenario']}-{stack['place']}"


def facts_of(stack: Mapping[str, Any]) -> dict[str, Any]:
    """The output of `flood.band_stack` as the facts that the catalog expects."""
    return {
        "id": item_id(stack),
        "title": f"{stack['scenario'].replace('_', ' ')} in {stack['place']}",
        "href": stack["href"],
        "asset_key": "stack",
        "bbox": stack["bbox"],
        "geometry": stack["footprint"],
        "crs": stack["crs"],
        "shape": stack["shape"],
        "transform": stack["transform"],
        "datetime": stack["datetime"],
        "sha256": stack["sha256"],
        "size_bytes": stack["bytes"],
        "bands": [_band(band) for band in stack["bands"]],
        "properties": {
            "flood:region": stack["region"],
            "flood:scenario": stack["scenario"],
            "flood:place": stack["place"],
            "flood:return_periods": stack["return_periods"],
            "flood:max_depth_m": stack["max_depth_m"],
        },
    }


def _band(band: Mapping[str, Any]) -> dict[str, Any]:
    statistics = {name: band.get(name) for name in ("minimum", "maximum", "mean")}
    return {
        "name": band["name"],
        "description": f"water depth of the flood with a return period of {years_of(band['name'])} years",
        "dtype": band["dtype"],
        "nodata": band["nodata"],
        "unit": band["unit"],
        "statistics": statistics | {"valid_percent": round(100 * band["valid_share"], 4)},
        "flood:return_period": years_of(band["name"]),
        "flood:wet_share": band["wet_share"],
    }


def register_page(page: Mapping[str, Any], collection_id: str, title: str | None, ctx: Context) -> Result | None:
    """Register the stacks of one page of results, all or none; None if asked to stop."""
    stacks = [facts_of(stack) for stack in ctx.results(**page)]
    if _summary(catalog_of(ctx), collection_id) is None:
        _write_collection(collection_id, title, None, ctx)
    done = register(collection_id, stacks, None, page["node"], ctx)
    if done is None:
        return None
    upserted, warnings = done
    return Result({"items": len(stacks), **upserted.to_json()}, warnings=warnings)


def register_one(
    stack: Mapping[str, Any], collection_id: str, title: str | None, origin: Mapping[str, str], ctx: Context
) -> Result | None:
    """Register one stack as made by its `origin`, a job and a node; None if asked to stop."""
    facts = {**facts_of(stack), **origin}
    try:
        done = register(collection_id, [facts], None, ctx.node, ctx)
    except Permanent as problem:
        if problem.code != STAC_COLLECTION_UNKNOWN.code:
            raise
        _write_collection(collection_id, title, None, ctx)
        done = register(collection_id, [facts], None, ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    change = next(name for name, count in upserted.to_json().items() if count)
    return Result({"item_id": facts["id"], "sha256": facts["sha256"], "change": change}, warnings=warnings)


def finish(collection_id: str, title: str | None, node: str, ctx: Context) -> dict[str, Any]:
    """Check that the current version of every stack is registered; returns facts of the collection."""
    batches = list(ctx.results(ctx.node))
    stacks = {item_id(stack): stack["sha256"] for stack in ctx.results(node)}
    registered = _registered(collection_id, stacks, ctx.node, ctx)
    ours = [registered[name] for name in stacks]
    if stacks:
        _write_collection(collection_id, title, ours, ctx)
    summary = _summary(catalog_of(ctx), collection_id)
    return {
        "collection_id": collection_id,
        "items": summary.items if summary is not None else 0,
        "registered": len(stacks),
        **{change: sum(batch[change] for batch in batches) for change in ("created", "updated", "unchanged")},
        "bbox": summary.bbox if summary is not None else None,
        "interval": list(summary.interval) if summary is not None and summary.interval is not None else None,
        "scenarios": sorted({properties["flood:scenario"] for properties in ours}),
        "max_depth_m": max(_depths(ours), default=None),
    }


def finish_one_by_one(collection_id: str, title: str | None, node: str, left_out: int, ctx: Context) -> dict[str, Any]:
    """Check that every stack that `node` has registered is there; returns the counts.

    The stacks may be a part of the collection, so its summaries are made of all its stacks.
    """
    outputs = list(ctx.results(node))
    registered = _registered(collection_id, {one["item_id"]: one["sha256"] for one in outputs}, node, ctx)
    _write_collection(collection_id, title, [one for one in registered.values() if "flood:scenario" in one], ctx)
    changes = Counter(one["change"] for one in outputs)
    return {
        "collection_id": collection_id,
        "items": len(registered),
        "registered": changes["created"],
        "replaced": changes["updated"],
        "already_there": changes["unchanged"],
        "left_out": left_out,
    }


def _registered(
    collection_id: str, digests: Mapping[str, str], node: str, ctx: Context
) -> dict[str, Mapping[str, Any]]:
    """The properties of all items of the collection, by id. Fails if one of these stacks is not there as it is now."""
    with as_failures():
        items = all_items(catalog_of(ctx), collections=[collection_id])
        registered = {item["id"]: item["properties"] for item in items}
    missing = [name for name, digest in digests.items() if _digest(registered.get(name)) != digest]
    if missing:
        shown = ", ".join(missing[:NAMES_SHOWN]) + (" and others" if len(missing) > NAMES_SHOWN else "")
        raise Permanent(
            f"{len(missing)} of {len(digests)} stacks are missing or outdated in {collection_id}: {shown}."
            f" Register them again with: holdfast rerun {ctx.job_id} --from {node}",
            code="FLOOD_UNREGISTERED",
        )
    return registered


def _write_collection(
    collection_id: str, title: str | None, properties: Iterable[Mapping[str, Any]] | None, ctx: Context
) -> None:
    """Create or update the collection, with summaries of these properties of its items, if there are any yet."""
    summaries = {"summaries": _summaries(list(properties))} if properties is not None else None
    ensure(new_collection(collection_id, title, None, "other", ["flood", "hazard"], None, summaries), ctx)


def _digest(properties: Mapping[str, Any] | None) -> str | None:
    return properties.get(CONTENT_HASH) if properties is not None else None


def _summary(catalog: Catalog, collection_id: str) -> CollectionSummary | None:
    with as_failures():
        return next(iter(catalog.summaries([collection_id])), None)


def _summaries(properties: list[Any]) -> dict[str, Any]:
    """The STAC summaries: the values that occur in the items."""
    depths = list(_depths(properties))
    summaries: dict[str, Any] = {
        "flood:scenario": sorted({one["flood:scenario"] for one in properties}),
        "flood:return_periods": sorted({years for one in properties for years in one["flood:return_periods"]}),
    }
    return summaries | ({"flood:max_depth_m": {"minimum": min(depths), "maximum": max(depths)}} if depths else {})


def _depths(properties: list[Any]) -> Iterator[float]:
    return (one["flood:max_depth_m"] for one in properties if one["flood:max_depth_m"] is not None)
