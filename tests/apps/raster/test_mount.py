"""Copies are complete or invisible, and continue where an earlier attempt ended."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from holdfast import Permanent
from holdfast.apps.raster.handlers import blob_to_mount
from holdfast.worker.context import LeaseLost
from tests.apps.raster.making import Died, Task

CONTENT = os.urandom(5 * 1024 * 1024 + 7)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def source(storage: Path) -> str:
    (storage / "bronze" / "x.tif").write_bytes(CONTENT)
    return "bronze/x.tif"


def visible(storage: Path) -> list[str]:
    return [str(file.relative_to(storage)) for file in storage.rglob("*.tif")]


def test_a_file_is_copied_into_the_scratch_folder_of_its_job(source: str, task: Task, storage: Path) -> None:
    context = task.attempt()
    done = blob_to_mount(source, expected_sha256=DIGEST.upper(), ctx=context)
    path = f"scratch/{context.job_id}/x.tif"
    assert done is not None
    assert done == {
        "path": path,
        "local_path": path,
        "source": source,
        "bytes": len(CONTENT),
        "size_bytes": len(CONTENT),
        "size_mb": 5.0,
        "sha256": DIGEST,
        "resumed_from": 0,
    }
    assert (storage / path).read_bytes() == CONTENT


def test_the_next_attempt_continues_from_the_checkpoint(source: str, task: Task, storage: Path) -> None:
    task.dies_after = 3
    with pytest.raises(Died):
        blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt())
    assert visible(storage) == ["bronze/x.tif"]
    task.dies_after = None
    done = blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt())
    assert done is not None
    assert (done["resumed_from"], done["sha256"]) == (3 * 1024 * 1024, DIGEST)
    assert (storage / "silver" / "x.tif").read_bytes() == CONTENT
    assert [file.name for file in (storage / "silver").iterdir()] == ["x.tif"]


@pytest.mark.parametrize("damage", ["changed", "shorter", "gone"])
def test_the_copied_part_is_verified_before_the_copy_continues(
    damage: str, source: str, task: Task, storage: Path
) -> None:
    task.dies_after = 2
    with pytest.raises(Died):
        blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt())
    (part,) = (storage / "silver").iterdir()
    if damage == "changed":
        with part.open("r+b") as file:
            file.write(b"damaged")
    elif damage == "shorter":
        os.truncate(part, 1024)
    else:
        part.unlink()
    task.dies_after = None
    done = blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt())
    assert done is not None
    assert (done["resumed_from"], done["sha256"]) == (0, DIGEST)
    assert (storage / "silver" / "x.tif").read_bytes() == CONTENT


def test_a_copy_that_was_finished_is_not_made_again(source: str, task: Task, storage: Path) -> None:
    """Not even if the attempt died right before the file became visible."""
    task.dies_after = 1
    with pytest.raises(Died):
        blob_to_mount(source, "silver/x.tif", ctx=task.attempt())
    assert visible(storage) == ["bronze/x.tif"]
    task.dies_after = None
    done = blob_to_mount(source, "silver/x.tif", ctx=task.attempt())
    assert done is not None
    assert done["resumed_from"] == len(CONTENT)
    before = (storage / "silver" / "x.tif").stat()
    done = blob_to_mount(source, "silver/x.tif", ctx=task.attempt())
    another = blob_to_mount(source, "silver/x.tif", expected_sha256=DIGEST, ctx=Task(task._home).attempt())
    assert done is not None and another is not None
    assert done["sha256"] == another["sha256"] == DIGEST
    after = (storage / "silver" / "x.tif").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_with_the_wrong_checksum_does_not_become_visible(source: str, task: Task, storage: Path) -> None:
    with pytest.raises(Permanent, match="has the wrong checksum") as failure:
        blob_to_mount(source, "silver/x.tif", expected_sha256="0" * 64, ctx=task.attempt())
    assert failure.value.code == "CHECKSUM_MISMATCH"
    assert list((storage / "silver").iterdir()) == []


def test_a_file_that_is_too_large_is_refused(source: str, task: Task, storage: Path) -> None:
    with pytest.raises(Permanent, match="Raise max_mb") as failure:
        blob_to_mount(source, "silver/x.tif", max_mb=4, ctx=task.attempt())
    assert failure.value.code == "RASTER_TOO_LARGE"
    assert list((storage / "silver").iterdir()) == []


def test_a_copy_that_is_asked_to_stop_saves_a_checkpoint_and_stops(source: str, task: Task, storage: Path) -> None:
    task.stops_after = 1
    assert blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt()) is None
    assert visible(storage) == ["bronze/x.tif"]
    task.stops_after = None
    done = blob_to_mount(source, "silver/x.tif", checkpoint_mb=1, ctx=task.attempt())
    assert done is not None
    assert done["resumed_from"] > 0


def test_an_attempt_without_its_lease_makes_nothing_visible(source: str, task: Task, storage: Path) -> None:
    task.holds = False
    with pytest.raises(LeaseLost):
        blob_to_mount(source, "silver/x.tif", ctx=task.attempt())
    assert visible(storage) == ["bronze/x.tif"]
