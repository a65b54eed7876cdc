"""Checks items and collections against the JSON Schemas on this machine. Never uses the network.

pystac brings the schemas of STAC itself; `extensions.py` has those of some extensions. The fields of all other
extensions are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from holdfast import InvalidInput
from holdfast.apps.catalog.extensions import extension_schemas
from holdfast.apps.catalog.facts import STAC_VERSION
from holdfast.apps.catalog.interface import InvalidItem, Json

COLLECTION_LINK = {"rel": "collection", "href": "../collection.json", "type": "application/json"}
OLDER_VERSIONS = ("1.0.0", "1.0.1")
GEOMETRY = "https://geojson.org/schema/Geometry.json"
INSTALL = "Install it with: pip install 'holdfast[geo]'"


class MissingExtra(InvalidInput):
    """The libraries that check items are not installed."""

    def __init__(self, module: str | None) -> None:
        super().__init__(f"The catalog needs the module '{module}', which is not installed.", remedy=INSTALL)


def check_item(item: Mapping[str, Any]) -> None:
    """Raise InvalidItem, with the place and the reason, if an item is invalid."""
    # The schema requires a link to the collection. The real link is only known at an export.
    link = [COLLECTION_LINK] if "collection" in item else []
    placed = {**item, "links": [*item.get("links", ()), *link]}
    reason = _reason(_core("item"), placed)
    if reason is not None:
        raise InvalidItem(str(item.get("id")), _reason_in_geometry(item.get("geometry")) or reason)
    for uri in set(item.get("stac_extensions", ())) - set(unchecked(item)):
        reason = _reason(uri, placed)
        if reason is not None:
            raise InvalidItem(str(item.get("id")), reason)


def _reason_in_geometry(geometry: Any) -> str | None:
    """The reason in the geometry itself. The schema of items only says that the geometry should be null."""
    reason = _reason(GEOMETRY, geometry) if geometry is not None else None
    return f"geometry/{reason}" if reason is not None else None


def check_collection(collection: Mapping[str, Any]) -> None:
    """InvalidInput says where a collection breaks which rule."""
    reason = _reason(_core("collection"), collection)
    if reason is not None:
        raise InvalidInput(f"The collection {collection.get('id')} is not valid: {reason}.")


def unchecked(item: Mapping[str, Any]) -> list[str]:
    """The item's extensions whose schema is not on this machine."""
    return [uri for uri in item.get("stac_extensions", ()) if uri not in schemas()]


def as_current(item: Mapping[str, Any]) -> Json:
    """The item in STAC 1.1; converts an item in STAC 1.0."""
    version = item.get("stac_version")
    if version == STAC_VERSION:
        return dict(item)
    if version not in OLDER_VERSIONS:
        raise InvalidItem(str(item.get("id")), f"its stac_version is {version!r}; use 1.0.0 or {STAC_VERSION}")
    try:
        from pystac.serialization import identify_stac_object, migrate_to_latest
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name) from error
    try:
        return dict(migrate_to_latest(json.loads(json.dumps(item)), identify_stac_object(dict(item))))
    except Exception as error:
        # pystac raises many types of errors; all of them mean that the item is invalid.
        raise InvalidItem(str(item.get("id")), f"it cannot be read as STAC {version}: {error}") from error


@cache
def schemas() -> dict[str, Json]:
    """All schemas on this machine, by URI."""
    try:
        from pystac.validation.local_validator import get_local_schema_cache
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name) from error
    return {**get_local_schema_cache(), **extension_schemas()}


def _core(kind: str) -> str:
    return f"https://schemas.stacspec.org/v{STAC_VERSION}/{kind}-spec/json-schema/{kind}.json"


def _reason(uri: str, document: Mapping[str, Any]) -> str | None:
    """Why a document violates a schema; None if it does not.

    A fast validator checks first. The slow one, which explains errors better, runs only on invalid documents.
    """
    if _quick(uri).is_valid(document):
        return None
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]

    error = best_match(_validator(uri).iter_errors(document))
    if error is None:
        return f"it violates the schema {uri}"
    place = "/".join(str(part) for part in error.absolute_path)
    message = " ".join(error.message.split())[:300]
    return f"{place}: {message}" if place else message


@cache
def _quick(uri: str) -> Any:
    from jsonschema_rs import Draft7Validator, Registry

    known = schemas()
    return Draft7Validator(known[uri], registry=Registry(list(known.items())), validate_formats=False)


@cache
def _validator(uri: str) -> Any:
    known = schemas()
    from jsonschema import Draft7Validator  # type: ignore[import-untyped]
    from referencing import Registry, Resource

    # The registry retrieves nothing: a reference to an unknown schema is an error, not a network request.
    registry: Any = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in known.items())
    return Draft7Validator(known[uri], registry=registry.crawl())
