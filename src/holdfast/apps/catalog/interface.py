"""What a catalog promises, whatever stands behind it: our tables in plain Postgres now, pgstac perhaps later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast import InvalidInput

Json = dict[str, Any]
Change = Literal["created", "updated", "unchanged"]

JOB, NODE, CONTENT_HASH = "holdfast:job_id", "holdfast:node", "holdfast:content_hash"
"""The properties that tell where an item comes from: which job and node made it, and the sha256 of its file."""
PAGE_ITEMS = 1000


class InvalidItem(InvalidInput):
    """One item cannot be taken, and with it nothing of its batch; says which and why."""

    def __init__(self, item_id: str, reason: str) -> None:
        super().__init__(
            f"Item {item_id} is not valid: {reason}.",
            remedy="Correct it and register the batch again; nothing of it was registered.",
            instance=item_id,
        )
        self.item_id = item_id
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Upserted:
    """What became of a batch: every item of it is counted once."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0

    def to_json(self) -> dict[str, int]:
        return {"created": self.created, "updated": self.updated, "unchanged": self.unchanged}


@dataclass(frozen=True, slots=True)
class Page:
    """Items of a search in the order of their ids, and what the next page is asked for with; None: there is none."""

    items: list[Json]
    token: str | None


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """A collection with its extents as its items make them now."""

    collection_id: str
    items: int
    bbox: list[float] | None
    """None without items that have a geometry. West lies east of east where it goes over the antimeridian."""
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
    """Collections and items, with every write whole or not at all."""

    def ensure_collection(self, collection: Mapping[str, Any]) -> Change:
        """Have a collection be there, like this; its extent is not taken from it but from its items."""
        ...

    def upsert_items(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> Upserted:
        """Register items, all or none; those that are there with the same content are not touched.

        The same content from another job is the same content: an item keeps the job that made it first. NotFound if
        there is no such collection, InvalidItem for one that cannot be stored.
        """
        ...

    def new_or_changed(self, collection_id: str, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those of the items that are not there, or there with another content."""
        ...

    def get(self, collection_id: str, item_id: str) -> Json | None:
        """An item as STAC; None if it is not there."""
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
        """One page of the items to which everything that is given applies.

        `bbox` is west, south, east, north in degrees; touching counts, and west may lie east of east. `datetime` is a
        moment or two with `/` between, of which one may be `..`, as RFC 3339. `properties` must be there as given.
        """
        ...

    def delete_items(self, collection_id: str, item_ids: Sequence[str]) -> int:
        """Delete those of them that are there; returns how many were."""
        ...

    def summaries(self, collections: Sequence[str] | None = None) -> list[CollectionSummary]:
        """The collections, or those of them that are there, each with its number of items and its live extents."""
        ...

    def jobs_ending(self, ending: str) -> list[str]:
        """The jobs that made items and whose id ends so; at most ten."""
        ...

    def snapshot(self) -> AbstractContextManager[Catalog]:
        """The same catalog, standing still while one reads it."""
        ...


def all_items(catalog: Catalog, **wanted: Any) -> Iterator[Json]:
    """Everything that a search finds, page by page."""
    token: str | None = None
    while True:
        page = catalog.search(**wanted, token=token)
        yield from page.items
        token = page.token
        if token is None:
            return
