from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from holdfast import Permanent
from holdfast.apps.flood.generate import generate
from holdfast.apps.flood.regions import region_of, tiles_of

ONE_OF_EACH = {"missing": 1, "empty": 1, "truncated": 1, "wrong_crs": 1, "wrong_size": 1, "all_nodata": 1}


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read(path: Path) -> tuple[Any, dict[str, Any]]:
    with rasterio.open(path) as file:
        return file.read(1, masked=True), {**file.profile, "units": file.units[0]}


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_processes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"return_periods": (10, 100), "defects": {"truncated": 1, "missing": 1}}
    generate("XYZ", 8, tmp_path / "one", 3, workers=1, **options)
    generate("XYZ", 8, tmp_path / "two", 3, workers=2, **options)
    generate("XYZ", 8, tmp_path / "other", 4, workers=1, **options)
    first = digests(tmp_path / "one")
    assert first == digests(tmp_path / "two")
    assert len(first) == 8 * 2 - 1 + 2 + 1, "all tiles but the missing one, two terrains, the manifest"
    assert first != digests(tmp_path / "other")


def test_tiles_have_the_crs_the_type_and_the_unit_of_their_region(made: Path) -> None:
    metres, civ = read(next(made.glob("CIV/fluvial_undefended/*_RP1000.tif")))
    centimetres, rwa = read(next(made.glob("RWA/fluvial_undefended/*_RP1000.tif")))
    assert (civ["crs"].to_epsg(), civ["dtype"], civ["nodata"], civ["units"]) == (32630, "float32", -9999.0, "m")
    assert (rwa["crs"].to_epsg(), rwa["dtype"], rwa["nodata"], rwa["units"]) == (4326, "int16", -32768, "cm")
    assert metres.shape == centimetres.shape == (512, 512)
    assert 0.5 < metres.max() < 30
    assert 50 < centimetres.max() < 3000


def test_a_rarer_flood_is_nowhere_shallower(made: Path) -> None:
    grown = 0
    for often in made.glob("*/*/*_RP0010.tif"):
        usual, _ = read(often)
        rare, _ = read(often.with_name(often.name.replace("RP0010", "RP1000")))
        assert (rare >= usual).all()
        grown += rare.sum() > usual.sum()
    assert grown >= 8


def test_neighbouring_tiles_meet_without_a_seam(made: Path) -> None:
    tiles = {}
    for path in made.glob("CIV/fluvial_undefended/*_RP1000.tif"):
        values, profile = read(path)
        tiles[profile["transform"].c, profile["transform"].f] = (values, profile["transform"].a * 512)
    seams = 0
    for (left, top), (values, side) in tiles.items():
        if (left + side, top) in tiles:
            seams += 1
            across = np.abs(values[:, -1] - tiles[left + side, top][0][:, 0])
            before = np.abs(values[:, -2] - values[:, -1])
            assert across.mean() < 1.5 * before.mean() + 0.01
    assert seams, "some tiles should be neighbours"


def test_a_country_is_cut_into_the_requested_number_of_places() -> None:
    for count in (10, 481, 1924):
        tiles = tiles_of(region_of("CIV"), count)
        assert len({tile.place for tile in tiles}) == len({(tile.left, tile.top) for tile in tiles}) == count


@pytest.mark.parametrize("name", ["AAA", "FRA", "ZZZ", "QRS"])
def test_any_three_letters_name_a_region(name: str) -> None:
    region = region_of(name)
    assert region == region_of(name)
    assert len({tile.place for tile in tiles_of(region, 24)}) == 24


def test_an_invalid_region_is_refused() -> None:
    with pytest.raises(Permanent, match="three capital letters"):
        region_of("../x")


def test_each_defect_is_made_and_listed_in_the_manifest(tmp_path: Path) -> None:
    manifest = generate("CIV", 8, tmp_path, 5, return_periods=(10, 100), defects=ONE_OF_EACH, workers=1)
    assert json.loads((tmp_path / "CIV/manifest.json").read_text()) == manifest
    spoiled = {defect["kind"]: tmp_path / defect["file"] for defect in manifest["defects"]}
    assert sorted(spoiled) == sorted(ONE_OF_EACH)
    assert len({path.name.split("_RP")[0] + path.parent.name for path in spoiled.values()}) == 6, (
        "each group should have one defect"
    )
    assert not spoiled["missing"].exists()
    assert spoiled["empty"].stat().st_size == 0
    with rasterio.open(spoiled["truncated"]) as file, pytest.raises(rasterio.errors.RasterioIOError):
        file.read()
    assert read(spoiled["wrong_crs"])[1]["crs"].to_epsg() == 32635
    assert read(spoiled["wrong_size"])[0].shape == (500, 512)
    assert read(spoiled["all_nodata"])[0].mask.all()
    whole = [path for path in tmp_path.glob("CIV/*/*_RP*.tif") if path not in spoiled.values()]
    assert len(whole) == 16 - 6
    for path in whole:
        assert read(path)[0].shape == (512, 512)


def test_an_unknown_defect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="cannot have the defects"):
        generate("CIV", 8, tmp_path, 5, defects={"haunted": 1})
    assert list(tmp_path.iterdir()) == []
