"""Large values as objects: written once, never half, verified when read, and deleted with their job."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput, PayloadUnavailable
from holdfast.store.payloads import Folder, Objects, Payloads, digest_of, open_objects
from tests import stores

pytestmark = pytest.mark.anyio

JOB, OTHER = str(uuid.uuid4()), str(uuid.uuid4())
DATA = b"some bytes " * 100_000
DIGEST = digest_of(DATA)


@pytest.fixture(params=["folder", "file", "memory", *stores.KINDS])
def objects(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    object_store: Callable[[str], stores.Bucket],
    monkeypatch: pytest.MonkeyPatch,
) -> Objects:
    if request.param in stores.KINDS:
        bucket = object_store(request.param)
        bucket.use(monkeypatch)
        return open_objects(f"{bucket.address}/pay/loads")
    places = {"folder": str(tmp_path / "a" / "b"), "file": f"file://{tmp_path}/a/b", "memory": "memory:///"}
    return open_objects(places[request.param])


def test_an_object_is_read_as_it_was_written(objects: Objects, tmp_path: Path) -> None:
    objects.write(JOB, DIGEST, DATA)
    assert objects.read(JOB, DIGEST) == DATA
    target = tmp_path / "copy"
    objects.read_file(JOB, DIGEST, target)
    assert target.read_bytes() == DATA


def test_a_file_is_stored_under_the_hash_of_its_content(objects: Objects, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(DATA)
    assert objects.write_file(JOB, source) == (DIGEST, len(DATA))
    assert objects.read(JOB, DIGEST) == DATA
    assert source.exists(), "the source is copied, not moved"


def test_removing_a_job_deletes_all_its_objects_and_no_others(objects: Objects) -> None:
    objects.write(JOB, DIGEST, DATA)
    objects.write(JOB, digest_of(b"orphan"), b"orphan")
    objects.write(OTHER, DIGEST, DATA)
    objects.remove_job(JOB)
    for digest in (DIGEST, digest_of(b"orphan")):
        with pytest.raises(PayloadUnavailable):
            objects.read(JOB, digest)
    assert objects.read(OTHER, DIGEST) == DATA
    objects.remove_job(JOB)


def test_several_processes_can_remove_the_same_job_at_once(objects: Objects) -> None:
    for number in range(50):
        objects.write(JOB, digest_of(b"%d" % number), b"%d" % number)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: objects.remove_job(JOB), range(4)))
    with pytest.raises(PayloadUnavailable):
        objects.read(JOB, digest_of(b"7"))


def test_an_error_names_the_job_that_cannot_be_removed(tmp_path: Path) -> None:
    (tmp_path / JOB).write_text("a file where a folder should be")
    with pytest.raises(PayloadUnavailable, match=f"The payloads of job {JOB} cannot be removed from {tmp_path / JOB}"):
        Folder(tmp_path).remove_job(JOB)


def test_the_error_for_a_missing_object_names_job_digest_place_and_remedy(objects: Objects) -> None:
    with pytest.raises(PayloadUnavailable) as problem:
        objects.read(JOB, DIGEST)
    assert JOB in str(problem.value) and DIGEST in str(problem.value)
    assert objects.place.removeprefix("file://") in str(problem.value)
    assert "HOLDFAST_STORAGE_URL" in str(problem.value.remedy)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("kind", stores.KINDS)
def test_the_error_for_a_store_that_refuses_is_one_line_without_a_secret(
    kind: str, object_store: Callable[[str], stores.Bucket], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_store(kind)
    bucket.use(monkeypatch)
    if kind == "azure":
        monkeypatch.delenv("AZURE_STORAGE_TOKEN")
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2022-11-02&sr=c&sp=rwl&sig=c2lnbmVk")
    nowhere = open_objects(bucket.address.replace("maps", "there-is-no-such-bucket"))
    for refused in (lambda: nowhere.write(JOB, DIGEST, b"x"), lambda: nowhere.read(JOB, DIGEST)):
        with pytest.raises(PayloadUnavailable, match=rf"^Payload {DIGEST} of job {JOB} cannot be ") as problem:
            refused()
        message = str(problem.value)
        assert "there-is-no-such-bucket" in message and "\n" not in message
        assert not any(secret in message for secret in stores.SECRETS)


@pytest.mark.parametrize("opened", [Folder, lambda root: open_objects(f"file://{root}")])
def test_a_damaged_object_is_never_returned(opened: Callable[[Path], Objects], tmp_path: Path) -> None:
    objects = opened(tmp_path / "objects")
    objects.write(JOB, DIGEST, DATA)
    place = tmp_path / "objects" / JOB / DIGEST
    place.write_bytes(DATA[:-1] + b"X")
    with pytest.raises(PayloadUnavailable, match=f"Payload {DIGEST} of job {JOB} is damaged"):
        objects.read(JOB, DIGEST)
    with pytest.raises(PayloadUnavailable, match="is damaged"):
        objects.read_file(JOB, DIGEST, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_second_write_of_the_same_content_touches_nothing(tmp_path: Path) -> None:
    objects = Folder(tmp_path)
    objects.write(JOB, DIGEST, DATA)
    before = (tmp_path / JOB / DIGEST).stat()
    objects.write(JOB, DIGEST, DATA)
    after = (tmp_path / JOB / DIGEST).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_several_processes_can_write_the_same_content_at_once(tmp_path: Path) -> None:
    objects = Folder(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: objects.write(JOB, DIGEST, DATA), range(16)))
    assert [file.name for file in (tmp_path / JOB).iterdir()] == [DIGEST], "no temporary file is left"
    assert objects.read(JOB, DIGEST) == DATA


def test_a_write_that_fails_leaves_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / JOB).mkdir()
    source = tmp_path / "gone"
    with pytest.raises(OSError):
        Folder(tmp_path).write_file(JOB, source)
    (tmp_path / OTHER).write_text("a file where a folder should be")
    with pytest.raises(PayloadUnavailable, match=f"A payload of job {OTHER} cannot be stored") as problem:
        Folder(tmp_path).write(OTHER, DIGEST, DATA)
    assert "HOLDFAST_STORAGE_URL" in str(problem.value.remedy)
    assert list((tmp_path / JOB).iterdir()) == []


async def test_an_object_that_is_known_to_exist_is_not_written_again(tmp_path: Path) -> None:
    payloads = Payloads(Folder(tmp_path))
    assert await payloads.put(JOB, DATA) == DIGEST
    place = tmp_path / JOB / DIGEST
    written = place.stat().st_ino
    assert await payloads.put(JOB, DATA) == DIGEST
    assert place.stat().st_ino == written and await payloads.get(JOB, DIGEST) == DATA


def test_a_url_that_cannot_be_opened_is_refused_with_the_name_of_the_setting() -> None:
    with pytest.raises(InvalidInput, match="HOLDFAST_STORAGE_URL=nonsense://x cannot be opened"):
        open_objects("nonsense://x")
