"""A job removes its own scratch; a sweep removes leftovers that were not used for a long time, and nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.apps.raster import storage as places
from holdfast.apps.raster.commands import app
from holdfast.apps.raster.handlers import blob_to_mount, remove_scratch
from holdfast.apps.raster.sweeping import Amount, amounts, leftovers, sweep
from tests import stores
from tests.apps.raster.making import Task

DAY = 86_400.0


def file(path: Path, days: float, content: bytes = b"12345") -> Path:
    """Create a file that was last used this number of days ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    used_at = time.time() - days * DAY
    os.utime(path, (used_at, used_at))
    return path


@pytest.mark.parametrize("kind", ["here", *stores.KINDS])
def test_a_job_removes_its_own_scratch_on_disk_and_in_stores(
    storage: Path,
    task: Task,
    kind: str,
    object_store: Callable[[str], stores.Bucket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = object_store(kind) if kind != "here" else None
    if bucket is not None:
        bucket.use(monkeypatch)
        monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", f"scratch={bucket.address}/tmp")
    file(storage / "bronze/a.bin", 0)
    copied = blob_to_mount("bronze/a.bin", ctx=task.attempt())
    assert copied is not None and places.readable(copied["path"]).read_bytes() == b"12345"
    other = file(places.writable("scratch/another/b.bin"), 0)
    if bucket is not None:
        assert len(bucket.objects()) == 1
        bucket.put("tmp/another/b.bin", b"12345")
    assert remove_scratch(ctx=task.attempt()) == {"files": 1, "bytes": 5}
    assert remove_scratch(ctx=task.attempt()) == {"files": 0, "bytes": 0}
    assert other.exists() and not (storage / copied["path"]).parent.exists()
    assert bucket is None or list(bucket.objects()) == ["tmp/another/b.bin"]


def test_a_job_folder_is_swept_as_a_whole_when_none_of_its_files_was_used(storage: Path) -> None:
    old = [file(storage / f"scratch/old/{name}", days) for name, days in (("a.tif", 40), ("deep/b.tif", 31))]
    new = [file(storage / f"scratch/new/{name}", days) for name, days in (("a.tif", 40), ("b.tif", 29))]
    old.append(file(storage / "scratch/without-a-job.bin", 31))
    kept = [file(storage / "silver/a.tif", 400), file(storage / "scratched/a.tif", 400)]
    assert amounts(leftovers(30 * DAY))["scratch"] == Amount(3, 15)
    assert sweep(30 * DAY) == {"scratch": Amount(3, 15), "drafts": Amount(0, 0), "copies": Amount(0, 0)}
    assert not any(path.exists() for path in old) and not (storage / "scratch/old").exists()
    assert all(path.exists() for path in [*new, *kept])


def test_old_drafts_are_swept(storage: Path) -> None:
    old = file(storage / "silver/x/.a.tif.job.node-1.part", 2)
    new = file(storage / "silver/x/.b.tif.job.node-1.part", 0)
    assert sweep(1 * DAY)["drafts"] == Amount(1, 5)
    assert not old.exists() and new.exists()


@pytest.fixture
def copy(storage: Path, object_store: Callable[[str], stores.Bucket], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local copy of an object, just downloaded."""
    bucket = object_store("s3")
    bucket.use(monkeypatch)
    monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", f"maps={bucket.address}")
    bucket.put("a.bin", b"object")
    return places.readable("maps/a.bin")


def test_old_copies_of_objects_are_swept_and_downloaded_again_on_demand(storage: Path, copy: Path) -> None:
    by_hand = file(storage / "maps/by-hand.bin", 400)
    assert sweep(1 * DAY)["copies"] == Amount(0, 0)
    long_ago = time.time() - 2 * DAY
    os.utime(copy, ns=(int(long_ago * 1e9), copy.stat().st_mtime_ns - int(2 * DAY * 1e9)))
    assert sweep(1 * DAY)["copies"] == Amount(1, 6)
    assert not copy.exists() and not list(copy.parent.glob(".*")) and by_hand.exists()
    assert places.readable("maps/a.bin").read_bytes() == b"object"


def test_reading_a_copy_counts_as_use(copy: Path) -> None:
    inode = copy.stat().st_ino
    os.utime(copy, ns=(1, copy.stat().st_mtime_ns))
    assert places.readable("maps/a.bin").stat().st_ino == inode, "it was downloaded again"
    assert copy.stat().st_atime_ns > 1


def test_a_copy_without_its_file_is_downloaded_again(copy: Path) -> None:
    copy.unlink()
    assert places.readable("maps/a.bin").read_bytes() == b"object"


def test_a_copy_that_is_swept_during_a_read_is_downloaded_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    utime = os.utime

    def be_late(path: Path, **arguments: Any) -> None:
        places.forget(copy)
        utime(path, **arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", be_late)
        assert places.readable("maps/a.bin").read_bytes() == b"object"


def test_a_sweep_ignores_files_that_are_deleted_meanwhile(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, left = file(storage / "silver/.a.tif.x-1.part", 40), file(storage / "silver/.b.tif.x-1.part", 40)
    walk = os.walk

    def walk_and_lose(folder: Path) -> Any:
        entries = list(walk(folder))
        if folder == gone.parent:
            gone.unlink()
        return entries

    monkeypatch.setattr(os, "walk", walk_and_lose)
    assert sweep(30 * DAY)["drafts"] == Amount(1, 5)
    assert not left.exists()


def test_the_folder_of_a_job_that_writes_again_stays(storage: Path) -> None:
    file(storage / "scratch/job/deep/old.tif", 40)
    (storage / "scratch/new/deep").mkdir(parents=True)
    assert sweep(30 * DAY)["scratch"] == Amount(1, 5)
    assert [path.name for path in (storage / "scratch").iterdir()] == ["new"]


def test_a_file_that_is_used_right_before_its_removal_stays(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, left = file(storage / "scratch/job/a.tif", 40), file(storage / "scratch/job/b.tif", 40)
    listed = list(leftovers(30 * DAY))
    os.utime(used)
    monkeypatch.setattr("holdfast.apps.raster.sweeping.leftovers", lambda _: iter(listed))
    assert sweep(30 * DAY)["scratch"] == Amount(1, 5)
    assert used.exists() and not left.exists()


def test_the_command_lists_first_and_removes_only_with_yes(storage: Path) -> None:
    old = file(storage / "scratch/old/a.tif", 40)
    listing = CliRunner().invoke(app, ["sweep"])
    assert "scratch  1 file, 5 B" in listing.stdout
    assert "Remove them with: holdfast raster sweep --older-than 30d --yes" in listing.stderr
    assert old.exists()
    done = CliRunner().invoke(app, ["sweep", "--yes", "--json"])
    assert json.loads(done.stdout) == {
        "older_than_seconds": 30 * DAY,
        "removed": True,
        "scratch": {"files": 1, "bytes": 5},
        "drafts": {"files": 0, "bytes": 0},
        "copies": {"files": 0, "bytes": 0},
    }
    assert not old.exists()
    assert "There is nothing to remove" in CliRunner().invoke(app, ["sweep"]).stdout


def test_a_machine_without_storage_has_nothing_to_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "nowhere"))
    assert amounts(leftovers(0)) == sweep(0) == dict.fromkeys(("scratch", "drafts", "copies"), Amount(0, 0))
    assert not (tmp_path / "nowhere").exists()
