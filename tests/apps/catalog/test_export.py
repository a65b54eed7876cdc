"""An export of the catalog, opened and checked by pystac."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pystac
import pystac.validation
import pytest
from pystac.validation.stac_validator import JsonSchemaSTACValidator

from holdfast import NotFound, Refused
from holdfast.apps.catalog.export import export
from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.catalog.validating import schemas
from tests.apps.catalog.conftest import collection, item


@pytest.fixture(autouse=True)
def schemas_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give pystac every schema, and make it fail if it still asks the network."""

    def refuse(self: object, href: str, *_: object, **__: object) -> str:
        raise AssertionError(f"it asked the network for {href}")

    validator = JsonSchemaSTACValidator()
    validator.schema_cache.update(schemas())
    pystac.validation.set_validator(validator)
    monkeypatch.setattr(pystac.stac_io.DefaultStacIO, "read_text_from_href", local(refuse))
    yield
    pystac.validation.set_validator(JsonSchemaSTACValidator())


def local(refuse: object) -> object:
    read = pystac.stac_io.DefaultStacIO.read_text_from_href

    def read_files_only(self: pystac.stac_io.DefaultStacIO, href: str) -> str:
        return refuse(self, href) if "://" in href else read(self, href)  # type: ignore[operator]

    return read_files_only


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_pystac_opens_the_export_and_finds_every_item_valid(catalog: PostgresCatalog, tmp_path: Path) -> None:
    catalog.ensure_collection(collection("droughts", title=None))
    items = [item(number) for number in range(25)]
    items.append(item(25, bounds=[179.5, 0, 180.5, 1], resolution=30))
    catalog.upsert_items("floods", items)
    tile = tmp_path / "storage" / "floods" / "tile-0003.tif"
    tile.parent.mkdir(parents=True)
    tile.write_bytes(b"II*\0")
    done = export(catalog, tmp_path / "copy", str(tmp_path / "storage"))
    assert (done.collections, done.items) == (2, 26)
    # An export can be moved: its own links are relative.
    (tmp_path / "copy").rename(tmp_path / "moved")
    opened = pystac.Catalog.from_file(str(tmp_path / "moved" / "catalog.json"))
    opened.validate()
    assert [child.id for child in opened.get_children()] == ["droughts", "floods"]
    for child in opened.get_collections():
        child.validate()
    exported = list(opened.get_items(recursive=True))
    assert [stac_item.id for stac_item in exported] == sorted(one["id"] for one in items)
    for stac_item in exported:
        stac_item.validate()
        assert stac_item.get_parent() is stac_item.get_collection()
    floods = opened.get_child("floods")
    assert isinstance(floods, pystac.Collection)
    assert floods.extent.spatial.bboxes == [[179.5, -20, -145, 1]]
    absolute = exported[3].assets["data"].get_absolute_href()
    assert absolute is not None
    assert Path(absolute).resolve() == tile


def test_a_failed_export_leaves_the_old_one_unchanged(
    catalog: PostgresCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.upsert_items("floods", [item(1), item(2)])
    export(catalog, tmp_path / "copy", "storage")
    before = files(tmp_path / "copy")
    export(catalog, tmp_path / "copy", "storage")
    assert files(tmp_path / "copy") == before, "the same catalog should give the same files"
    catalog.delete_items("floods", ["tile-0001"])
    with monkeypatch.context() as broken:
        broken.setattr("holdfast.apps.catalog.export._root", lambda collections: {"no": {"json"}})
        with pytest.raises(TypeError):
            export(catalog, tmp_path / "copy", "storage")
    assert files(tmp_path / "copy") == before
    export(catalog, tmp_path / "copy", "storage")
    assert "floods/tile-0001/tile-0001.json" not in files(tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"], "no temporary directory should be left"


@pytest.mark.parametrize("content", ["{}", "[]", "not json", '{"type": "Catalog", "id": "mine"}'])
def test_a_directory_that_is_no_export_is_not_touched(catalog: PostgresCatalog, tmp_path: Path, content: str) -> None:
    (tmp_path / "empty").mkdir()
    assert export(catalog, tmp_path / "empty", "storage").collections == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "catalog.json").write_text(content)
    with pytest.raises(Refused, match="is not empty"):
        export(catalog, tmp_path / "full", "storage")
    assert files(tmp_path / "full") == {"catalog.json": content.encode()}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("renames", [1, 2])
def test_a_kill_between_the_renames_loses_no_export(
    catalog: PostgresCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    catalog.upsert_items("floods", [item(1)])
    export(catalog, tmp_path / "copy", "here")
    before = files(tmp_path / "copy")
    catalog.upsert_items("floods", [item(2)])
    rename, done = Path.rename, 0

    def rename_and_die(self: Path, target: Path) -> Path:
        nonlocal done
        moved = rename(self, target)
        done += 1
        if done == renames:
            raise Killed
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_and_die)
        with pytest.raises(Killed):
            export(catalog, tmp_path / "copy", "here")
    with pytest.raises(NotFound):
        export(catalog, tmp_path / "copy", "here", ["unknown"])
    assert (files(tmp_path / "copy") == before) == (renames == 1), "it should be complete: the old one or the new one"
    assert export(catalog, tmp_path / "copy", "here").items == 2
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_only_the_listed_collections_are_exported(catalog: PostgresCatalog, tmp_path: Path) -> None:
    catalog.ensure_collection(collection("droughts"))
    assert export(catalog, tmp_path / "copy", "storage", ["droughts"]).collections == 1
    with pytest.raises(NotFound, match="no collection deluge"):
        export(catalog, tmp_path / "other", "storage", ["deluge", "floods"])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("href", "storage", "wanted"),
    [
        ("floods/a.tif", "https://data.example.com/maps/", "https://data.example.com/maps/floods/a.tif"),
        ("https://elsewhere.example.com/a.tif", "https://data.example.com", "https://elsewhere.example.com/a.tif"),
        ("/srv/a.tif", "storage", "/srv/a.tif"),
    ],
)
def test_the_address_of_an_asset_is_relative_to_the_storage(
    catalog: PostgresCatalog, tmp_path: Path, href: str, storage: str, wanted: str
) -> None:
    catalog.upsert_items("floods", [item(1, href=href)])
    export(catalog, tmp_path / "copy", storage)
    written = json.loads((tmp_path / "copy/floods/tile-0001/tile-0001.json").read_text())
    assert written["assets"]["data"]["href"] == wanted
