"""Registers items for handlers: checked first, then written all or none. Registering twice has the effect of once."""

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
from holdfast.apps.catalog.interface import EXTERNAL_IDS, JOB, NODE, Catalog, InvalidItem, Json, Upserted
from holdfast.apps.catalog.rows import item_row
from holdfast.apps.catalog.validating import MissingExtra, as_current, check_collection, check_item, unchecked

_PERMANENT, _TRANSIENT = FailureClass.PERMANENT, FailureClass.TRANSIENT
STAC_INVALID = ErrorCode("STAC_INVALID", _PERMANENT, "An item or a collection is not valid STAC.")
STAC_COLLECTION_UNKNOWN = ErrorCode("STAC_COLLECTION_UNKNOWN", _PERMANENT, "There is no such collection.")
STAC_REFUSED = ErrorCode("STAC_REFUSED", _PERMANENT, "The catalog's database refuses to write.")
STAC_UNREACHABLE = ErrorCode("STAC_UNREACHABLE", _TRANSIENT, "The catalog's database does not answer.")
EXTRA_MISSING = ErrorCode("EXTRA_MISSING", _PERMANENT, "A library that the catalog needs is not installed.")

COMPUTED = ("holdfast:", "proj:")
"""The beginnings of the names of properties that the catalog computes from the file and the job."""
STAMPS = ("created", "updated")
TIMES = ("datetime", "start_datetime", "end_datetime")

PROGRESS_ITEMS = 50
"""Every this number of items, a registration reports its progress and checks whether it should stop."""


def catalog_of(ctx: Context) -> Catalog:
    # Imported here, because every worker imports this module, even if it never registers anything.
    from holdfast.apps.catalog.postgres import PostgresCatalog

    return PostgresCatalog(ctx.database_url)


def ensure(collection: Mapping[str, Any], ctx: Context) -> str:
    """Create or update a collection; returns "created", "updated" or "unchanged"."""
    with as_failures():
        check_collection(collection)
        return catalog_of(ctx).ensure_collection(collection)


def register(
    collection_id: str, sources: Sequence[Any], properties: Mapping[str, Any] | None, node: str, ctx: Context
) -> tuple[Upserted, tuple[str, ...]] | None:
    """Register items or facts; returns the counts and the warnings. None if asked to stop before the write."""
    common = {JOB: ctx.job_id, NODE: node} | ({EXTERNAL_IDS: ctx.external_ids} if ctx.external_ids else {})
    with as_failures():
        refuse_computed(properties or {})
        catalog = catalog_of(ctx)
        items = [_prepared(source, collection_id, properties or {}, common) for source in sources]
        changed = catalog.new_or_changed(collection_id, items)
        for number, item in enumerate(changed):
            if number % PROGRESS_ITEMS == 0:
                ctx.progress(number, len(changed), "checked")
                if ctx.cancelled:
                    return None
            check_item(item)
        # One statement writes all items, after all of them were checked.
        upserted = catalog.upsert_items(collection_id, items)
        extensions = sorted({uri for item in changed for uri in unchecked(item)})
    return upserted, tuple(
        f"the fields of {uri} were not checked: its schema is not on this machine" for uri in extensions
    )


def _prepared(source: Any, collection_id: str, properties: Mapping[str, Any], common: Mapping[str, Any]) -> Json:
    """A source as a STAC 1.1 item, with the common properties and the job that made it."""
    if not isinstance(source, Mapping):
        raise InvalidItem(str(source)[:100], "it is not an object, so neither an item nor facts")
    if source.get("type") == "Feature":
        item = as_current(source)
        if not isinstance(item.get("properties"), Mapping):
            raise InvalidItem(str(source.get("id")), "it has no properties")
    else:
        item = item_from_facts(source)
    return {**item, "collection": collection_id, "properties": {**common, **properties, **item["properties"]}}


def refuse_computed(properties: Mapping[str, Any]) -> None:
    """Refuse properties that would hide what the catalog computes: where an item lies, and where it comes from."""
    taken = [name for name in properties if name.startswith(COMPUTED) or name in STAMPS]
    if taken:
        raise InvalidInput(
            f"The properties must not set {', '.join(map(repr, taken[:5]))}: the catalog computes this itself.",
            remedy="Use another name, such as one that begins with 'platform:'.",
        )


def check_properties(properties: Mapping[str, Any]) -> None:
    """Refuse properties with which no item could be registered, before the work whose result would be lost."""
    with as_failures():
        refuse_computed(properties)
        times = [name for name in TIMES if name in properties]
        if times:
            raise InvalidInput(
                f"The properties must not set {', '.join(map(repr, times))}: the time of an item is no free property.",
                remedy="Give the time with the inputs datetime, or start_datetime and end_datetime.",
            )
        example = {"id": "example", "path": "any/file.tif", "bbox": [0, 0, 1, 1], "datetime": "2000-01-01T00:00:00Z"}
        item = _prepared(example, "example", properties, {})
        try:
            item_row("example", item)
            check_item(item)
        except InvalidItem as problem:
            raise InvalidInput(
                f"The properties are not valid: {problem.reason}.", remedy="Correct them and submit the job again."
            ) from None


@contextmanager
def as_failures() -> Iterator[None]:
    """Turn errors of the catalog into failures of the task: permanent, or transient if a retry can help."""
    try:
        yield
    except MissingExtra as problem:
        raise Permanent(_message(problem), code=EXTRA_MISSING.code) from problem
    except InvalidInput as problem:
        raise Permanent(_message(problem), code=STAC_INVALID.code) from problem
    except NotFound as problem:
        raise Permanent(_message(problem), code=STAC_COLLECTION_UNKNOWN.code) from problem
    except Refused as problem:
        raise Permanent(_message(problem), code=STAC_REFUSED.code) from problem
    except Unreachable as problem:
        raise Transient(_message(problem), code=STAC_UNREACHABLE.code) from problem


def _message(problem: HoldfastError) -> str:
    return f"{problem.message} {problem.remedy or ''}".strip()
