"""The files of a job over HTTP: pages, ranges, odd names, and files that no browser may show."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.errors import InvalidInput
from holdfast.log_events import Line
from holdfast.service.downloads import RangeUnsatisfiable, attachment, wanted_range
from tests.running import HOME, registry, running
from tests.service.serving import API, Service, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

PAGE = b"<script>alert(document.domain)</script>"
LARGE = bytes(range(256)) * 12_000
"""Three parts of the object store's."""
ODD = 'maps/a "b"; c=d\r\nSet-Cookie: x=1/é漢 ü?#%2e.html'
NAMES = {"page.html": PAGE, "large.bin": LARGE, ODD: b"odd", "empty": b"", "/rooted": b"rooted", "..": b"dots"}
FILES = {
    "workflow_id": "files",
    "nodes": {
        "one": {"handler": "publish_all"},
        "each": {"type": "fan_out", "source": "{{ [0, 1, 2] }}", "task": {"handler": "publish_item"}},
    },
}


def publish_all(*, ctx: Any) -> None:
    for number, (name, content) in enumerate(NAMES.items()):
        (ctx.workdir / str(number)).write_bytes(content)
        ctx.publish(str(number), name=name)


def publish_item(*, ctx: Any) -> None:
    (ctx.workdir / "tile").write_text(f"tile {ctx.index}")
    ctx.publish("tile", name="tile")


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    handlers = registry(publish_all=publish_all, publish_item=publish_item)
    async with running(database_url, handlers), serving_http(database_url) as service:
        yield service


@pytest.fixture
async def client(service: Service) -> httpx2.AsyncClient:
    return await service.as_role("submitter")


@pytest.fixture
async def job_id(client: httpx2.AsyncClient) -> str:
    answer = await client.post(f"{API}/jobs", json={"definition": FILES})
    job_id: str = answer.json()["job_id"]
    assert (await ended(client, job_id))["status"] == "completed"
    return job_id


def path_of(job_id: str, name: str) -> str:
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    return f"{API}/jobs/{job_id}/artifacts/{encoded}"


async def test_a_file_comes_whole_with_its_sha256_and_under_every_name(client: httpx2.AsyncClient, job_id: str) -> None:
    for name, content in NAMES.items():
        answer = await client.get(path_of(job_id, name))
        assert (answer.status_code, answer.content) == (200, content), (name, answer.text)
        assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert answer.headers["content-length"] == str(len(content))
        assert answer.headers["accept-ranges"] == "bytes"


async def test_no_browser_shows_or_runs_a_file(client: httpx2.AsyncClient, job_id: str) -> None:
    ranged = {"Range": "bytes=0-"}
    for name, headers in (("page.html", {}), ("page.html", ranged), (ODD, {})):
        for method in ("GET", "HEAD"):
            answer = await client.request(method, path_of(job_id, name), headers=headers)
            assert answer.status_code in (200, 206)
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-disposition"].startswith("attachment;")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"].split("; ")
            assert "default-src 'none'" in answer.headers["content-security-policy"].split("; ")
            assert "set-cookie" not in answer.headers


async def test_an_odd_name_becomes_a_safe_one(client: httpx2.AsyncClient, job_id: str) -> None:
    answer = await client.get(path_of(job_id, ODD))
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"__ __#_2e.html\"; filename*=UTF-8''%C3%A9%E6%BC%A2%20%C3%BC%3F%23%252e.html"
    ).replace("#", "_")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.tif", "plain.tif"),
        ("a/b/c.tif", "c.tif"),
        ("a\\b\\c.tif", "c.tif"),
        ("..", "file"),
        ("\r\n", "file"),
        ('x"; filename=evil.exe', "x__ filename_evil.exe"),
        ("x" * 1000, "x" * 200),
        ("a\u202egnp.exe", "agnp.exe"),
    ],
)
def test_the_name_of_a_download_has_no_character_with_a_meaning(name: str, shown: str) -> None:
    assert attachment(name).startswith(f'attachment; filename="{shown}"; filename*=')
    assert "\r" not in attachment(name) and "\n" not in attachment(name) and attachment(name).isascii()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("bytes=0-99", 0, 99),
        ("bytes=100-", 100, len(LARGE) - 1),
        ("bytes=-100", len(LARGE) - 100, len(LARGE) - 1),
        ("bytes=1048570-2097160", 1048570, 2097160),
        (f"bytes=5-{10**17}", 5, len(LARGE) - 1),
        (f"bytes=-{10**17}", 0, len(LARGE) - 1),
    ],
)
async def test_a_range_of_a_file_is_exactly_that(
    client: httpx2.AsyncClient, job_id: str, text: str, first: int, last: int
) -> None:
    answer = await client.get(path_of(job_id, "large.bin"), headers={"Range": text})
    assert (answer.status_code, answer.content) == (206, LARGE[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(LARGE)}"


async def test_a_range_outside_of_a_file_is_refused_with_its_size(client: httpx2.AsyncClient, job_id: str) -> None:
    for name, text in (("large.bin", f"bytes={len(LARGE)}-"), ("empty", "bytes=0-0"), ("large.bin", "bytes=-0")):
        answer = await client.get(path_of(job_id, name), headers={"Range": text})
        assert (answer.status_code, answer.json()["code"]) == (416, "RANGE_UNSATISFIABLE")
        assert answer.headers["content-range"] == f"bytes */{len(NAMES[name])}"


async def test_a_range_is_of_the_same_content_or_the_whole_file_comes(client: httpx2.AsyncClient, job_id: str) -> None:
    path, wanted = path_of(job_id, "large.bin"), {"Range": "bytes=0-9"}
    etag = (await client.head(path)).headers["etag"]
    for condition, status in (
        (etag, 206),
        ('"other"', 200),
        (f"W/{etag}", 200),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 200),
    ):
        answer = await client.get(path, headers={**wanted, "If-Range": condition})
        assert (answer.status_code, len(answer.content)) == (status, 10 if status == 206 else len(LARGE))


@pytest.mark.parametrize("text", ["bytes=5-2", "bytes=-", "bytes=a-b", "items=0-1", "bytes=0-1,4-5", "", "bytes=1"])
def test_what_is_no_single_range_of_bytes_is_ignored(text: str) -> None:
    assert wanted_range(text, 10) is None


def test_a_range_of_an_empty_file_cannot_be_had() -> None:
    with pytest.raises(RangeUnsatisfiable):
        wanted_range("bytes=0-", 0)


async def test_head_tells_the_size_and_reads_no_object(client: httpx2.AsyncClient, job_id: str) -> None:
    path = path_of(job_id, "large.bin")
    shutil.rmtree(HOME / "payloads" / job_id)
    answer = await client.head(path, headers={"Range": "bytes=0-9"})
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, str(len(LARGE)), b"")
    missing = await client.get(path)
    assert (missing.status_code, missing.json()["code"]) == (503, "PAYLOAD_UNAVAILABLE")


async def test_a_damaged_file_never_arrives_whole_and_the_log_says_why(
    client: httpx2.AsyncClient, job_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Path(HOME / "payloads" / job_id / hashlib.sha256(LARGE).hexdigest())
    stored.write_bytes(LARGE[:-1] + b"!")
    with pytest.raises(httpx2.TransportError):
        await client.get(path_of(job_id, "large.bin"), headers={"X-Request-Id": "the-large-one"})
    lines = [one.msg for one in caplog.records if isinstance(one.msg, Line) and one.msg.event == "request_failed"]
    assert [(line.fields["request"], "damaged" in line.fields["reason"]) for line in lines] == [("the-large-one", True)]
    assert "Traceback" not in caplog.text
    small = Path(HOME / "payloads" / job_id / hashlib.sha256(PAGE).hexdigest())
    small.write_bytes(b"short")
    assert (await client.get(path_of(job_id, "page.html"))).status_code == 503


async def test_several_files_of_one_name_are_listed_until_one_is_chosen(
    client: httpx2.AsyncClient, job_id: str
) -> None:
    path = path_of(job_id, "tile")
    ambiguous: list[dict[str, str]] = [{}, {"node": "each"}, {"node": "2"}]
    for query in ambiguous:
        refused = await client.get(path, params=query)
        assert (refused.status_code, refused.json()["code"]) == (409, "REFUSED")
        paths = [one["path"] for one in refused.json()["errors"]]
        assert paths == ["node=each&item=0", "node=each&item=1", "node=each&item=2"]
    chosen = await client.get(f"{path}?{paths[1]}")
    assert (chosen.status_code, chosen.text) == (200, "tile 1")
    assert (await client.get(path, params={"item": 2})).text == "tile 2"
    assert (await client.get(path_of(job_id, "empty"), params={"node": "one", "item": -1})).status_code == 200
    for wrong in ("item=3", "node=one", "node=nothing"):
        assert (await client.get(f"{path}?{wrong}")).status_code == 404


async def test_files_are_listed_page_by_page(client: httpx2.AsyncClient, job_id: str) -> None:
    found: list[tuple[str, int | None, str]] = []
    cursor = None
    while True:
        params: dict[str, Any] = {"limit": 4, **({"cursor": cursor} if cursor is not None else {})}
        page = (await client.get(f"{API}/jobs/{job_id}/artifacts", params=params)).json()
        assert len(page["items"]) <= 4
        found += [(one["node"], one["index"], one["name"]) for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    tiles: list[tuple[str, int | None, str]] = [("each", index, "tile") for index in range(3)]
    assert sorted(found, key=str) == sorted([*tiles, *(("one", None, name) for name in NAMES)], key=str)
    assert len(found) == len(set(found))
    for wrong in ("x", "bnVsbA==", "WzEsMiwzXQ==", "é"):
        refused = await client.get(f"{API}/jobs/{job_id}/artifacts", params={"cursor": wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, InvalidInput.code)


async def test_the_files_of_another_tenants_job_do_not_exist(
    service: Service, client: httpx2.AsyncClient, job_id: str
) -> None:
    other = await service.as_role("admin", tenant="other")
    for path in (f"{API}/jobs/{job_id}/artifacts", path_of(job_id, "page.html"), path_of(job_id, "nothing")):
        answer = await other.get(path)
        assert (answer.status_code, answer.json()["detail"]) == (404, f"There is no job '{job_id}'.")
    assert "has no artifact" in (await client.get(path_of(job_id, "nothing"))).json()["detail"]
