"""The interface of a catalog. Today it is implemented by our tables in plain Postgres; pgstac could be another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast import InvalidInput

Json = dict[str, Any]
Change = Literal["created", "updated", "unchanged"]

JOB, NODE, CONTENT_HASH = "holdfast:job_id", "holdfast:node", "holdfast:content_hash"
"""The properties with an item's origin: the job and the node that made it, and the sha256 of its file."""
EXTERNAL_IDS = "holdfast:external_ids"
"""The property with the ids that other systems have for the job."""
PAGE_ITEMS = 1000


class InvalidItem(InvalidInput):
    """One item is invalid, so none of the items registered with it is stored. Says which item and why."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(
            f"Item {item_id} is not valid: {reason}.",
            remedy="Correct it and register all items again; none of them was registered.",
            instance=item_id,
        )
        self.item_id = item_id
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Upserted:
    """The counts of a registration: every item is counted once."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0

    def to_json(self) -> dict[str, int]:
        return {"created": self.created, "updated": self.updated, "unchanged": self.unchanged}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a search in the order of ids, and the token for the next page; None on the last page."""

    items: list[Json]
    token: str | None


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """A collection with the extents of its current items."""

    collection_id: str
    items: int
    bbox: list[float] | None
    """None if no item has a geometry. If it crosses the antimeridian, west is greater than east."""
    interval: tuple[str, str] | None
    collection: Json

    def to_json(self) -> Json:
        return {
            "collection_id": self.collection_id,
            "title": self.collection.get("title"),
            "items": self.items,
            "bbox": self.bbox,
            "interval": list(self.interval) if self.interval is not None else None,
        }


class Catalog(Protocol):
    """Collections and items. Every write is all or nothing."""

    def ensure_collection(self, collection: Mapping[str, Any]) -> Change:
        """Create or update a collection. Its extent is ignored: extents are computed from the items."""
        ...

    def upsert_items(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> Upserted:
        """Register items, all or none. Items that exist with the same content are not touched.

        The content does not include the job: an unchanged item keeps the job that made it first. Raises NotFound if
        there is no such collection, InvalidItem if an item cannot be stored.
        """
        ...

    def new_or_changed(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The items that do not exist yet, or exist with different content."""
        ...

    def get(self, collection_id: str, item_id: str) -> Json | None:
        """An item as STAC; None if it does not exist."""
        ...

    def search(
        self,
        *,
        bbox: Sequence[float] | None = None,
        datetime: str | None = None,
        collections: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        job_id: str | None = None,
        content_hash: str | None = None,
        properties: Mapping[str, Any] | None = None,
        limit: int = PAGE_ITEMS,
        token: str | None = None,
    ) -> Page:
        """One page of the items that match all criteria.

        `bbox` is west, south, east, north in degrees; touching counts, and west may be greater than east. `datetime` is
        one RFC 3339 time, or two separated by `/`, one of which may be `..`. Items must contain all `properties`.
        """
        ...

    def delete_items(self, collection_id: str, item_ids: Sequence[str]) -> int:
        """Delete those of the items that exist; returns their number."""
        ...

    def summaries(self, collections: Sequence[str] | None = None) -> list[CollectionSummary]:
        """All collections, or the listed ones that exist, each with its number of items and its current extents."""
        ...

    def jobs_ending(self, ending: str) -> list[str]:
        """The jobs that made items and whose id has this ending; at most ten."""
        ...

    def snapshot(self) -> AbstractContextManager[Catalog]:
        """A view of the catalog that does not change while it is read."""
        ...


def all_items(catalog: Catalog, **wanted: Any) -> Iterator[Json]:
    """All items of a search, read page by page."""
    token: str | None = None
    while True:
        page = catalog.search(**wanted, token=token)
        yield from page.items
        token = page.token
        if token is None:
            return
