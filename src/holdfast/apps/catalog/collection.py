"""A collection as STAC: what people say of it, and the extents that its items give it. Pure."""

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
    """A collection without items; STAC wants a description, so it has at least its name for one."""
    told = {"title": title, "keywords": keywords, "providers": providers}
    return {
        **(properties or {}),
        "type": "Collection",
        "stac_version": STAC_VERSION,
        "id": collection_id,
        "description": description or title or collection_id,
        "license": license,
        **{name: value for name, value in told.items() if value is not None},
        "extent": extent(None, None),
        "links": [],
    }


def extent(bbox: Sequence[float] | None, interval: Sequence[str] | None) -> Json:
    """As STAC wants it; a collection of nothing might be anywhere, at any time."""
    return {
        "spatial": {"bbox": [list(bbox) if bbox is not None else WORLD]},
        "temporal": {"interval": [list(interval) if interval is not None else [None, None]]},
    }


def live_collection(summary: CollectionSummary) -> Json:
    """The collection with its extents as they are now."""
    return {**summary.collection, "extent": extent(summary.bbox, summary.interval), "links": []}
