"""Boxes on the earth and time ranges."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.apps.catalog.extents import bbox_of, flat, footprint, moment, round_earth, searched_range


@pytest.mark.parametrize(
    ("bbox", "wanted"),
    [
        ([-8, 4, -2, 11], (-8, 4, -2, 11)),
        ([-8, 4, 0, -2, 11, 900], (-8, 4, -2, 11)),
        ([170, -20, -170, -10], (170, -20, 190, -10)),
        ([-180, -90, 180, 90], (-180, -90, 180, 90)),
        ([5, 5, 5, 5], (5, 5, 5, 5)),
    ],
)
def test_a_box_across_the_antimeridian_is_one_piece(bbox: list[float], wanted: tuple[float, ...]) -> None:
    assert flat(bbox) == wanted


@pytest.mark.parametrize(
    "bbox", [[0, 0, 1], [0, 1, 1, 0], [0, -91, 1, 0], [-181, 0, 1, 1], [0, 0, 190, 1], [0, 0, float("nan"), 1], "abcd"]
)
def test_an_invalid_box_is_refused(bbox: Any) -> None:
    with pytest.raises(ValueError, match="its bbox"):
        flat(bbox)


@pytest.mark.parametrize(
    ("box", "wanted"),
    [
        ((170, -20, 190, -10), [170, -20, -170, -10]),
        ((-190, -20, -170, -10), [170, -20, -170, -10]),
        ((-200, 0, -190, 1), [160, 0, 170, 1]),
        ((350, 0, 355, 1), [-10, 0, -5, 1]),
        ((-180, -90, 180, 90), [-180, -90, 180, 90]),
        ((-180.1, 0, 179.9, 1), [-180, 0, 180, 1]),
        ((170, 0, 180, 1), [170, 0, 180, 1]),
    ],
)
def test_longitudes_outside_180_degrees_are_normalised(box: tuple[float, ...], wanted: list[float]) -> None:
    assert round_earth(*box) == pytest.approx(wanted)


def test_a_footprint_across_the_antimeridian_has_two_parts() -> None:
    assert footprint([0, 0, 1, 2])["coordinates"] == [[[0, 0], [1, 0], [1, 2], [0, 2], [0, 0]]]
    crossing = footprint([179, 0, -179, 1])
    assert crossing["type"] == "MultiPolygon"
    assert [ring[0][0] for (ring,) in crossing["coordinates"]] == [179, -180]
    assert [ring[1][0] for (ring,) in crossing["coordinates"]] == [180, -179]


def test_a_geometry_gives_its_bbox_unless_it_is_ambiguous() -> None:
    assert bbox_of({"type": "LineString", "coordinates": [[1, 2, 7], [-3, 4, 8]]}) == [-3, 2, 1, 4]
    nested = {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [5, 6]}]}
    assert bbox_of(nested) == [5, 6, 5, 6]
    with pytest.raises(ValueError, match="add its bbox"):
        bbox_of(footprint([179, 0, -179, 1]))
    with pytest.raises(ValueError, match="no coordinates"):
        bbox_of({"type": "Polygon", "coordinates": []})


def test_a_time_needs_a_zone() -> None:
    assert moment("2020-01-01T01:00:00+01:00") == moment("2020-01-01T00:00:00Z")
    for text in ("2020-01-01T00:00:00", "2020-01-01", "soon", None, 7):
        with pytest.raises(ValueError, match="is not a time"):
            moment(text)


def test_a_search_takes_one_time_or_a_range() -> None:
    assert searched_range("2020-01-01T00:00:00Z") == "[2020-01-01T00:00:00Z,2020-01-01T00:00:00Z]"
    assert searched_range("2020-01-01T00:00:00Z/..") == "[2020-01-01T00:00:00Z,]"
    assert searched_range("../2020-01-01T00:00:00Z") == "[,2020-01-01T00:00:00Z]"
    for text in ("../..", "/", "2020-01-01T00:00:00Z/2019-01-01T00:00:00Z", "a/b/c"):
        with pytest.raises(ValueError):
            searched_range(text)
