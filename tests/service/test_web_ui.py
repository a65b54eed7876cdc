"""The web UI as browsers get it: its pages and files, their headers, and what is not there."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from holdfast.service.routes.front import table
from holdfast.service.web_ui import PAGES, POLICY, WebUI, packaged
from tests.service.raw import ask, request
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

INDEX = """<!doctype html>
<html lang="en"><head><base href="/" />
<script type="module" crossorigin src="./assets/index-1.js"></script>
<link rel="stylesheet" crossorigin href="./assets/index-2.css"></head><body><div id="root"></div></body></html>
"""
SCRIPT = b"export const text = 'holdfast';" * 40
JOB = "01a1f28f-dbaa-72fa-a35d-6026bcfd93b4"
ADDRESSES = [
    "/",
    *(f"/{name}" for name in PAGES),
    f"/jobs/{JOB}",
    f"/jobs/{JOB}/tasks/read/2",
    "/workflows/letters/graph",
    f"/jobs/{JOB}/nodes/a%20b%C3%A9",
]
COMPRESSED = b"\x0b as brotli"
BUILT = WebUI.read(files("holdfast") / "_ui")


def small_ui(folder: Path) -> WebUI:
    """A UI as a build would leave it, without npm."""
    (folder / "assets").mkdir()
    (folder / "index.html").write_text(INDEX)
    (folder / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "sources.sha256").write_text("0" * 64)
    (folder / "assets/index-1.js").write_bytes(SCRIPT)
    (folder / "assets/index-1.js.br").write_bytes(COMPRESSED)
    (folder / "assets/index-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "assets/index-2.css").write_text("body { margin: 0 }")
    return WebUI.read(folder)


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        service.state.ui = small_ui(tmp_path)
        yield service


async def raw(browser: httpx2.AsyncClient, path: str, accepted: str) -> tuple[httpx2.Headers, bytes]:
    """The answer as it travels: nothing is decompressed."""
    async with browser.stream("GET", path, headers={"Accept-Encoding": accepted}) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join([part async for part in answer.aiter_raw()])


async def test_every_address_of_a_page_opens_the_ui_under_its_strict_policy(service: Service) -> None:
    browser = service.with_key(None)
    for path in ADDRESSES:
        page = await browser.get(path, params={"status": "failed", "of": "anything"})
        assert (path, page.status_code, page.text) == (path, 200, INDEX)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["cache-control"] == "no-cache"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert "set-cookie" not in page.headers


def test_the_service_knows_the_addresses_that_the_ui_has() -> None:
    app = (Path(__file__).resolve().parents[2] / "ui/src/app.tsx").read_text(encoding="utf-8")
    assert set(re.findall(r'<Route path="/([a-z-]+)', app)) == set(PAGES)


def test_the_policy_allows_no_script_in_a_page_and_no_other_host() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == rules["img-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"


async def test_a_page_without_a_session_is_only_files_and_holds_no_data(service: Service) -> None:
    stranger, admin = service.with_key(None), await service.as_role("admin")
    for path in ADDRESSES:
        assert (await stranger.get(path)).content == (await admin.get(path)).content


async def test_what_is_no_page_stays_a_problem(service: Service) -> None:
    browser = service.with_key(None)
    for path in (
        "/jobsx",
        "/job",
        "/index.html",
        "/sources.sha256",
        "/_ui/index.html",
        "/api",
        f"{API}/nothing",
        "/Jobs",
    ):
        missing = await browser.get(path)
        assert (path, missing.status_code) == (path, 404)
        assert missing.headers["content-type"] == "application/problem+json"
    assert (await browser.post("/jobs", headers={"Origin": service.url})).status_code == 405


async def test_below_a_path_the_base_of_the_ui_is_that_path(database_url: str, tmp_path: Path) -> None:
    async with serving_http(database_url, root_path="/flood") as service:
        service.state.ui = small_ui(tmp_path)
        browser = service.with_key(None)
        for path in ("/", "/jobs", f"/jobs/{JOB}/tasks/read/2"):
            page = (await browser.get(path)).text
            assert '<base href="/flood/" />' in page, path
            assert re.findall(r'(?:src|href)="(?!/flood/"|\./assets/)', page) == []
        # The proxy takes the path away.
        assert (await browser.get("/assets/index-1.js")).status_code == 200
        page = (await browser.get("/sign-in")).text
        assert 'href="/flood/sign-in.css"' in page
        assert 'action="/flood/api/v1/session"' in page


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("br", "br"),
        ("BR;q=0.5, gzip", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br; q=0.000, gzip;q=1.0", "gzip"),
        ("br;q=0,gzip;q=0", None),
        ("identity", None),
        ("", None),
        ("*", None),
        ("brotli", None),
        (";;q=,,=", None),
    ],
)
async def test_a_file_travels_in_the_smallest_form_that_the_browser_takes(
    service: Service, accepted: str, encoding: str | None
) -> None:
    headers, content = await raw(service.with_key(None), "/assets/index-1.js", accepted)
    assert headers.get("content-encoding") == encoding
    assert headers["vary"] == "Accept-Encoding"
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert int(headers["content-length"]) == len(content)
    plain = {"br": lambda: SCRIPT if content == COMPRESSED else b"", "gzip": lambda: gzip.decompress(content)}
    assert (plain[encoding]() if encoding is not None else content) == SCRIPT


async def test_a_file_whose_name_changes_with_its_content_is_kept_for_ever_and_others_are_asked_for(
    service: Service,
) -> None:
    browser = service.with_key(None)
    for path, kept in (
        ("/assets/index-1.js", "public, max-age=31536000, immutable"),
        ("/assets/index-2.css", "public, max-age=31536000, immutable"),
        ("/icon.svg", "no-cache"),
        ("/sign-in.css", "no-cache"),
    ):
        file = await browser.get(path)
        assert (path, file.status_code, file.headers["cache-control"]) == (path, 200, kept)
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in file.headers["content-security-policy"]


TRICKS = [
    "/assets/nothing.js",
    "/assets/index-1.js.br",
    "/assets/index-1.js.gz",
    "/assets/",
    "/assets",
    "/assets/../index.html",
    "/assets/%2e%2e/index.html",
    "/assets/..%2findex.html",
    "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/assets/..%5cindex.html",
    "/assets/%2fetc%2fpasswd",
    "/assets//etc/passwd",
    "/assets/index-1.js%00",
    "/assets/index-1.js/",
    "/assets/INDEX-1.JS",
    "//assets/index-1.js",
    "/jobs/../assets/index-1.js",
    "/jobs/%2e%2e/keys",
]


async def test_an_unknown_file_and_tricks_with_paths_are_problems_that_no_cache_keeps(service: Service) -> None:
    for path in TRICKS:
        # As bytes: a client would resolve the dots.
        missing = await ask(service.url, request("GET", path))
        assert (path, missing.status) == (path, 404)
        assert missing.headers["content-type"] == "application/problem+json"
        assert missing.headers["cache-control"] == "no-store"


async def test_a_query_of_a_file_is_refused(service: Service) -> None:
    assert (await service.with_key(None).get("/assets/index-1.js?v=1")).status_code == 422


async def test_head_says_of_pages_and_files_what_get_says_without_their_bodies(service: Service) -> None:
    browser = service.with_key(None)
    for path in ("/", f"/jobs/{JOB}", "/assets/index-1.js", "/icon.svg", "/sign-in", "/sign-in.css"):
        head, get = await browser.head(path), await browser.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
        assert head.headers["content-security-policy"] == get.headers["content-security-policy"]
    assert (await browser.head("/assets/nothing.js")).status_code == 404


async def test_without_a_built_ui_the_service_says_what_it_is_and_pages_name_the_remedy(database_url: str) -> None:
    async with serving_http(database_url) as service:
        service.state.ui = WebUI()
        browser = service.with_key(None)
        first = await browser.get("/")
        assert (first.status_code, first.headers["content-type"]) == (200, "text/html; charset=utf-8")
        for text in ("This is Holdfast", 'href="/openapi.json"', "make ui"):
            assert text in first.text
        for path in ADDRESSES[1:]:
            missing = await browser.get(path)
            assert missing.status_code == 404
            assert missing.headers["content-type"] == "application/problem+json"
            assert "without its web UI" in missing.json()["detail"]
            assert "make ui" in missing.json()["remedy"]
        for path in ("/assets/index-1.js", "/icon.svg"):
            assert (await browser.get(path)).status_code == 404
        assert (await browser.get("/sign-in")).status_code == 200
        assert (await browser.get("/sign-in.css")).status_code == 200


def test_a_folder_in_which_no_build_has_ended_is_no_ui(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/index-1.js").write_bytes(SCRIPT)
    assert not WebUI.read(tmp_path).is_there
    assert not WebUI.read(tmp_path / "nowhere").is_there


async def test_loading_pages_takes_nothing_from_the_requests_of_an_address(database_url: str, tmp_path: Path) -> None:
    """Ten people in one office open the UI in a browser that has none of its files, under a strict limit."""
    async with serving_http(database_url, address_requests_per_second=5) as service:
        service.state.ui = small_ui(tmp_path)
        stranger = service.with_key(None)
        load = ["/", *["/assets/index-1.js"] * 15, "/icon.svg"]
        answers = Counter([(await stranger.get(path)).status_code for _ in range(10) for path in load])
        assert answers == {200: 170}
        assert (await stranger.get(f"{API}/session")).status_code == 200


async def test_files_have_a_limit_too_and_those_who_sign_in_do_not_wait_for_it(
    database_url: str, tmp_path: Path
) -> None:
    async with serving_http(database_url, address_requests_per_second=0.5) as service:
        service.state.ui = small_ui(tmp_path)
        stranger = service.with_key(None)
        answers = Counter([(await stranger.get("/icon.svg")).status_code for _ in range(150)])
        assert set(answers) == {200, 429} and answers[200] >= 50
        assert (await stranger.get("/sign-in")).status_code == 200


def test_every_file_for_browsers_is_counted_as_a_file() -> None:
    counted = {route.path for route in table.routes if route.is_file}
    assert counted == {"/", "/{page:page}", "/assets/{name}", "/icon.svg", "/sign-in.css"}


# What was really built


@pytest.mark.skipif(not BUILT.is_there, reason="the web UI is not built: npm cannot be reached")
async def test_the_built_ui_is_served_whole_without_inline_scripts_and_foreign_hosts(database_url: str) -> None:
    async with serving_http(database_url) as service:
        assert service.state.ui.is_there
        browser = service.with_key(None)
        page = (await browser.get("/jobs/a/b")).text
        assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
        assert re.findall(r"<style|\son\w+=|\sstyle=|javascript:", page) == []
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert "/" in loaded and any(name.endswith(".js") for name in loaded)
        for name in loaded:
            assert re.fullmatch(r"/|\./(assets/[\w.-]+|icon\.svg)", name), name
        for name in BUILT.files:
            if name.startswith("assets/"):
                assert (await browser.get(f"/{name}")).content == BUILT.files[name].content, name


@pytest.mark.skipif(not BUILT.is_there, reason="the web UI is not built: npm cannot be reached")
def test_the_built_ui_names_no_host_from_which_it_would_load() -> None:
    loading = re.compile(rb"""@import|url\(["']?(?:https?:)?//|import\(["'](?:https?:)?//|fetch\(["'](?:https?:)?//""")
    for name, file in BUILT.files.items():
        assert loading.findall(file.content) == [], name


@pytest.mark.skipif(not BUILT.is_there, reason="the web UI is not built: npm cannot be reached")
def test_the_built_ui_is_compressed_and_its_first_load_is_small() -> None:
    for name, file in BUILT.files.items():
        if name.endswith((".js", ".css")) and len(file.content) >= 1024:
            assert set(file.encoded) == {"br", "gzip"}, name
            assert gzip.decompress(file.encoded["gzip"]) == file.content, name
    first = re.findall(r'"\./(assets/[^"]+)"', BUILT.files["index.html"].content.decode())
    sizes = [len(BUILT.files[name].encoded.get("gzip", BUILT.files[name].content)) for name in first]
    assert 0 < sum(sizes) <= 300_000


@pytest.mark.skipif(not BUILT.is_there, reason="the web UI is not built: npm cannot be reached")
def test_the_built_ui_has_the_licences_of_the_code_in_it() -> None:
    text = BUILT.files["licenses.txt"].content.decode()
    for name in ("react", "react-dom", "@xyflow/react", "uplot", "d3-zoom"):
        assert re.search(rf"^{name} [\d.]+, \w+", text, re.M), name
    assert text.count("Permission is hereby granted, free of charge") >= 10
    assert "vitest" not in text


def test_the_package_is_read_once() -> None:
    assert packaged() is packaged()
