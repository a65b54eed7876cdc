from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rio_cogeo.cogeo import cog_validate

from holdfast import Permanent, Transient
from holdfast.apps.flood import raster
from holdfast.apps.flood.direct import stack_all
from holdfast.apps.flood.generate import generate
from holdfast.apps.flood.inventory import take_inventory
from holdfast.apps.flood.naming import Group, group_of
from holdfast.apps.flood.stack import stack
from tests.apps.flood.conftest import depths

WriteTile = Callable[..., Path]
YEARS = [10, 100, 1000]
GROUP = group_of("CIV", "fluvial", "A", YEARS)
OTHER = Affine(30, 0, 500_030, 0, -30, 700_000)


def make(folder: Path, group: Group = GROUP) -> dict[str, Any]:
    return stack(group, folder / "source", folder / "stacks/A.tif", "silver/A.tif")


@pytest.fixture
def tiles(tmp_path: Path, write_tile: WriteTile) -> list[Path]:
    return [write_tile(tmp_path / "source" / file, depths(seed)) for seed, file in enumerate(GROUP.files)]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("shape", [(512, 512), (700, 1100), (513, 300)])
def test_the_pixels_of_a_stack_equal_those_of_its_sources(
    tmp_path: Path, write_tile: WriteTile, shape: tuple[int, int]
) -> None:
    made = [depths(seed, shape) for seed in range(3)]
    for values, file in zip(made, GROUP.files, strict=True):
        write_tile(tmp_path / "source" / file, values)
    facts = make(tmp_path)
    with rasterio.open(tmp_path / "stacks/A.tif") as file:
        assert (file.read() == np.stack(made)).all()
        assert file.descriptions == ("rp0010", "rp0100", "rp1000")
        assert (file.crs.to_epsg(), file.nodata, file.dtypes) == (32630, -9999.0, ("float32",) * 3)
        assert file.transform == Affine(30, 0, 500_000, 0, -30, 700_000)
        assert file.overviews(1)
    assert cog_validate(tmp_path / "stacks/A.tif", strict=True, quiet=True)[0]
    for values, band in zip(made, facts["bands"], strict=True):
        known = values[values != -9999.0]
        assert band["minimum"] == known.min()
        assert band["maximum"] == known.max()
        assert band["mean"] == pytest.approx(known.mean(dtype=np.float64), abs=1e-6)
        assert band["wet_share"] == pytest.approx((known > 0).mean(), abs=1e-6)
        assert band["valid_share"] == pytest.approx(known.size / values.size, abs=1e-6)


def test_the_output_has_the_facts_that_a_catalog_needs(tmp_path: Path, tiles: list[Path]) -> None:
    facts = make(tmp_path)
    content = (tmp_path / "stacks/A.tif").read_bytes()
    assert facts["sha256"] == hashlib.sha256(content).hexdigest()
    assert facts["bytes"] == len(content)
    assert {
        name: facts[name] for name in ("id", "region", "place", "scenario", "href", "crs", "shape", "transform")
    } == {
        "id": "CIV/fluvial/A",
        "region": "CIV",
        "place": "A",
        "scenario": "fluvial",
        "href": "silver/A.tif",
        "crs": "EPSG:32630",
        "shape": [512, 512],
        "transform": [30.0, 0.0, 500_000.0, 0.0, -30.0, 700_000.0],
    }
    assert facts["return_periods"] == YEARS
    assert facts["max_depth_m"] == pytest.approx(max(band["maximum"] for band in facts["bands"]), abs=1e-4)
    assert facts["warnings"] == []
    west, south, east, north = facts["bbox"]
    ring = facts["footprint"]["coordinates"][0]
    assert ring[0] == ring[-1]
    assert (west, north) == (min(x for x, _ in ring), max(y for _, y in ring))
    assert -3.01 < west < east < -2.8
    assert 6.1 < south < north < 6.4
    assert len(json.dumps(facts)) < 4000


def test_depths_in_centimetres_are_kept_and_also_reported_in_metres(made: Path, tmp_path: Path) -> None:
    group = Group(**take_inventory("RWA", made)["groups"][0])
    facts = stack(group, made, tmp_path / "stack.tif", "stack.tif")
    assert facts["crs"] == "EPSG:4326"
    assert {(band["unit"], band["dtype"]) for band in facts["bands"]} == {("cm", "int16")}
    assert facts["max_depth_m"] == max(band["maximum"] for band in facts["bands"]) / 100
    assert facts["datetime"] == "2024-01-01T00:00:00Z"
    assert len(facts["footprint"]["coordinates"][0]) == 5


def test_the_same_sources_give_the_same_bytes(tmp_path: Path, tiles: list[Path]) -> None:
    first = make(tmp_path)
    (tmp_path / "stacks/A.tif").unlink()
    again = make(tmp_path)
    assert again == first
    assert again["reused"] is False


def test_a_stack_of_the_same_inputs_is_kept(tmp_path: Path, tiles: list[Path]) -> None:
    first = make(tmp_path)
    before = (tmp_path / "stacks/A.tif").stat()
    again = make(tmp_path)
    assert again == {**first, "reused": True}
    after = (tmp_path / "stacks/A.tif").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_stack_of_other_inputs_is_made_again(tmp_path: Path, tiles: list[Path], write_tile: WriteTile) -> None:
    first = make(tmp_path)
    write_tile(tiles[1], depths(99))
    again = make(tmp_path)
    assert again["reused"] is False
    assert again["sha256"] != first["sha256"]


def test_a_damaged_stack_is_made_again(tmp_path: Path, tiles: list[Path]) -> None:
    first = make(tmp_path)
    os.truncate(tmp_path / "stacks/A.tif", first["bytes"] // 2)
    again = make(tmp_path)
    assert again["reused"] is False
    assert again["sha256"] == first["sha256"]


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"crs": "EPSG:32631"}, ("CRS", "EPSG:32630", "EPSG:32631")),
        ({"shape": (500, 512)}, ("size", "512×512", "512×500")),
        ({"nodata": -1.0}, ("nodata", "-9999.0", "-1.0")),
        ({"dtype": "int16"}, ("type of pixels", "float32", "int16")),
        ({"transform": OTHER}, ("position", "500000.0", "500030.0")),
    ],
)
def test_a_tile_that_does_not_fit_is_refused_with_both_names_and_both_values(
    tmp_path: Path, tiles: list[Path], write_tile: WriteTile, changes: dict[str, Any], values: tuple[str, ...]
) -> None:
    pixels = depths(1, changes.pop("shape", (512, 512))).astype(changes.pop("dtype", "float32"))
    write_tile(tiles[1], pixels, **changes)
    with pytest.raises(Permanent) as refused:
        make(tmp_path)
    assert refused.value.code == "FLOOD_MISMATCH"
    for part in (*values, GROUP.files[0], GROUP.files[1]):
        assert part in str(refused.value)
    assert files_in(tmp_path / "stacks") == []


def test_each_defect_of_the_generator_has_its_code(tmp_path: Path) -> None:
    kinds = ("missing", "empty", "truncated", "wrong_crs", "wrong_size", "all_nodata")
    manifest = generate(
        "CIV", 8, tmp_path / "source", 5, return_periods=(10, 100), defects=dict.fromkeys(kinds, 1), workers=1
    )
    groups = {group["id"]: Group(**group) for group in take_inventory("CIV", tmp_path / "source")["groups"]}
    codes: dict[str, str] = {}
    for defect in manifest["defects"]:
        group = groups[defect["file"].rpartition("_RP")[0]]
        target = tmp_path / "stacks" / f"{group.place}.tif"
        if defect["kind"] == "all_nodata":
            codes["all_nodata"] = "; ".join(stack(group, tmp_path / "source", target, "x.tif")["warnings"])
            continue
        with pytest.raises(Permanent, match=defect["file"]) as refused:
            stack(group, tmp_path / "source", target, "x.tif")
        codes[defect["kind"]] = str(refused.value.code)
    band = "rp" + next(d["file"] for d in manifest["defects"] if d["kind"] == "all_nodata")[-8:-4]
    assert codes == {
        "missing": "FLOOD_MISSING",
        "empty": "RASTER_CORRUPTED",
        "truncated": "RASTER_CORRUPTED",
        "wrong_crs": "FLOOD_MISMATCH",
        "wrong_size": "FLOOD_MISMATCH",
        "all_nodata": f"{band}: every pixel is nodata",
    }
    assert not [name for name in files_in(tmp_path / "stacks") if name.startswith(".")]


def test_a_group_succeeds_when_its_missing_tile_is_added(tmp_path: Path, tiles: list[Path]) -> None:
    kept = tiles[2].read_bytes()
    tiles[2].unlink()
    with pytest.raises(Permanent, match="does not exist"):
        make(tmp_path)
    tiles[2].write_bytes(kept)
    assert make(tmp_path)["return_periods"] == YEARS


def test_a_virtual_raster_that_poses_as_a_tile_is_not_followed(tmp_path: Path, tiles: list[Path]) -> None:
    tiles[0].write_text(
        '<VRTDataset rasterXSize="512" rasterYSize="512"><VRTRasterBand dataType="Float32" band="1"><SimpleSource>'
        f"<SourceFilename>{tiles[1]}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(Permanent) as refused:
        make(tmp_path)
    assert refused.value.code == "RASTER_CORRUPTED"


@pytest.mark.parametrize("file", ["../secret.tif", "/etc/passwd", "a/../../b.tif", "a\0b.tif", ""])
def test_a_path_that_leads_out_of_the_source_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(Permanent) as refused:
        make(tmp_path, Group("CIV/x/A", "CIV", "A", "x", [file], ["rp0010"]))
    assert refused.value.code == "FLOOD_PATH"


def test_a_failure_between_writing_and_renaming_leaves_nothing(
    tmp_path: Path, tiles: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[list[str]] = []

    def fail(path: Path, **options: Any) -> tuple[bool, list[str], list[str]]:
        drafts.append(files_in(path.parent))
        return False, ["as asked"], []

    monkeypatch.setattr(raster, "cog_validate", fail)
    with pytest.raises(Transient, match="as asked"):
        make(tmp_path)
    assert [name.startswith(".A.tif.") for name in drafts[0]] == [True], (
        "a complete draft should exist under another name"
    )
    assert files_in(tmp_path / "stacks") == []


def _killed_before_the_rename(folder: Path) -> None:
    def kill(path: Path, **options: Any) -> None:
        os.kill(os.getpid(), 9)

    pytest.MonkeyPatch().setattr(raster, "cog_validate", kill)
    make(folder)


def test_a_kill_before_the_rename_leaves_nothing_visible_and_the_next_attempt_removes_the_draft(
    tmp_path: Path, tiles: list[Path]
) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_killed_before_the_rename, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == -9
    left = files_in(tmp_path / "stacks")
    assert len(left) == 1
    assert left[0].startswith(".A.tif.")
    assert make(tmp_path)["reused"] is False
    assert files_in(tmp_path / "stacks") == ["A.tif"]


def _memory_of_a_large_stack(folder: Path, answer: Any) -> None:
    raster.CACHE_BYTES = 16 * 1024 * 1024
    peaks = []
    for name in ("small", "large"):
        make(folder, group_of("CIV", "fluvial", name, [10, 100]))
        status = Path("/proc/self/status").read_text().splitlines()
        peaks.append(int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024)
    answer.send(peaks)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_size_of_a_stack(tmp_path: Path, write_tile: WriteTile) -> None:
    pixels = np.zeros((3584, 3584), np.float32)
    pixels[1000:2000, 1000:3000] = 1.5
    for name, values in (("small", pixels[:512, :512]), ("large", pixels)):
        for file in group_of("CIV", "fluvial", name, [10, 100]).files:
            write_tile(tmp_path / "source" / file, values, compress="deflate", tiled=True)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_memory_of_a_large_stack, args=(tmp_path, theirs))
    child.start()
    small, large = ours.recv()
    child.join()
    assert large - small < 70_000_000, "the two bands are 103 MB"


def test_plain_processes_make_the_same_stacks(made: Path, tmp_path: Path) -> None:
    groups = take_inventory("CIV", made)["groups"][:3]
    facts = stack_all(groups, made, tmp_path / "plain", processes=2)
    assert [fact["id"] for fact in facts] == [group["id"] for group in groups]
    alone = stack(Group(**groups[0]), made, tmp_path / "alone.tif", facts[0]["href"])
    assert alone == facts[0]
