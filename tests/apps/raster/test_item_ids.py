"""The facts about a raster that a catalog gets."""

from __future__ import annotations

import pytest

from holdfast.apps.catalog.rows import check_id
from holdfast.apps.raster.item_ids import item_id


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("silver/x/cog.tif", "silver-x-cog"),
        ("silver/a.tif", "silver-a"),
        ("gold/v1.2/tile_00001.tif", "gold-v1.2-tile_00001"),
    ],
)
def test_the_id_of_a_simple_name_is_the_name_with_hyphens(name: str, expected: str) -> None:
    assert item_id(name) == expected


def test_different_names_have_different_ids() -> None:
    names = ["silver/a-b.tif", "silver/a/b.tif", "silver/a b.tif", "silver/a_b.tif", "silver/a.tiff", "silver/a.tif"]
    names += ["silver/a", "silver/ä.tif", "silver/ö.tif", "silver-a/b.tif", "silver/x.json.tif", "-/x.tif"]
    names += [f"silver/{'x' * 300}{letter}/cog.tif" for letter in "ab"]
    ids = [check_id(item_id(name)) for name in names]
    assert len(set(ids)) == len(names)
    assert item_id("silver/a/b.tif") == "silver-a-b"
    assert item_id("silver/a-b.tif").startswith("silver-a-b~")
