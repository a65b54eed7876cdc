from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holdfast.apps.flood.inventory import take_inventory
from holdfast.apps.flood.naming import Group
from holdfast.apps.flood.quicklook import DRY, LAKE, contact_sheet, footprint_map
from holdfast.apps.flood.stack import stack


@pytest.fixture(scope="module")
def stacks(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("stacks")
    groups = [Group(**group) for group in take_inventory("CIV", made)["groups"]]
    return folder, [stack(group, made, folder / f"{group.id}.tif", f"{group.id}.tif") for group in groups]


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def test_a_map_shows_every_place_in_the_colour_of_its_depth(
    stacks: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    facts = stacks[1]
    picture = footprint_map(facts, tmp_path / "map.png", "Flood hazard, CIV")
    first = pixels(tmp_path / "map.png")
    assert picture["size"] == [first.shape[1], first.shape[0]]
    assert picture["size"][0] > 800
    assert picture["size"][1] > 800
    deeper = [{**fact, "max_depth_m": 30.0} if fact["place"] == facts[0]["place"] else fact for fact in facts]
    footprint_map(deeper, tmp_path / "deeper.png", "Flood hazard, CIV")
    assert (pixels(tmp_path / "deeper.png") != first).any()


def test_the_same_stacks_give_the_same_picture(stacks: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    first = footprint_map(stacks[1], tmp_path / "map.png", "x")
    assert footprint_map(stacks[1], tmp_path / "map.png", "x") == first


@pytest.mark.parametrize(("count", "size"), [(1, (620, 536)), (4, (1204, 536)), (6, (1204, 884)), (50, (1204, 884))])
def test_a_sheet_has_room_for_each_thumbnail(
    stacks: tuple[Path, list[dict[str, Any]]], made: Path, tmp_path: Path, count: int, size: tuple[int, int]
) -> None:
    folder, facts = stacks
    picture = contact_sheet(facts, tmp_path / "sheet.png", "Flood hazard", lambda href: folder / href, made, count)
    assert tuple(picture["size"]) == size
    assert pixels(tmp_path / "sheet.png").shape == (size[1], size[0], 3)


def test_a_thumbnail_shows_water_on_the_terrain(
    stacks: tuple[Path, list[dict[str, Any]]], made: Path, tmp_path: Path
) -> None:
    folder, facts = stacks
    wettest = max(facts, key=lambda fact: fact["bands"][-1]["wet_share"])
    for name, source in (("with.png", made), ("without.png", None)):
        contact_sheet([wettest], tmp_path / name, "x", lambda href: folder / href, source, 1)
    thumb = pixels(tmp_path / "without.png")[176:424, 52:300].reshape(-1, 3).astype(int)
    blue = (thumb[:, 2] - thumb[:, 0] > 30) & (thumb != LAKE).any(axis=1)
    assert blue.mean() == pytest.approx(wettest["bands"][-1]["wet_share"], abs=0.08)
    assert (thumb == DRY).all(axis=1).any()
    hills = pixels(tmp_path / "with.png")[176:424, 52:300].reshape(-1, 3).astype(int)
    assert len(np.unique(hills, axis=0)) > 2 * len(np.unique(thumb, axis=0)) or hills.std() > thumb.std()


def test_letters_that_the_font_lacks_are_drawn_without_accents(
    stacks: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    footprint_map(stacks[1], tmp_path / "accent.png", "Côte d’Ivoire")
    footprint_map(stacks[1], tmp_path / "plain.png", "Cote d’Ivoire")
    assert (pixels(tmp_path / "accent.png") == pixels(tmp_path / "plain.png")).all()


def test_stacks_without_data_have_the_colour_of_dry_land(
    stacks: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    nothing = [{**fact, "max_depth_m": None} for fact in stacks[1]]
    footprint_map(nothing, tmp_path / "map.png", "x")
    assert (pixels(tmp_path / "map.png") == DRY).all(axis=2).any()
