from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import Permanent
from holdfast.apps.flood.inventory import read_expected, take_inventory

NOTHING = {"count": 0, "names": []}


def test_tiles_are_grouped_by_place_and_scenario_in_the_order_of_return_periods(source: Path) -> None:
    inventory = take_inventory("CIV", source)
    ids = [group["id"] for group in inventory["groups"]]
    assert ids == sorted(ids)
    assert len(set(ids)) == 8
    for group in inventory["groups"]:
        assert group["id"] == f"CIV/{group['scenario']}/{group['place']}"
        assert group["bands"] == ["rp0010", "rp0100", "rp1000"]
        assert group["files"] == [f"{group['id']}_RP{years}.tif" for years in ("0010", "0100", "1000")]
        assert all((source / file).is_file() for file in group["files"])
    assert inventory["counts"] | {"bytes": 0} == {"groups": 8, "places": 4, "scenarios": 2, "files": 24, "bytes": 0}
    assert (
        inventory["missing"] == inventory["missing_groups"] == inventory["empty"] == inventory["unexpected"] == NOTHING
    )


def test_two_inventories_of_the_same_files_are_the_same(source: Path) -> None:
    assert json.dumps(take_inventory("CIV", source)) == json.dumps(take_inventory("CIV", source))


def test_a_missing_tile_is_listed_and_its_group_still_names_it(source: Path) -> None:
    gone = sorted(source.glob("CIV/pluvial_defended/*_RP0100.tif"))[1]
    gone.unlink()
    inventory = take_inventory("CIV", source)
    name = str(gone.relative_to(source))
    assert inventory["missing"] == {"count": 1, "names": [name]}
    assert [name in group["files"] for group in inventory["groups"]].count(True) == 1


def test_unexpected_files_are_listed(source: Path) -> None:
    scenario = source / "CIV/pluvial_defended"
    for name in ("notes.txt", "N0000W00000_RP100.tif", "N0000W00000_RP0100.tif.aux.xml"):
        (scenario / name).write_text("x")
    (source / "CIV/readme.md").write_text("x")
    (source / "CIV/Odd Folder").mkdir()
    (source / "CIV/Odd Folder/x.tif").write_text("x")
    assert take_inventory("CIV", source)["unexpected"]["names"] == [
        "CIV/Odd Folder",
        "CIV/pluvial_defended/N0000W00000_RP0100.tif.aux.xml",
        "CIV/pluvial_defended/N0000W00000_RP100.tif",
        "CIV/pluvial_defended/notes.txt",
        "CIV/readme.md",
    ]


def test_empty_files_are_listed(source: Path) -> None:
    empty = sorted(source.glob("CIV/pluvial_defended/*_RP0100.tif"))[0]
    empty.write_bytes(b"")
    assert take_inventory("CIV", source)["empty"] == {"count": 1, "names": [str(empty.relative_to(source))]}


def test_a_manifest_lists_the_expected_groups_and_return_periods(source: Path) -> None:
    expected = read_expected(source / "CIV/manifest.json")
    place = sorted(source.glob("CIV/pluvial_defended/*_RP0100.tif"))[0].name.split("_")[0]
    for path in source.glob(f"CIV/pluvial_defended/{place}_*.tif"):
        path.unlink()
    stranger = source / "CIV/pluvial_defended/N9999E00000_RP0100.tif"
    stranger.write_bytes(b"x")
    inventory = take_inventory("CIV", source, expected)
    assert inventory["missing_groups"] == {"count": 1, "names": [f"CIV/pluvial_defended/{place}"]}
    assert inventory["unexpected"]["names"] == [str(stranger.relative_to(source))]
    assert inventory["counts"]["groups"] == 7


def test_a_return_period_that_no_group_has_is_missing_everywhere(source: Path) -> None:
    inventory = take_inventory("RWA", source, {"return_periods": [10, 50, 100, 1000]})
    assert [name[-10:] for name in inventory["missing"]["names"]] == ["RP0050.tif"] * 2


def test_a_region_without_a_folder_says_where_its_tiles_go(source: Path) -> None:
    with pytest.raises(Permanent, match="GHA/scenario/PLACE_RPnnnn") as refused:
        take_inventory("GHA", source)
    assert refused.value.code == "FLOOD_MISSING"


def test_the_inventory_of_a_country_stays_small(tmp_path: Path) -> None:
    """An inventory reads only names, so empty files are enough; a fortieth of the 1,924 groups is used."""
    years = (10, 20, 50, 100, 200, 500, 1000)
    for scenario in ("fluvial_undefended", "fluvial_defended", "pluvial_defended", "coastal_undefended"):
        folder = tmp_path / "CIV" / scenario
        folder.mkdir(parents=True)
        for place in range(12):
            for year in years:
                (folder / f"N{place:04d}W00402_RP{year:04d}.tif").touch()
    inventory = take_inventory("CIV", tmp_path)
    assert inventory["counts"]["groups"] == 48
    assert (inventory["empty"]["count"], len(inventory["empty"]["names"])) == (48 * 7, 200)
    assert len(json.dumps(inventory["groups"])) < 1_500_000 / 40
