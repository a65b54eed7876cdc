"""Behind a proxy: forwarded addresses, a sub-path, TLS, other origins; and a real nginx, if there is one."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from holdfast.errors import InvalidInput
from holdfast.settings import load_settings
from tests.conftest import eventually
from tests.docs.pages import ROOT, blocks
from tests.ports import free_port
from tests.programs import program
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

SESSION = f"{API}/session"
FORWARDED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
PAGE = ROOT / "docs" / "how-to" / "behind-a-proxy.md"


async def statuses(client: httpx2.AsyncClient, *, times: int, **headers: str) -> list[int]:
    return [(await client.get(f"{API}/jobs", headers=headers)).status_code for _ in range(times)]


async def test_forwarded_addresses_count_only_from_trusted_proxies(database_url: str) -> None:
    slow = {"address_requests_per_second": 0.01}
    async with serving_http(database_url, trusted_proxies=("127.0.0.1",), **slow) as service:
        client = service.with_key(None)
        assert await statuses(client, times=2, **{"X-Forwarded-For": "203.0.113.7"}) == [401, 429]
        assert await statuses(client, times=2, **{"X-Forwarded-For": "203.0.113.8"}) == [401, 429]
        spoofed = {"X-Forwarded-For": "198.51.100.1, 203.0.113.8"}
        assert await statuses(client, times=1, **spoofed) == [429], "what a client writes in front does not count"
    async with serving_http(database_url, trusted_proxies=("10.0.0.0/8",), **slow) as service:
        client = service.with_key(None)
        for number in range(2):
            found = await statuses(client, times=1, **{"X-Forwarded-For": f"203.0.113.{number}"})
            assert found == [[401], [429]][number]


async def test_a_cookie_travels_only_by_tls_off_this_machine(database_url: str) -> None:
    async def cookie(service: Service, **headers: str) -> str:
        made = await service.with_key(None).post(SESSION, json={"key": await service.key("viewer")}, headers=headers)
        return made.headers["set-cookie"].lower()

    async with serving_http(database_url) as service:
        assert "secure" not in await cookie(service)
        assert "secure" not in await cookie(service, **FORWARDED), "no trusted proxy has said https"
        assert "secure" in await cookie(service, Host="holdfast.example.com")
    async with serving_http(database_url, trusted_proxies=("127.0.0.1",)) as service:
        assert "secure" in await cookie(service, **FORWARDED)
    async with serving_http(database_url, public_url="https://holdfast.example.com") as service:
        assert "secure" in await cookie(service)


async def test_below_a_path_the_cookie_and_the_links_have_it(database_url: str) -> None:
    settings = {"root_path": "/holdfast", "public_url": "http://127.0.0.1:9/holdfast"}
    async with serving_http(database_url, **settings) as service:
        browser = service.with_key(None)
        made = await browser.post(
            SESSION, data={"key": await service.key("viewer")}, headers={"Origin": "http://127.0.0.1:9"}
        )
        assert (made.status_code, made.headers["location"]) == (303, "/holdfast/")
        assert "path=/holdfast;" in made.headers["set-cookie"].lower()
        first = (await browser.get("/")).text
        assert '<base href="/holdfast/" />' in first or 'href="/holdfast/openapi.json"' in first, (
            "with and without the UI"
        )
        assert 'action="/holdfast/api/v1/session"' in (await browser.get("/sign-in")).text


async def test_with_a_public_address_what_a_request_says_about_it_does_not_count(database_url: str) -> None:
    async with serving_http(database_url, public_url="https://holdfast.example.com") as service:
        browser = service.with_key(None)
        made = await browser.post(SESSION, json={"key": await service.key("submitter")})
        token = made.headers["set-cookie"].partition(";")[0]
        body = {"definition": {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}}

        async def write(**headers: str) -> int:
            answer = await service.with_key(None).post(f"{API}/jobs", json=body, headers={"Cookie": token, **headers})
            return answer.status_code

        assert await write(Origin="https://holdfast.example.com") == 201
        assert await write(Origin=service.url) == 403
        assert await write(Origin="https://evil.example", Host="evil.example") == 403
        assert await write(Origin="https://holdfast.example.com:8443") == 403


async def test_other_pages_use_the_service_only_if_the_settings_name_their_origin(database_url: str) -> None:
    maps, evil = "https://maps.example.com", "https://evil.example"
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with serving_http(database_url, cors_origins=(maps,)) as service:
        browser, viewer = service.with_key(None), await service.as_role("viewer")
        allowed = await browser.options(f"{API}/jobs", headers={"Origin": maps, **asks})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == maps
        assert allowed.headers["access-control-allow-credentials"] == "true"
        for origin in (evil, "null", f"{maps}.evil.example", "http://maps.example.com", f"{maps}:444", maps.upper()):
            refused = await browser.options(f"{API}/jobs", headers={"Origin": origin, **asks})
            assert (refused.status_code, refused.headers["content-type"]) == (405, "application/problem+json")
            answer = await viewer.get(f"{API}/jobs", headers={"Origin": origin})
            for one in (refused, answer):
                assert not [name for name in one.headers if name.startswith("access-control")], origin
        answer = await viewer.get(f"{API}/jobs", headers={"Origin": maps})
        assert answer.headers["access-control-allow-origin"] == maps
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        failed = await browser.get(f"{API}/jobs", headers={"Origin": maps})
        assert (failed.status_code, failed.headers["access-control-allow-origin"]) == (401, maps)
        await browser.post(SESSION, json={"key": await service.key("submitter")})
        body = {"definition": {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}}
        assert (await browser.post(f"{API}/jobs", json=body, headers={"Origin": maps})).status_code == 201
        assert (await browser.post(f"{API}/jobs", json=body, headers={"Origin": evil})).status_code == 403
    async with serving_http(database_url) as service:
        plain = await service.with_key(None).options(f"{API}/jobs", headers={"Origin": maps, **asks})
        assert "access-control-allow-origin" not in plain.headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "null"),
        ("CORS_ORIGINS", "https://*.example.com"),
        ("CORS_ORIGINS", "https://maps.example.com/"),
        ("CORS_ORIGINS", "https://maps.example.com,maps"),
        ("TRUSTED_PROXIES", "*"),
        ("TRUSTED_PROXIES", "proxy"),
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
        ("ROOT_PATH", "holdfast"),
        ("ROOT_PATH", "/holdfast/"),
        ("ROOT_PATH", "//evil.example"),
        ("PUBLIC_URL", "holdfast.example.com"),
        ("PUBLIC_URL", "javascript:alert(1)"),
        ("KEY_REQUESTS_PER_SECOND", "0"),
    ],
)
def test_settings_that_would_trust_too_much_are_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"HOLDFAST_{name}", value)
    with pytest.raises(InvalidInput, match="settings"):
        load_settings()


@asynccontextmanager
async def nginx(folder: Path, upstream: str, port: int) -> AsyncIterator[trustme.CA]:
    """A real nginx with the file of the page: TLS on a free port, the service below /holdfast/."""
    (text,) = (block.body for block in blocks(PAGE) if block.marks.get("file") == "nginx.conf")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "holdfast.pem")
    for before, after in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/nginx/holdfast.pem", str(folder / "holdfast.pem")),
        ("127.0.0.1:8321", upstream),
        ("holdfast.example.com", "127.0.0.1"),
    ):
        assert before in text
        text = text.replace(before, after)
    # Its workers may write where we may: as root it would take another account.
    lines = ["daemon off;", "user root;"] if os.getuid() == 0 else ["daemon off;"]
    lines += [f"pid {folder}/pid;", f"error_log {folder}/error.log;", "events {}", "http {", "access_log off;"]
    lines += [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    whole = "\n".join([*lines, text, "}\n"])
    (folder / "whole.conf").write_text(whole)
    arguments = ("-p", str(folder), "-c", str(folder / "whole.conf"), "-e", str(folder / "error.log"))
    process = await asyncio.create_subprocess_exec(program("nginx", "nginx"), *arguments)
    try:
        yield authority
    finally:
        process.terminate()
        await process.wait()


async def test_the_nginx_of_the_page_serves_by_tls_below_a_path_with_forwarded_addresses(
    database_url: str, tmp_path: Path
) -> None:
    program("nginx", "nginx")
    port = free_port()
    public = f"https://127.0.0.1:{port}/holdfast"
    settings: dict[str, Any] = {
        "public_url": public,
        "root_path": "/holdfast",
        "trusted_proxies": ("127.0.0.1",),
        "address_requests_per_second": 2,
    }
    async with (
        serving_http(database_url, **settings) as service,
        nginx(tmp_path, service.url.removeprefix("http://"), port) as authority,
    ):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        async with httpx2.AsyncClient(base_url=public, verify=context, timeout=30) as browser:

            async def is_there() -> bool:
                try:
                    return (await browser.get("/livez")).status_code == 200
                except httpx2.ConnectError:
                    return False

            await eventually(is_there)
            page = await browser.get("/sign-in")
            assert 'action="/holdfast/api/v1/session"' in page.text
            origin = {"Origin": f"https://127.0.0.1:{port}"}
            key = await service.key("submitter")
            made = await browser.post(SESSION, data={"key": key}, headers=origin)
            assert (made.status_code, made.headers["location"]) == (303, "/holdfast/")
            cookie = made.headers["set-cookie"].lower()
            assert "secure" in cookie
            assert "path=/holdfast;" in cookie
            body = {"definition": {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}}
            job = await browser.post(f"{API}/jobs", json=body, headers=origin)
            assert job.status_code == 201
            assert job.headers["location"].startswith("/holdfast/api/v1/jobs/")
            assert (await browser.get(job.headers["location"].removeprefix("/holdfast"))).status_code == 200
            evil = {"Origin": "https://evil.example"}
            assert (await browser.post(f"{API}/jobs", json=body, headers=evil)).status_code == 403
            large = {"definition": {**body["definition"], "description": "x" * 3_000_000}}
            assert (await browser.post(f"{API}/jobs", json=large, headers=origin)).status_code in (201, 422)
            assert (await browser.get("/api/v1/../../../etc/passwd")).status_code == 404
            # nginx says 127.0.0.1, whatever the client claims to be: all these requests are of one address.
            claimed = [
                (await browser.get("/livez", headers={"X-Forwarded-For": f"203.0.113.{number}"})).status_code
                for number in range(20)
            ]
            assert 429 in claimed
