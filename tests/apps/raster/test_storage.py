"""Names in storage: which path they stand for, and which they must never reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import Permanent
from holdfast.apps.raster.storage import part_of, readable, replacing, writable
from tests.apps.raster.making import Task

OUTSIDE = [
    "../secret",
    "bronze/../../secret",
    "bronze/..",
    "bronze//x",
    "bronze/./x",
    "/etc/passwd",
    "/vsicurl/https://example.org/x.tif",
    "/vsizip/bronze/x.zip/a.tif",
    "/vsimem/x",
    "GTIFF_DIR:1:/etc/passwd",
    "GTIFF_DIR:1:bronze/x.tif",
    "NETCDF:bronze/x.nc:depth",
    "zip+file:bronze/x.zip",
    "<VRTDataset>/x",
    "bronze/.hidden",
    "bronze/a\\b",
    "bronze/a\0b",
    "bronze/a\nb",
    "x.tif",
    "",
    "~/x",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_of_storage_is_refused(name: str, storage: Path) -> None:
    for meaning in (readable, writable):
        with pytest.raises(Permanent) as refusal:
            meaning(name)
        assert refusal.value.code == "PATH_REFUSED"


def test_a_link_out_of_storage_is_refused(storage: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.tif").write_bytes(b"secret")
    (storage / "bronze" / "link").symlink_to(tmp_path / "secret")
    (storage / "bronze" / "x.tif").symlink_to(tmp_path / "secret" / "x.tif")
    (storage / "door").symlink_to(tmp_path)
    for name in ("bronze/link/x.tif", "bronze/x.tif", "door/secret/x.tif"):
        with pytest.raises(Permanent, match="leads out"):
            readable(name)
    for name in ("bronze/link/new.tif", "door/secret/new.tif", "door/new/new.tif"):
        with pytest.raises(Permanent, match="leads out"):
            writable(name)
    assert sorted(tmp_path.rglob("new*")) == []


def test_a_blob_is_a_file_below_its_container(storage: Path) -> None:
    (storage / "bronze" / "2024").mkdir()
    file = storage / "bronze" / "2024" / "depth 12:00 (1).tif"
    file.write_bytes(b"x")
    assert readable("bronze/2024/depth 12:00 (1).tif") == file
    assert writable("silver/a/b.tif") == storage / "silver" / "a" / "b.tif"
    assert (storage / "silver" / "a").is_dir()


def test_the_error_for_a_missing_file_names_it(storage: Path) -> None:
    with pytest.raises(Permanent, match=r"no file 'bronze/x\.tif'") as missing:
        readable("bronze/x.tif")
    assert missing.value.code == "FILE_NOT_FOUND"


def test_an_absolute_path_is_read_only_below_a_root_that_the_operator_named(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "x.tif").write_bytes(b"x")
    (archive / "out.tif").symlink_to("/etc/passwd")
    with pytest.raises(Permanent, match="leads out"):
        readable(str(archive / "x.tif"))
    monkeypatch.setenv("HOLDFAST_RASTER_ROOTS", os.pathsep.join(["/nowhere", str(archive)]))
    assert readable(str(archive / "x.tif")) == archive / "x.tif"
    for name in (archive / "out.tif", archive / ".." / "archive2", Path("/etc/passwd")):
        with pytest.raises(Permanent, match="leads out"):
            readable(str(name))
    with pytest.raises(Permanent, match="written into containers"):
        writable(str(archive / "x.tif"))


def fill_half(target: Path, task: Task) -> None:
    with replacing(target, task.attempt()) as temporary:
        temporary.write_bytes(b"half")
        Path(f"{temporary}.ovr.tmp").write_bytes(b"beside")
        raise OSError("the disk is full")


def test_an_incomplete_file_is_never_visible(task: Task) -> None:
    target = writable("silver/x.bin")
    target.write_bytes(b"old")
    with pytest.raises(OSError, match="disk"):
        fill_half(target, task)
    assert [file.name for file in target.parent.iterdir()] == ["x.bin"]
    assert target.read_bytes() == b"old"
    with replacing(target, task.attempt()) as temporary:
        temporary.write_bytes(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert [file.name for file in target.parent.iterdir()] == ["x.bin"]


def test_a_zombie_attempt_cannot_publish_after_the_next_attempt_has_begun(task: Task) -> None:
    target = writable("silver/x.bin")
    zombie = replacing(target, task.attempt())
    zombie.__enter__().write_bytes(b"of the zombie")
    with replacing(target, task.attempt()) as temporary:
        with pytest.raises(FileNotFoundError):
            zombie.__exit__(None, None, None)
        temporary.write_bytes(b"of its successor")
    assert target.read_bytes() == b"of its successor"


def test_each_task_has_its_own_temporary_file(task: Task) -> None:
    target = writable("silver/x.bin")
    parts = {part_of(target, task.attempt(item=item)) for item in (-1, 0, 1)}
    assert len(parts) == 3


@pytest.mark.parametrize("name", ["bronze/" + "x" * 300, "bronze/" + "x/" * 3000 + "y", "/" + "x" * 5000, "/a\0b"])
def test_an_impossible_file_name_is_refused_permanently(name: str, storage: Path) -> None:
    for use in (readable, writable):
        with pytest.raises(Permanent) as refusal:
            use(name)
        assert refusal.value.code == "PATH_REFUSED"
        assert len(str(refusal.value)) < 500


def test_a_link_to_itself_is_refused_permanently(storage: Path) -> None:
    (storage / "bronze").mkdir(parents=True, exist_ok=True)
    (storage / "bronze" / "loop").symlink_to("loop")
    for name in ("bronze/loop", "bronze/loop/x.tif"):
        with pytest.raises(Permanent) as refusal:
            readable(name)
        assert refusal.value.code == "PATH_REFUSED"


def test_a_file_with_the_longest_name_is_written(task: Task, storage: Path) -> None:
    target = writable("bronze/" + "x" * 196 + ".tif")
    with replacing(target, task.attempt()) as temporary:
        temporary.write_bytes(b"whole")
    part_of(target, task.attempt()).write_bytes(b"")
    assert target.read_bytes() == b"whole"
