"""Containers in object stores: reads get the current object, and writes upload complete objects."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

import holdfast.apps.flood as flood
import holdfast.apps.flood.handlers as flood_handlers
import holdfast.apps.raster.handlers as raster_handlers
from holdfast import Permanent, Transient, load_file
from holdfast.apps.flood.generate import generate
from holdfast.apps.flood.inventory import take_inventory
from holdfast.apps.raster import storage
from holdfast.apps.raster.handlers import blob_to_mount, create_cog, process_tile_batch, validate
from holdfast.define.registry import Registry
from tests import stores
from tests.apps.raster.making import Task, make, ramp
from tests.marks import IN_CHAOS
from tests.running import running

STACK = load_file(Path(flood.__file__).with_name("flood_stack.yaml"))


@pytest.fixture(params=stores.KINDS)
def bucket(
    request: pytest.FixtureRequest, object_store: Callable[[str], stores.Bucket], monkeypatch: pytest.MonkeyPatch
) -> stores.Bucket:
    """An empty bucket that the worker uses for the containers `bronze` and `silver`."""
    bucket = object_store(request.param)
    bucket.use(monkeypatch)
    containers = f"bronze={bucket.address}/in silver={bucket.address}/out/cogs"
    monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", containers)
    return bucket


@pytest.fixture
def handlers(bucket: stores.Bucket) -> Iterator[Registry]:
    """The handlers of the flood app, imported as by a worker with containers in an object store."""

    modules = (raster_handlers, flood_handlers, flood)
    before = [dict(vars(module)) for module in modules]
    for module in modules:
        importlib.reload(module)
    registry = Registry()
    registry.add_module(flood)
    yield registry
    # Restore the same function objects: other modules have imported them.
    for module, names in zip(modules, before, strict=True):
        vars(module).update(names)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    return Task(tmp_path / "home")


def raster(tmp_path: Path, value: int = 0) -> bytes:
    return make(tmp_path / "made.tif", ramp(1, 600, 600, "float32") + value).read_bytes()


def region_in(bucket: stores.Bucket, tmp_path: Path) -> Path:
    """Put a small region into the store; returns the local folder that it was made in."""
    made = tmp_path / "made"
    generate("RWA", 2, made, 3, return_periods=(10, 100), workers=1)
    for file in made.rglob("*"):
        if file.is_file():
            bucket.put(f"in/flood/{file.relative_to(made).as_posix()}", file.read_bytes())
    return made


def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "elsewhere"
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    return home


def test_a_cog_is_uploaded_and_another_machine_reads_it(
    bucket: stores.Bucket, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("in/a.tif", raster(tmp_path))
    output = create_cog("bronze/a.tif", "silver/maps/a.tif", ctx=task.attempt()).output
    objects = bucket.objects()
    assert sorted(objects) == ["in/a.tif", "out/cogs/maps/a.tif"]
    assert (output["path"], output["size_bytes"]) == ("silver/maps/a.tif", len(objects["out/cogs/maps/a.tif"]))
    home = another_machine(tmp_path, monkeypatch)
    result = validate("silver/maps/a.tif", ctx=task.attempt())
    assert result is not None and result.output["is_cog"]
    copy = home / "storage/silver/maps/a.tif"
    assert storage.sha256_of(copy) == output["sha256"]
    assert not any(secret in str([output, result, task.saved]) for secret in stores.SECRETS)


def test_an_object_is_downloaded_only_after_a_change_and_its_copy_is_removed_with_it(
    bucket: stores.Bucket, task: Task, tmp_path: Path
) -> None:
    bucket.put("in/a.bin", b"one")
    path = storage.readable("bronze/a.bin")
    first = path.stat()
    assert storage.readable("bronze/a.bin").stat().st_ino == first.st_ino, "it was downloaded a second time"
    bucket.put("in/a.bin", b"two")
    assert storage.readable("bronze/a.bin").read_bytes() == b"two"
    path.write_bytes(b"spoilt")
    assert storage.readable("bronze/a.bin").read_bytes() == b"two"
    bucket.delete("in/a.bin")
    with pytest.raises(Permanent, match=r"There is no file 'bronze/a\.bin'"):
        storage.readable("bronze/a.bin")
    assert not path.exists()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_between_upload_and_rename_loses_nothing(
    bucket: stores.Bucket, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    bucket.put("in/a.tif", raster(tmp_path))
    replace, done = Path.replace, 0

    def replace_and_die(self: Path, target: Path) -> Path:
        nonlocal done
        if target.name.lstrip(".").startswith("made.tif"):
            done += 1
            if done > renames:
                raise Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_and_die)
        with pytest.raises(Killed):
            create_cog("bronze/a.tif", "silver/made.tif", ctx=task.attempt())
    sent = bucket.objects()["out/cogs/made.tif"]
    output = create_cog("bronze/a.tif", "silver/made.tif", ctx=task.attempt()).output
    assert (output["size_bytes"], bucket.objects()["out/cogs/made.tif"]) == (len(sent), sent)
    assert storage.readable("silver/made.tif").read_bytes() == sent


def test_a_file_that_another_process_wrote_does_not_count_as_the_downloaded_version(
    bucket: stores.Bucket, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("in/a.bin", b"new")
    replace = Path.replace

    def replace_and_be_late(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        if target.name == "a.bin":
            target.write_bytes(b"old")
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_and_be_late)
        assert storage.readable("bronze/a.bin").read_bytes() == b"old"
    assert storage.readable("bronze/a.bin").read_bytes() == b"new"


def test_a_large_file_is_uploaded_in_parts_and_complete(bucket: stores.Bucket, task: Task, tmp_path: Path) -> None:
    content = os.urandom(1024 * 1024) * 20
    local = tmp_path / "home/storage/local/large.bin"
    local.parent.mkdir(parents=True)
    local.write_bytes(content)
    output = blob_to_mount("local/large.bin", "silver/large.bin", ctx=task.attempt())
    assert output is not None and output["bytes"] == len(content)
    assert bucket.objects() == {"out/cogs/large.bin": content}


def test_another_machine_does_not_make_finished_tiles_again(
    bucket: stores.Bucket, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("in/a.tif", raster(tmp_path))
    tiles = [{"index": 0, "window": [0, 0, 512, 512]}, {"index": 1, "window": [512, 0, 88, 512]}]
    task.stops_after = 1
    assert process_tile_batch("bronze/a.tif", "silver/tiles", tiles, ctx=task.attempt()) is None
    another_machine(tmp_path, monkeypatch)
    task.stops_after = None
    result = process_tile_batch("bronze/a.tif", "silver/tiles", tiles, ctx=task.attempt())
    assert result is not None and (result.output["count"], result.output["resumed_with"]) == (2, 1)
    assert sorted(bucket.objects())[1:] == ["out/cogs/tiles/tile_00000.tif", "out/cogs/tiles/tile_00001.tif"]


def test_a_file_that_cannot_be_uploaded_is_not_visible_locally(
    bucket: stores.Bucket, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("in/a.tif", raster(tmp_path))
    scheme = bucket.address.partition(":")[0]
    monkeypatch.setenv(
        "HOLDFAST_RASTER_CONTAINERS", f"bronze={bucket.address}/in silver={scheme}://there-is-no-such-bucket"
    )
    with pytest.raises((Permanent, Transient)) as refused:
        create_cog("bronze/a.tif", "silver/a.tif", ctx=task.attempt())
    assert refused.value.code in ("SOURCE_NOT_FOUND", "SOURCE_FORBIDDEN", "SOURCE_UNAVAILABLE")
    assert "there-is-no-such-bucket/a.tif" in str(refused.value)
    assert not any(secret in repr(refused.value) for secret in stores.SECRETS)
    assert list((tmp_path / "home/storage/silver").iterdir()) == []


def test_a_source_in_a_store_is_copied_if_the_operator_has_allowed_it(
    bucket: stores.Bucket, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("deep/b.bin", b"bytes")
    with pytest.raises(Permanent, match="has not allowed"):
        blob_to_mount(f"{bucket.address}/deep/b.bin", "local/b.bin", ctx=task.attempt())
    monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", f"{bucket.address}/deep/")
    output = blob_to_mount(f"{bucket.address}/deep/b.bin", "local/b.bin", ctx=task.attempt())
    assert output is not None and (output["bytes"], output["source"]) == (5, f"{bucket.address}/deep/b.bin")


@pytest.mark.parametrize("bucket", ["azure"], indirect=True)
def test_on_azure_every_request_for_an_object_has_its_own_delegated_signature(
    bucket: stores.AzureBucket, task: Task, tmp_path: Path
) -> None:
    bucket.put("in/granted.tif", raster(tmp_path))
    create_cog("bronze/granted.tif", "silver/granted.tif", ctx=task.attempt())
    requests = bucket.data_requests(until="PUT", of="out/cogs/granted.tif")
    reads = [line for line in requests if line.startswith(("GET", "HEAD")) and "/in/granted.tif" in line]
    writes = [line for line in requests if line.startswith("PUT") and "/out/cogs/granted.tif" in line]
    assert reads and writes
    for request in reads + writes:
        method, _, target = request.partition(" ")
        signed = {name: values[0] for name, values in parse_qs(target.partition("?")[2]).items()}
        assert signed["skoid"] == stores.PERSON, "it should be signed with the key of an identity, not of the account"
        assert (signed["sr"], signed["sp"]) == ("b", "r" if method in ("GET", "HEAD") else signed["sp"])
        assert "r" not in signed["sp"] or method in ("GET", "HEAD")
    files = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    assert files and not any(b"sig=" in file.read_bytes() or b"skoid" in file.read_bytes() for file in files)


@pytest.mark.parametrize("bucket", ["google"], indirect=True)
def test_a_worker_without_permission_fails_permanently(
    bucket: stores.Bucket, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("in/a.tif", raster(tmp_path))
    account = Path(bucket.environment["GOOGLE_SERVICE_ACCOUNT"])
    stranger = tmp_path / "stranger.json"
    stranger.write_text(account.read_text().replace(stores.EMAIL, "stranger@maps.test"))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(stranger))
    with pytest.raises(Permanent, match=r"credentials do not allow access to gs://maps/in/a\.tif") as refused:
        create_cog("bronze/a.tif", "silver/a.tif", ctx=task.attempt())
    assert refused.value.code == "SOURCE_FORBIDDEN"
    with pytest.raises(Permanent, match=r"credentials do not allow access to gs://maps/in/flood/RWA") as refused:
        take_inventory("RWA", storage.place("bronze/flood"))
    assert refused.value.code == "SOURCE_FORBIDDEN"


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_an_inventory_of_a_store_downloads_nothing(bucket: stores.Bucket, task: Task, tmp_path: Path) -> None:
    made = region_in(bucket, tmp_path)
    assert take_inventory("RWA", storage.place("bronze/flood")) == take_inventory("RWA", made)
    assert not (tmp_path / "home/storage/bronze/flood/RWA").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("bucket", ["s3", pytest.param("google", marks=IN_CHAOS)], indirect=True)
async def test_the_flood_pipeline_runs_from_store_to_store(
    bucket: stores.Bucket, handlers: Registry, task: Task, tmp_path: Path, database_url: str
) -> None:
    region_in(bucket, tmp_path)
    async with running(database_url, handlers) as engine:
        job_id = await engine.submit(STACK, {"region": "RWA"})
        status = await engine.finished(job_id, 120)
        assert status["status"] == "completed", status["error"]
        shutil.rmtree(tmp_path / "home/storage")
        again = await engine.finished(await engine.submit(STACK, {"region": "RWA", "batch": 1}), 120)
    assert again["result"]["catalog"]["unchanged"] == 2
    stacks = [key for key in bucket.objects() if key.startswith("out/cogs/flood/RWA/")]
    assert len(stacks) == 2


@pytest.mark.parametrize(
    "entry",
    ["silver", "silver=maps", "silver=ftp://host/x", "../x=s3://b/x", "silver=s3://", "silver=https://x/?sig=1"],
)
def test_an_invalid_container_is_refused_without_showing_a_secret(
    task: Task, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", entry)
    with pytest.raises(Permanent, match=r"Write NAME=s3://BUCKET/FOLDER") as refused:
        storage.readable("bronze/a.tif")
    assert refused.value.code == "CONTAINER_REFUSED" and "sig" not in str(refused.value)
