"""Registering what a workflow has made, for handlers: checked, all or none, and twice is once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast import (
    Context,
    ErrorCode,
    FailureClass,
    HoldfastError,
    InvalidInput,
    NotFound,
    Permanent,
    Refused,
    Transient,
    Unreachable,
)
from holdfast.apps.catalog.facts import item_from_facts
from holdfast.apps.catalog.interface import JOB, NODE, Catalog, InvalidItem, Json, Upserted
from holdfast.apps.catalog.validating import MissingExtra, as_current, check_collection, check_item, unchecked

_PERMANENT, _TRANSIENT = FailureClass.PERMANENT, FailureClass.TRANSIENT
STAC_INVALID = ErrorCode("STAC_INVALID", _PERMANENT, "An item or a collection is not valid STAC.")
STAC_COLLECTION_UNKNOWN = ErrorCode("STAC_COLLECTION_UNKNOWN", _PERMANENT, "There is no such collection.")
STAC_REFUSED = ErrorCode("STAC_REFUSED", _PERMANENT, "The catalog's database refuses what it is given.")
STAC_UNREACHABLE = ErrorCode("STAC_UNREACHABLE", _TRANSIENT, "The catalog's database does not answer.")
EXTRA_MISSING = ErrorCode("EXTRA_MISSING", _PERMANENT, "What the catalog needs is not installed.")

LOOK_ITEMS = 50
"""After how many checked items it is told how far it is, and whether to go on is asked."""


def catalog_of(ctx: Context) -> Catalog:
    # Every worker imports this module, also one that never registers anything.
    from holdfast.apps.catalog.postgres import PostgresCatalog

    return PostgresCatalog(ctx.database_url)


def ensure(collection: Mapping[str, Any], ctx: Context) -> str:
    """Have a collection be there, like this; gives back whether it was created, updated, or unchanged."""
    with as_failures():
        check_collection(collection)
        return catalog_of(ctx).ensure_collection(collection)


def register(
    collection_id: str, given: Sequence[Any], properties: Mapping[str, Any] | None, node: str, ctx: Context
) -> tuple[Upserted, tuple[str, ...]] | None:
    """What became of them, and what is worth a warning; None if it was told to stop before it registered anything."""
    common = {JOB: ctx.job_id, NODE: node}
    with as_failures():
        catalog = catalog_of(ctx)
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
def as_failures() -> Iterator[None]:
    """What the catalog says, as what a task says: what will never go well, and what may pass."""
    try:
        yield
    except MissingExtra as problem:
        raise Permanent(_told(problem), code=EXTRA_MISSING.code) from problem
    except InvalidInput as problem:
        raise Permanent(_told(problem), code=STAC_INVALID.code) from problem
    except NotFound as problem:
        raise Permanent(_told(problem), code=STAC_COLLECTION_UNKNOWN.code) from problem
    except Refused as problem:
        raise Permanent(_told(problem), code=STAC_REFUSED.code) from problem
    except Unreachable as problem:
        raise Transient(_told(problem), code=STAC_UNREACHABLE.code) from problem


def _told(problem: HoldfastError) -> str:
    return f"{problem.message} {problem.remedy or ''}".strip()
