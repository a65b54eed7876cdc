"""Sources on the network: which hosts may be read, how their failures are reported, and what is never shown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Permanent, RetryAfter, Transient
from holdfast.apps.raster.handlers import blob_to_mount
from holdfast.apps.raster.objects import scrubbed
from tests.apps.raster.making import Task
from tests.apps.raster.server import SIGNATURE, Files, serving

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def files(storage: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """A server that the operator has allowed."""
    with serving(Files(files={"/data/x.tif": CONTENT, "/bucket/data/x.tif": CONTENT})) as running:
        monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", f"{running.url}/data s3://bucket/data az://container")
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-signature")
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false")
        yield running


def refused(address: str, task: Task) -> Permanent:
    with pytest.raises(Permanent) as refusal:
        blob_to_mount(address, ctx=task.attempt())
    return refusal.value


def test_an_address_is_copied(files: Files, task: Task, storage: Path) -> None:
    done = blob_to_mount(f"{files.url}/data/x.tif", target="bronze/x.tif", ctx=task.attempt())
    assert done is not None
    assert (done["bytes"], done["path"]) == (len(CONTENT), "bronze/x.tif")
    assert (storage / "bronze" / "x.tif").read_bytes() == CONTENT


def test_an_object_is_copied_from_its_bucket(files: Files, task: Task, storage: Path) -> None:
    done = blob_to_mount("s3://bucket/data/x.tif", target="bronze/x.tif", ctx=task.attempt())
    assert done is not None
    assert done["source"] == "s3://bucket/data/x.tif"
    assert (storage / "bronze" / "x.tif").read_bytes() == CONTENT
    assert refused("s3://bucket/data/y.tif", task).code == "SOURCE_NOT_FOUND"


@pytest.mark.parametrize("knows_ranges", [True, False])
@pytest.mark.parametrize("place", ["{url}/data/x.tif", "s3://bucket/data/x.tif"])
def test_a_broken_connection_continues_where_it_broke(
    place: str, knows_ranges: bool, files: Files, task: Task, storage: Path
) -> None:
    files.knows_ranges = knows_ranges or place.startswith("s3")
    files.breaks_after = len(CONTENT) // 2
    address = place.format(url=files.url)
    # The library for object stores resumes broken answers itself.
    if not place.startswith("s3"):
        with pytest.raises(Transient, match=r"ended after|cannot be read"):
            blob_to_mount(address, target="bronze/x.tif", checkpoint_mb=0.1, ctx=task.attempt())
        assert list((storage / "bronze").glob("*.tif")) == []
    done = blob_to_mount(address, target="bronze/x.tif", checkpoint_mb=0.1, ctx=task.attempt())
    assert done is not None
    assert (storage / "bronze" / "x.tif").read_bytes() == CONTENT
    assert any(asked for _, asked in files.asked), "only the rest should be requested"


def test_a_source_that_has_changed_is_copied_from_its_beginning(files: Files, task: Task, storage: Path) -> None:
    files.breaks_after = len(CONTENT) // 2
    with pytest.raises(Transient):
        blob_to_mount(f"{files.url}/data/x.tif", target="bronze/x.tif", checkpoint_mb=0.1, ctx=task.attempt())
    assert task.saved
    files.files["/data/x.tif"], files.etag = CONTENT[::-1], '"two"'
    done = blob_to_mount(f"{files.url}/data/x.tif", target="bronze/x.tif", checkpoint_mb=0.1, ctx=task.attempt())
    assert done is not None
    assert done["resumed_from"] == 0
    assert (storage / "bronze" / "x.tif").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1/x.tif",
        "https://localhost/x.tif",
        "https://[::1]/x.tif",
        "https://[::ffff:127.0.0.1]/x.tif",
        "https://10.0.0.1/x.tif",
        "https://169.254.169.254/latest/meta-data",
        "https://0.0.0.0/x.tif",
        "http://example.org/x.tif",
        "file:///etc/passwd",
        "ftp://example.org/x.tif",
        "s3://other/data/x.tif",
        "s3://bucket/database/x.tif",
        "s3://bucket/data/../secret/x.tif",
        "s3://bucket",
        "gs://bucket/x.tif",
        "https:///x.tif",
        "vsicurl://example.org/x.tif",
    ],
)
def test_an_address_that_the_operator_has_not_allowed_is_not_requested(address: str, files: Files, task: Task) -> None:
    assert refused(address, task).code == "SOURCE_REFUSED"
    assert files.asked == []


def test_an_address_beside_the_allowed_ones_is_refused(files: Files, task: Task) -> None:
    for path in ("/database/x.tif", "/data/../secret", "/"):
        assert refused(files.url + path, task).code == "SOURCE_REFUSED"
    assert files.asked == []


def test_a_redirect_is_checked_like_any_address(files: Files, task: Task) -> None:
    files.status = 302
    files.headers = {"Location": f"{files.url}/secret/x.tif"}
    assert refused(f"{files.url}/data/x.tif", task).code == "SOURCE_REFUSED"
    files.headers = {"Location": "https://169.254.169.254/latest/"}
    assert refused(f"{files.url}/data/x.tif", task).code == "SOURCE_REFUSED"
    files.headers = {"Location": "/data/x.tif"}
    assert "redirects more than 5 times" in str(refused(f"{files.url}/data/x.tif", task))
    assert all(path == "/data/x.tif" for path, _ in files.asked)


@pytest.mark.parametrize(
    ("status", "headers", "kind", "code"),
    [
        (404, {}, Permanent, "SOURCE_NOT_FOUND"),
        (403, {}, Permanent, "SOURCE_FORBIDDEN"),
        (500, {}, Transient, "SOURCE_UNAVAILABLE"),
        (503, {"Retry-After": "7"}, RetryAfter, "SOURCE_UNAVAILABLE"),
        (429, {"Retry-After": "999999"}, RetryAfter, "SOURCE_UNAVAILABLE"),
    ],
)
def test_the_status_of_an_answer_decides_the_error(
    status: int, headers: dict[str, str], kind: type[Exception], code: str, files: Files, task: Task
) -> None:
    files.status, files.headers = status, headers
    with pytest.raises(kind) as failure:
        blob_to_mount(f"{files.url}/data/x.tif", ctx=task.attempt())
    assert failure.value.code == code  # type: ignore[attr-defined]
    assert type(failure.value) is kind
    if isinstance(failure.value, RetryAfter):
        assert failure.value.seconds <= 3600


def test_a_signature_is_never_shown(files: Files, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """It appears in no output, no error or cause of one, no checkpoint and no file name."""
    files.signed = True
    address = f"{files.url}/data/x.tif?{SIGNATURE}"
    context = task.attempt()
    seen: list[Any] = [blob_to_mount(address, checkpoint_mb=0.1, ctx=context), *task.saved]
    assert context._attempt.output is None, "it has printed nothing"
    task.saved.clear()
    accidents: list[dict[str, Any]] = [
        {"status": 404},
        {"status": 500},
        {"status": 503, "headers": {"Retry-After": "1"}},
        {"breaks_after": 9},
    ]
    for accident in accidents:
        for name, value in accident.items():
            monkeypatch.setattr(files, name, value)
        seen.append(error_of(address, task))
        monkeypatch.undo()
        monkeypatch.setenv("HOLDFAST_HOME", str(task._home))
        monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", f"{files.url}/data")
    for odd in ("https://user:s3cr3t-signature@127.0.0.1/x", f"ftp://h/x?{SIGNATURE}", f"s3://b/x?{SIGNATURE}"):
        seen.append(error_of(odd, task))
    seen += [path.name for path in task._home.rglob("*")]
    assert len(seen) > 8
    assert "s3cr3t" not in repr(seen)
    with socket.socket() as unserved:
        unserved.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unserved.getsockname()[1]}"
        monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", closed)
        assert "s3cr3t" not in error_of(f"{closed}/x?{SIGNATURE}", task)


def error_of(address: str, task: Task) -> str:
    try:
        blob_to_mount(address, ctx=task.attempt())
    except Exception as problem:
        text = ""
        cause: BaseException | None = problem
        while cause is not None:
            text += repr(cause)
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        return text
    raise AssertionError("it should have failed")


def test_messages_of_libraries_are_scrubbed() -> None:
    message = "GET https://user:pw@host/a.tif?sig=abc&x=1 failed (see https://host/b?token=def) why? unknown"
    assert scrubbed(message) == "GET https://host/a.tif?… failed (see https://host/b?… why? unknown"


@pytest.mark.parametrize(
    "address",
    [
        "https://[::1/x.tif",
        "https://host:99999/x.tif",
        "https://host:port/x.tif",
        f"https://{'a' * 70}.example/x.tif",
        "https://a..b/x.tif",
        "https://host/a b.tif",
        "https://host/a\nb.tif",
        "https://host/ä.tif",
        f"https://host/{'x' * 10_000}",
        "https://\ud800/x.tif",
    ],
)
def test_a_malformed_address_is_refused_permanently(address: str, task: Task, storage: Path) -> None:
    assert refused(address, task).code == "SOURCE_REFUSED"


@pytest.mark.parametrize("location", ["https://[::1/y", "https://host:port/y", "//[/y"])
def test_a_redirect_to_a_malformed_address_is_refused_permanently(files: Files, task: Task, location: str) -> None:
    files.status, files.headers = 302, {"Location": location}
    assert refused(f"{files.url}/data/away.tif", task).code == "SOURCE_REFUSED"
