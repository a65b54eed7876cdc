"""Builds STAC collections: the text that people wrote, and the extents computed from the items. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.apps.catalog.extents import WORLD
from holdfast.apps.catalog.facts import STAC_VERSION
from holdfast.apps.catalog.interface import CollectionSummary, Json


def new_collection(
    collection_id: str,
    title: str | None,
    description: str | None,
    license: str,
    keywords: Sequence[str] | None,
    providers: Sequence[Mapping[str, Any]] | None,
    properties: Mapping[str, Any] | None,
) -> Json:
    """A collection without items. STAC requires a description: by default it is the title or the id."""
    optional = {"title": title, "keywords": keywords, "providers": providers}
    return {
        **(properties or {}),
        "type": "Collection",
        "stac_version": STAC_VERSION,
        "id": collection_id,
        "description": description or title or collection_id,
        "license": license,
        **{name: value for name, value in optional.items() if value is not None},
        "extent": extent(None, None),
        "links": [],
    }


def extent(bbox: Sequence[float] | None, interval: Sequence[str] | None) -> Json:
    """The extent in STAC's form. An empty collection covers the whole world and all time."""
    return {
        "spatial": {"bbox": [list(bbox) if bbox is not None else WORLD]},
        "temporal": {"interval": [list(interval) if interval is not None else [None, None]]},
    }


def live_collection(summary: CollectionSummary) -> Json:
    """The collection with its current extents."""
    return {**summary.collection, "extent": extent(summary.bbox, summary.interval), "links": []}
