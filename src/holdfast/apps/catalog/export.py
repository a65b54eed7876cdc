"""Exports the catalog as plain files that any STAC tool opens. An export is complete, or not there at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import NotFound, Refused
from holdfast.apps.catalog.collection import live_collection
from holdfast.apps.catalog.facts import STAC_VERSION
from holdfast.apps.catalog.interface import Catalog, Json, all_items

MARK = "holdfast:export"
"""Marks the root file of an export. The next export replaces a directory only if it has this mark."""


@dataclass(frozen=True, slots=True)
class Exported:
    directory: Path
    collections: int
    items: int

    def to_json(self) -> Json:
        return {"directory": str(self.directory), "collections": self.collections, "items": self.items}


def export(catalog: Catalog, directory: Path, storage: str, collections: Sequence[str] | None = None) -> Exported:
    """Write all collections, or the listed ones, from one snapshot. Replaces an earlier export.

    Assets are not copied. An asset with a path in the storage gets, in the export, an address below `storage`: a URL
    or, if `storage` is a directory, a relative path.
    """
    directory = Path(os.path.realpath(directory))
    _put_back(directory)
    _refuse_what_is_not_ours(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Written into a hidden directory beside the target, so that one rename makes it visible.
    building = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        with catalog.snapshot() as snapshot:
            written = _write(snapshot, building, _Assets(storage, directory), collections)
        building.chmod(0o755)
        _put_in_place(building, directory)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Exported(directory, *written)


def _refuse_what_is_not_ours(directory: Path) -> None:
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    try:
        root = json.loads((directory / "catalog.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        root = None
    if not (isinstance(root, dict) and MARK in root):
        raise Refused(
            f"{directory} is not empty, and it is not an earlier export of this catalog.",
            remedy="Use an empty or a new directory, or delete this one first.",
            instance=str(directory),
        )


def _write(catalog: Catalog, building: Path, assets: _Assets, collections: Sequence[str] | None) -> tuple[int, int]:
    summaries = catalog.summaries(collections)
    unknown = set(collections or ()) - {summary.collection_id for summary in summaries}
    if unknown:
        raise NotFound(
            f"There is no collection {', '.join(sorted(unknown))}.", remedy="List them with: holdfast stac list"
        )
    count = 0
    for summary in summaries:
        place = building / summary.collection_id
        place.mkdir()
        links = [_link("root", "../catalog.json"), _link("parent", "../catalog.json")]
        for item in all_items(catalog, collections=[summary.collection_id]):
            _write_item(place, item, assets)
            links.append(_link("item", f"./{item['id']}/{item['id']}.json", "application/geo+json"))
            count += 1
        _write_json(place / "collection.json", {**live_collection(summary), "links": links})
    _write_json(building / "catalog.json", _root([summary.collection_id for summary in summaries]))
    return len(summaries), count


def _write_item(place: Path, item: Json, assets: _Assets) -> None:
    own = place / item["id"]
    own.mkdir()
    links = [_link("root", "../../catalog.json"), _link("parent", "../collection.json"), *item["links"]]
    exported = {key: {**asset, "href": assets.href(item, asset["href"])} for key, asset in item["assets"].items()}
    _write_json(own / f"{item['id']}.json", {**item, "links": links, "assets": exported})


def _root(collections: Sequence[str]) -> Json:
    children = [_link("child", f"./{collection_id}/collection.json") for collection_id in collections]
    return {
        "type": "Catalog",
        "stac_version": STAC_VERSION,
        "id": "holdfast",
        "description": "The collections that Holdfast jobs have made and registered.",
        MARK: 1,
        "links": [_link("root", "./catalog.json"), *children],
    }


def _link(rel: str, href: str, media_type: str = "application/json") -> Json:
    return {"rel": rel, "href": href, "type": media_type}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Assets:
    """The addresses of assets, as seen from the exported files."""

    storage: str
    directory: Path

    def href(self, item: Json, href: str) -> str:
        if "://" in href or href.startswith("/"):
            return href
        if "://" in self.storage:
            return f"{self.storage.rstrip('/')}/{href}"
        own = self.directory / item["collection"] / item["id"]
        return os.path.relpath(Path(self.storage).resolve() / href, own)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.before")


def _put_in_place(building: Path, directory: Path) -> None:
    """Rename the old export away first: a directory cannot be renamed over one that is not empty."""
    if not directory.exists():
        building.rename(directory)
        return
    directory.rename(_aside(directory))
    try:
        building.rename(directory)
    except OSError:
        _aside(directory).rename(directory)
        raise
    shutil.rmtree(_aside(directory), ignore_errors=True)


def _put_back(directory: Path) -> None:
    """Restore the old export if an earlier run was killed between its two renames."""
    aside = _aside(directory)
    if not aside.exists():
        return
    if directory.exists():
        shutil.rmtree(aside)
    else:
        aside.rename(directory)
