"""The catalog over HTTP, to read: its collections, and the items of each.

The catalog is one for the installation. Its administrators may read it, and the tenants that they name.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Path, Query, Response

from holdfast import NotFound
from holdfast.apps.catalog.collection import live_collection
from holdfast.apps.catalog.interface import CollectionSummary
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.extend.routes import EVERY_TENANT, Call, CallContext, Cursor, Limit, Page, Permission, RouteTable
from holdfast.extend.settings import variable

table = RouteTable("stac")
DEFAULT_TENANTS = "default"
CollectionId = Annotated[str, Path(description="The id of a collection.", max_length=200)]


@dataclass(frozen=True, slots=True)
class Collection:
    """A STAC collection with the extents of its present items."""

    type: str
    stac_version: str
    id: str
    description: str
    license: str
    extent: dict[str, Any]
    links: list[Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A STAC item."""

    type: str
    stac_version: str
    id: str
    collection: str
    geometry: dict[str, Any] | None
    bbox: list[float]
    properties: dict[str, Any]
    links: list[Any]
    assets: dict[str, Any]


@table.get("/collections", Permission.READ, answers=Page(Collection))
async def list_collections(call: Call, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The collections by id, each as STAC."""
    if not _may_read(call):
        return call.page([], None)
    summaries = sorted(await _summaries(call), key=lambda one: one.collection_id)
    rest = [one for one in summaries if cursor is None or one.collection_id > cursor]
    shown = [live_collection(one) for one in rest[:limit]]
    return call.page(shown, shown[-1]["id"] if len(rest) > limit else None)


@table.get("/collections/{collection_id}", Permission.READ, answers=Collection)
async def show_collection(call: Call, collection_id: CollectionId) -> Response:
    """A collection as STAC."""
    return call.answer(live_collection(await _collection(call, collection_id)))


@table.get("/collections/{collection_id}/items", Permission.READ, answers=Page(Item))
async def list_items(
    call: Call,
    collection_id: CollectionId,
    datetime: Annotated[
        str | None, Query(max_length=100, description="One time of RFC 3339, or two separated by `/`.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The items of a collection by id, each as STAC."""
    await _collection(call, collection_id)
    catalog = _catalog(call)
    page = await asyncio.to_thread(
        catalog.search, collections=[collection_id], datetime=datetime, limit=limit, token=cursor
    )
    return call.page(page.items, page.token)


async def _collection(call: CallContext, collection_id: str) -> CollectionSummary:
    found = await _summaries(call, collection_id) if _may_read(call) else []
    if not found:
        raise NotFound(f"There is no collection {collection_id}.", instance=collection_id)
    return found[0]


async def _summaries(call: CallContext, *collection_ids: str) -> list[CollectionSummary]:
    return await asyncio.to_thread(_catalog(call).summaries, list(collection_ids) or None)


def _catalog(call: CallContext) -> PostgresCatalog:
    return PostgresCatalog(call.client.database_url)


def _may_read(call: CallContext) -> bool:
    """For other tenants the catalog is empty."""
    named = (one.strip() for one in (variable("STAC_TENANTS") or DEFAULT_TENANTS).split(","))
    return call.identity.tenant == EVERY_TENANT or call.identity.tenant in named
