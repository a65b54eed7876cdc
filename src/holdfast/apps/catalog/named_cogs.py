"""Facts of COGs that a workflow names by container and blob, as workflow files of other raster services do.

No raster is opened here: a file gives its size and hash, and the validation of its source says what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast import InvalidInput
from holdfast.apps.catalog.interface import CONTENT_HASH, Catalog, InvalidItem, Json, all_items
from holdfast.apps.raster.item_ids import item_id
from holdfast.apps.raster.storage import readable, sha256_of

TIMES = ("datetime", "start_datetime")
NO_TIME = "no time is known: the item has the time of its first registration"


def facts_of_cog(container: str | None, blob: str, validation: Mapping[str, Any] | None, item: str | None) -> Json:
    """The facts of one COG. It has the place, the bands and the time of the validated raster that it was made of."""
    path = f"{container}/{blob}" if container else blob
    if validation is None:
        raise InvalidItem(path, "its 'validation' is missing, so nothing is known of its place and its bands")
    if not isinstance(validation.get("bands"), list):
        raise InvalidItem(path, "its 'validation' is not an output of raster.validate: it has no list of bands")
    file = readable(path)
    bands = [
        {"name": name, "data_type": validation.get("dtype"), "nodata": validation.get("nodata")}
        for name in validation["bands"]
    ]
    return {
        "id": item or item_id(path),
        "path": path,
        "bbox": validation.get("bounds_4326"),
        "bands": bands,
        "datetime": validation.get("datetime"),
        "sha256": sha256_of(file),
        "size_bytes": file.stat().st_size,
    }


def facts_of_tile(tile: Any, container: str | None) -> Json:
    """The facts of one tile of `raster.process_tile_batch`."""
    if not isinstance(tile, Mapping) or not {"id", "path"} <= tile.keys():
        raise InvalidItem(str(tile)[:100], "it is not one of the tile_cogs of raster.process_tile_batch")
    if container and not str(tile["path"]).startswith(f"{container}/"):
        raise InvalidItem(str(tile["id"]), f"its file {tile['path']} is not in the container {container}")
    return dict(tile)


def with_times(facts: Sequence[Json], catalog: Catalog, collection_id: str) -> tuple[list[Json], tuple[str, ...]]:
    """The facts, each with a time. A file without one keeps the time of its first registration, or has it now."""
    timeless = [one["id"] for one in facts if not any(one.get(name) for name in TIMES)]
    if not timeless:
        return list(facts), ()
    before = {item["id"]: item["properties"] for item in all_items(catalog, collections=[collection_id], ids=timeless)}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def time_of(one: Json) -> str:
        known = before.get(one["id"], {})
        is_same = one.get("sha256") is not None and known.get(CONTENT_HASH) == one["sha256"]
        return str(known["datetime"]) if is_same and known.get("datetime") else now

    waiting = set(timeless)
    return [one | {"datetime": time_of(one)} if one["id"] in waiting else one for one in facts], (NO_TIME,)


def platform(**values: Any) -> Json:
    """The names that a platform has for things, as properties: `platform:dataset_id` and others."""
    return {f"platform:{name}": value for name, value in values.items() if not _is_empty(value)}


def properties_named(properties: Mapping[str, Any] | None, **named: Any) -> Json:
    """The properties, and those that have params of their own. Two values for one property are refused."""
    chosen = {name: value for name, value in named.items() if not _is_empty(value)}
    for name, value in (properties or {}).items():
        if chosen.get(name, value) != value:
            raise InvalidInput(
                f"The params give two values for the property {name}: {str(value)[:100]!r} and"
                f" {str(chosen[name])[:100]!r}.",
                remedy="Give one of them.",
            )
    return {**(properties or {}), **chosen}


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == []
