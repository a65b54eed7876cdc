"""Large values as objects: written once and whole, verified when read, gone with their job."""

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


def test_what_was_written_is_what_is_read(objects: Objects, tmp_path: Path) -> None:
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
    assert source.exists(), "it is copied, not taken away"


def test_a_job_is_cleaned_with_all_that_belongs_to_it_and_nothing_else(objects: Objects) -> None:
    objects.write(JOB, DIGEST, DATA)
    objects.write(JOB, digest_of(b"orphan"), b"orphan")
    objects.write(OTHER, DIGEST, DATA)
    objects.remove_job(JOB)
    for digest in (DIGEST, digest_of(b"orphan")):
        with pytest.raises(PayloadUnavailable):
            objects.read(JOB, digest)
    assert objects.read(OTHER, DIGEST) == DATA
    objects.remove_job(JOB)


def test_several_who_clean_the_same_job_at_once_agree(objects: Objects) -> None:
    for number in range(50):
        objects.write(JOB, digest_of(b"%d" % number), b"%d" % number)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: objects.remove_job(JOB), range(4)))
    with pytest.raises(PayloadUnavailable):
        objects.read(JOB, digest_of(b"7"))


def test_a_job_that_cannot_be_cleaned_says_so(tmp_path: Path) -> None:
    (tmp_path / JOB).write_text("a file where a folder should be")
    with pytest.raises(PayloadUnavailable, match=f"The payloads of job {JOB} cannot be removed from {tmp_path / JOB}"):
        Folder(tmp_path).remove_job(JOB)


def test_what_is_missing_is_told_with_job_digest_place_and_remedy(objects: Objects) -> None:
    with pytest.raises(PayloadUnavailable) as problem:
        objects.read(JOB, DIGEST)
    assert JOB in str(problem.value) and DIGEST in str(problem.value)
    assert objects.place.removeprefix("file://") in str(problem.value)
    assert "HOLDFAST_STORAGE_URL" in str(problem.value.remedy)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("kind", stores.KINDS)
def test_a_store_that_refuses_is_told_in_a_line_without_a_secret(
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
        told = str(problem.value)
        assert "there-is-no-such-bucket" in told and "\n" not in told
        assert not any(secret in told for secret in stores.SECRETS)


@pytest.mark.parametrize("opened", [Folder, lambda root: open_objects(f"file://{root}")])
def test_what_was_damaged_is_not_given_to_anybody(opened: Callable[[Path], Objects], tmp_path: Path) -> None:
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


def test_writers_of_the_same_content_at_the_same_time_agree(tmp_path: Path) -> None:
    objects = Folder(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: objects.write(JOB, DIGEST, DATA), range(16)))
    assert [file.name for file in (tmp_path / JOB).iterdir()] == [DIGEST], "no temporary file stays"
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


async def test_what_is_known_to_be_there_is_not_written_again(tmp_path: Path) -> None:
    payloads = Payloads(Folder(tmp_path))
    assert await payloads.put(JOB, DATA) == DIGEST
    place = tmp_path / JOB / DIGEST
    written = place.stat().st_ino
    assert await payloads.put(JOB, DATA) == DIGEST
    assert place.stat().st_ino == written and await payloads.get(JOB, DIGEST) == DATA


def test_a_url_that_nobody_can_open_is_refused_with_the_setting_s_name() -> None:
    with pytest.raises(InvalidInput, match="HOLDFAST_STORAGE_URL=nonsense://x cannot be opened"):
        open_objects("nonsense://x")
