"""Turns an item into a table row: checked, without the links that an export adds, and with its digest. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson

from holdfast.apps.catalog.extents import flat, moment, time_range
from holdfast.apps.catalog.interface import CONTENT_HASH, EXTERNAL_IDS, JOB, NODE, InvalidItem, Json

PROVENANCE = (JOB, NODE, EXTERNAL_IDS)
PLACED_LINKS = ("self", "root", "parent", "collection", "item", "items", "child")
"""Links that depend on where the item's file is. An export writes them; the tables do not keep them."""

_ID = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~@+=,-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_id(identifier: Any) -> str:
    """The id, if it can also be a file name and a part of a URL; otherwise ValueError."""
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier) or identifier.endswith(".json"):
        raise ValueError(
            "an id has 1 to 200 of the characters A-Z a-z 0-9 _ ~ . @ + = , - and does not end with .json, "
            "so that it can be a file's name"
        )
    return identifier


def item_rows(collection_id: str, items: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The rows of the items, in the order of their locks. Raises InvalidItem for the first invalid item."""
    rows = {}
    for item in items:
        row = item_row(collection_id, item)
        if row["item_id"] in rows:
            raise InvalidItem(row["item_id"], "it is among the items twice")
        rows[row["item_id"]] = row
    return [rows[item_id] for item_id in sorted(rows)]


def item_row(collection_id: str, item: Mapping[str, Any]) -> Json:
    try:
        item_id = check_id(item.get("id"))
        content = _stored_content(collection_id, item)
        properties = content["properties"]
        return {
            "item_id": item_id,
            "content": content,
            "item_digest": digest(content),
            "content_hash": _sha256(properties.get(CONTENT_HASH)),
            "box": _box(content),
            "during": _during(properties),
            "job_id": properties.get(JOB),
            "node": properties.get(NODE),
        }
    except (ValueError, TypeError) as error:
        raise InvalidItem(str(item.get("id")), str(error)) from None


def _stored_content(collection_id: str, item: Mapping[str, Any]) -> Json:
    """The content to store: a copy, so that the caller's item does not change."""
    if not isinstance(item.get("properties"), Mapping):
        raise ValueError("it has no properties")
    if item.get("collection") not in (None, collection_id):
        raise ValueError(f"it belongs to the collection {item['collection']}, not to {collection_id}")
    links = item.get("links") or []
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise ValueError("its links must be objects")
    links = [link for link in links if link.get("rel") not in PLACED_LINKS]
    _check_hrefs(item.get("assets"))
    content = {**item, "collection": collection_id, "properties": dict(item["properties"]), "links": links}
    if b"\\u0000" in orjson.dumps(content):
        raise ValueError("it has text with a NUL character")
    return content


def _check_hrefs(assets: Any) -> None:
    """Refuse addresses with '..': an export writes relative paths, which must not leave the storage."""
    for asset in assets.values() if isinstance(assets, Mapping) else ():
        href = str(asset.get("href") or "") if isinstance(asset, Mapping) else ""
        if ".." in re.split(r"[/\\?#]", unquote(href)):
            raise ValueError(f"the address {href[:200]!r} of an asset leads upwards with '..'")


def digest(content: Json) -> str:
    """The hash of an item's content, without the job and the node that made it."""
    properties = {name: value for name, value in content["properties"].items() if name not in PROVENANCE}
    hashed = orjson.dumps({**content, "properties": properties}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(hashed).hexdigest()


def _sha256(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and _SHA256.fullmatch(value)):
        raise ValueError(f"{CONTENT_HASH} must be a sha256 in lower case hex, not {value!r}")
    return value


def _box(content: Json) -> str | None:
    if content.get("bbox") is None:
        if content.get("geometry") is not None:
            raise ValueError("it has a geometry but no bbox")
        return None
    west, south, east, north = flat(content["bbox"])
    return f"({east!r},{north!r}),({west!r},{south!r})"


def _during(properties: Json) -> str:
    if properties.get("datetime") is not None:
        at = moment(properties["datetime"])
        return time_range(at, at)
    if properties.get("start_datetime") is None or properties.get("end_datetime") is None:
        raise ValueError("it has no datetime. Set datetime, or start_datetime and end_datetime")
    return time_range(moment(properties["start_datetime"]), moment(properties["end_datetime"]))
