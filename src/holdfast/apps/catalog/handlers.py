"""The handlers that register what a workflow has made: `raster.stac_…`. Done twice, they do it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast import Context, HoldfastError, InvalidInput, NotFound, Permanent, Result, Transient, Unreachable, handler
from holdfast.apps.catalog.collection import new_collection
from holdfast.apps.catalog.facts import item_from_facts
from holdfast.apps.catalog.interface import JOB, NODE, Catalog, InvalidItem, Json, Upserted
from holdfast.apps.catalog.validating import MissingExtra, as_current, check_collection, check_item, unchecked

STAC_INVALID = "STAC_INVALID"
STAC_COLLECTION_UNKNOWN = "STAC_COLLECTION_UNKNOWN"
STAC_UNREACHABLE = "STAC_UNREACHABLE"
EXTRA_MISSING = "EXTRA_MISSING"

LOOK_ITEMS = 50
"""After how many checked items it is told how far it is, and whether to go on is asked."""


@handler("raster.stac_ensure_collection")
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
    """Have a collection be there, like this; its extents come from its items. `properties` are fields of its own."""
    collection = new_collection(collection_id, title, description, license, keywords, providers, properties)
    with _as_failures():
        check_collection(collection)
        change = _catalog(ctx).ensure_collection(collection)
    return {"collection_id": collection_id, "change": change}


@handler("raster.stac_register_item")
def register_item(
    collection_id: str,
    item: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register one item, given as STAC or by the facts of its file."""
    if (item is None) == (facts is None):
        raise Permanent("raster.stac_register_item takes either 'item' or 'facts'", code=STAC_INVALID)
    given = item if item is not None else facts
    assert given is not None
    done = _register(collection_id, [given], properties, ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    change = next(name for name, count in upserted.to_json().items() if count)
    return Result({"collection_id": collection_id, "item_id": given["id"], "change": change}, warnings=warnings)


@handler("raster.stac_register_items")
def register_items(
    collection_id: str,
    items: list[dict[str, Any]] | None = None,
    from_node: str | None = None,
    properties: dict[str, Any] | None = None,
    *,
    ctx: Context,
) -> Result | None:
    """Register items, all or none: those given, as STAC or as facts, or the outputs of the items of another node.

    `properties` go to every item that has none of that name.
    """
    if (items is None) == (from_node is None):
        raise Permanent("raster.stac_register_items takes either 'items' or 'from_node'", code=STAC_INVALID)
    given = items if items is not None else list(ctx.results(str(from_node)))
    done = _register(collection_id, given, properties, from_node or ctx.node, ctx)
    if done is None:
        return None
    upserted, warnings = done
    return Result({"collection_id": collection_id, "items": len(given), **upserted.to_json()}, warnings=warnings)


def _catalog(ctx: Context) -> Catalog:
    # Every worker imports this module, also one that never registers anything.
    from holdfast.apps.catalog.postgres import PostgresCatalog

    return PostgresCatalog(ctx.database_url)


def _register(
    collection_id: str, given: Sequence[Any], properties: Mapping[str, Any] | None, node: str, ctx: Context
) -> tuple[Upserted, tuple[str, ...]] | None:
    """What became of them, and what is worth a warning; None if it was told to stop before it registered anything."""
    common = {JOB: ctx.job_id, NODE: node}
    with _as_failures():
        catalog = _catalog(ctx)
        items = [_prepared(one, collection_id, properties or {}, common) for one in given]
        changed = catalog.new_or_changed(collection_id, items)
        for number, item in enumerate(changed):
            if number % LOOK_ITEMS == 0:
                ctx.progress(number, len(changed), "checked")
                if ctx.cancelled:
                    return None
            check_item(item)
        # All were checked before the first is written, and they are written by one statement.
        upserted = catalog.upsert_items(collection_id, items)
        extensions = sorted({uri for item in changed for uri in unchecked(item)})
    return upserted, tuple(f"the fields of {uri} were not checked: its schema is not here" for uri in extensions)


def _prepared(given: Any, collection_id: str, properties: Mapping[str, Any], common: Mapping[str, str]) -> Json:
    """As STAC 1.1, with the properties that all have in common and with the job that made it."""
    if not isinstance(given, Mapping):
        raise InvalidItem(str(given)[:100], "neither an item nor facts, which are objects")
    if given.get("type") == "Feature":
        item = as_current(given)
        if not isinstance(item.get("properties"), Mapping):
            raise InvalidItem(str(given.get("id")), "it has no properties")
    else:
        item = item_from_facts(given)
    return {**item, "collection": collection_id, "properties": {**common, **properties, **item["properties"]}}


@contextmanager
def _as_failures() -> Iterator[None]:
    """What the catalog says, as what a task says: what will never go well, and what may pass."""
    try:
        yield
    except MissingExtra as problem:
        raise Permanent(_told(problem), code=EXTRA_MISSING) from problem
    except InvalidInput as problem:
        raise Permanent(_told(problem), code=STAC_INVALID) from problem
    except NotFound as problem:
        raise Permanent(_told(problem), code=STAC_COLLECTION_UNKNOWN) from problem
    except Unreachable as problem:
        raise Transient(_told(problem), code=STAC_UNREACHABLE) from problem


def _told(problem: HoldfastError) -> str:
    return f"{problem.message} {problem.remedy or ''}".strip()
