"""Browser sessions: signing in and out, cookies, links that work once, and writes that come from other pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.conftest import eventually
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

ECHO = {"definition": {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}}
SESSION = f"{API}/session"
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


async def signed_in(service: Service, *roles: str, tenant: str = "default") -> httpx2.AsyncClient:
    """A client with nothing but a cookie."""
    browser = service.with_key(None)
    made = await browser.post(SESSION, json={"key": await service.key(*roles, tenant=tenant)})
    assert made.status_code == 201
    return browser


def own(service: Service) -> dict[str, str]:
    return {"Origin": service.url}


async def test_a_key_becomes_a_cookie_that_scripts_and_other_sites_never_get(service: Service) -> None:
    browser = service.with_key(None)
    key = await service.key("viewer", tenant="acme")
    made = await browser.post(SESSION, json={"key": key})
    (cookie,) = made.headers.get_list("set-cookie")
    parts = {part.strip().partition("=")[0].lower(): part.strip().partition("=")[2] for part in cookie.split(";")}
    assert (parts["samesite"], parts["path"], parts["max-age"]) == ("strict", "/", "43200")
    assert "httponly" in parts
    assert "secure" not in parts, "this is plain HTTP on this machine"
    who = (await browser.get(SESSION)).json()
    assert who["name"] == f"test ({key[:11]})"
    assert (who["tenant"], who["roles"], who["scopes"], who["credential"]) == ("acme", ["viewer"], ["read"], "session")
    assert made.json() == who
    assert (await browser.get(f"{API}/jobs")).status_code == 200


async def test_the_database_has_neither_the_cookie_nor_the_code(service: Service, database_url: str) -> None:
    browser = await signed_in(service, "viewer")
    token = browser.cookies["holdfast_session"]
    made = await service.admin.add_key("a", roles=["viewer"], tenant="t")
    code = await service.admin.sign_in_code(made.details.prefix)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select s::text from holdfast.sessions s").fetchall()
        rows += connection.execute("select c::text from holdfast.sign_in_codes c").fetchall()
    assert len(rows) == 2
    assert not any(token in row[0] or code in row[0] for row in rows)


async def test_a_sign_in_without_a_valid_credential_sets_no_cookie(service: Service) -> None:
    wrong: list[tuple[Any, int]] = [
        ({"key": "hf_wrong"}, 401),
        ({"key": "hf_" + "a" * 51}, 401),
        ({"code": "wrong"}, 401),
        ({}, 422),
        ({"key": "a", "code": "b"}, 422),
        ({"token": "a"}, 422),
        ({"key": 1}, 422),
        ([], 422),
        ("text", 422),
    ]
    for body, status in wrong:
        refused = await service.with_key(None).post(SESSION, json=body)
        assert (body, refused.status_code) == (body, status)
        assert refused.headers["content-type"] == "application/problem+json"
        assert "set-cookie" not in refused.headers


async def test_a_session_ends_when_its_browser_signs_out_and_no_other_does(service: Service) -> None:
    key = await service.key("viewer")
    one, two = service.with_key(None), service.with_key(None)
    for browser in (one, two):
        await browser.post(SESSION, json={"key": key})
    token = one.cookies["holdfast_session"]
    assert (await one.delete(SESSION, headers=own(service))).status_code == 200
    assert "holdfast_session" not in one.cookies
    stolen = service.with_key(None, Cookie=f"holdfast_session={token}")
    assert (await stolen.get(f"{API}/jobs")).status_code == 401
    assert (await two.get(f"{API}/jobs")).status_code == 200
    assert (await service.with_key(key).delete(SESSION)).status_code == 409


async def test_a_session_ends_with_its_key(service: Service) -> None:
    key = await service.key("viewer")
    browser = service.with_key(None)
    await browser.post(SESSION, json={"key": key})
    assert (await browser.get(f"{API}/jobs")).status_code == 200
    await service.admin.revoke_key(key[:11])

    async def has_ended() -> bool:
        return (await browser.get(f"{API}/jobs")).status_code == 401

    await eventually(has_ended, 5.0)


async def test_a_session_ends_after_twelve_hours_and_its_row_goes_with_the_next_sign_in(
    service: Service, database_url: str
) -> None:
    browser = await signed_in(service, "viewer")
    with psycopg.connect(database_url, autocommit=True) as connection:
        hours = connection.execute(
            "select round(extract(epoch from expires_at - created_at) / 3600) from holdfast.sessions"
        ).fetchone()
        assert hours == (12,)
        connection.execute("update holdfast.sessions set expires_at = now() - interval '1 s'")

    async def has_ended() -> bool:
        return (await browser.get(f"{API}/jobs")).status_code == 401

    await eventually(has_ended, 5.0)
    await signed_in(service, "viewer")
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from holdfast.sessions").fetchone() == (1,)


async def test_a_session_ends_no_later_than_its_key_expires(service: Service, database_url: str) -> None:
    key = await service.key("viewer")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update holdfast.api_keys set expires_at = now() + interval '1 hour'")
        browser = service.with_key(None)
        made = await browser.post(SESSION, json={"key": key})
        (expires_at,) = connection.execute("select expires_at from holdfast.api_keys").fetchone() or (None,)
        assert made.json()["expires_at"][:19] == f"{expires_at:%Y-%m-%dT%H:%M:%S}"
        connection.execute("update holdfast.api_keys set expires_at = now()")

    async def has_ended() -> bool:
        return (await browser.get(f"{API}/jobs")).status_code == 401

    await eventually(has_ended, 5.0)


FOREIGN: list[dict[str, str]] = [
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
]


async def test_a_write_from_another_page_with_the_cookie_of_its_visitor_is_refused(service: Service) -> None:
    browser = await signed_in(service, "admin")
    for headers in FOREIGN:
        for method, path, body in (
            ("POST", f"{API}/jobs", ECHO),
            ("POST", f"{API}/keys", {"name": "mine", "roles": ["admin"]}),
            ("DELETE", SESSION, None),
        ):
            refused = await browser.request(method, path, json=body, headers=headers)
            problem = refused.json()["code"]
            assert (headers, path, refused.status_code, problem) == (headers, path, 403, "FOREIGN_ORIGIN")
        assert (await browser.get(f"{API}/jobs", headers=headers)).json()["items"] == []


@pytest.mark.parametrize(
    "said", [{"Origin": "OWN"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "same-origin", "Origin": "null"}]
)
async def test_a_write_from_a_page_of_the_service_itself_is_done(service: Service, said: dict[str, str]) -> None:
    browser = await signed_in(service, "submitter")
    headers = {name: service.url if text == "OWN" else text for name, text in said.items()}
    assert (await browser.post(f"{API}/jobs", json=ECHO, headers=headers)).status_code == 201


async def test_a_header_counts_more_than_a_cookie(service: Service) -> None:
    browser = await signed_in(service, "viewer", tenant="acme")
    other = {"Authorization": f"Bearer {await service.key('submitter', tenant='other')}"}
    assert (await browser.get(SESSION, headers=other)).json()["tenant"] == "other"
    assert (await browser.post(f"{API}/jobs", json=ECHO, headers=other)).status_code == 201
    for wrong in ("Bearer hf_wrong", "Basic YTpi", "Bearer", ""):
        assert (await browser.get(f"{API}/jobs", headers={"Authorization": wrong})).status_code == 401


async def test_a_sign_in_from_another_page_is_refused(service: Service) -> None:
    key = await service.key("viewer")
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        refused = await service.with_key(None).post(SESSION, json={"key": key}, headers=headers)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)


async def link_code(service: Service, **key: Any) -> str:
    made = await service.admin.add_key("local", roles=["admin"], tenant="*")
    return await service.admin.sign_in_code(made.details.prefix)


async def test_the_page_of_a_link_changes_nothing_and_its_button_signs_in_once(service: Service) -> None:
    code = await link_code(service)
    browser = service.with_key(None)
    for _ in range(3):
        page = await browser.get("/sign-in", params={"code": code})
        assert (page.status_code, "set-cookie" in page.headers) == (200, False)
    assert f'name="code" value="{code}"' in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "<script" not in page.text
    assert page.headers["referrer-policy"] == "strict-origin"
    assert page.headers["cache-control"] == "no-store"
    answer = await browser.post(SESSION, data={"code": code, "return_to": "/"}, headers=own(service))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    who = (await browser.get(SESSION)).json()
    assert (who["tenant"], who["roles"], who["credential"]) == ("*", ["admin"], "session")
    again = await service.with_key(None).post(SESSION, data={"code": code}, headers=own(service))
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)


async def test_of_many_requests_with_one_code_one_signs_in(service: Service) -> None:
    code = await link_code(service)
    browsers = [service.with_key(None) for _ in range(10)]
    answers = await asyncio.gather(*(browser.post(SESSION, json={"code": code}) for browser in browsers))
    assert sorted(one.status_code for one in answers) == [201] + [401] * 9


async def test_a_code_works_for_a_minute_and_not_after_its_key_was_revoked(service: Service, database_url: str) -> None:
    late = await link_code(service)
    with psycopg.connect(database_url, autocommit=True) as connection:
        seconds = connection.execute(
            "select extract(epoch from expires_at - now()) between 30 and 60 from holdfast.sign_in_codes"
        ).fetchone()
        assert seconds == (True,)
        connection.execute("update holdfast.sign_in_codes set expires_at = now()")
    # Making another code would delete the one that has ended.
    assert (await service.with_key(None).post(SESSION, json={"code": late})).status_code == 401
    revoked = await link_code(service)
    for key in await service.admin.keys():
        if key.name == "local" and key.valid:
            await service.admin.revoke_key(key.prefix)
    assert (await service.with_key(None).post(SESSION, json={"code": revoked})).status_code == 401


ELSEWHERE = [
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "evil.example",
    "/a\r\nSet-Cookie: a=b",
    "/\u00e9vil",
    "http:/evil.example",
    "/" + "x" * 3000,
]


async def test_a_sign_in_never_goes_on_to_another_site(service: Service) -> None:
    for target in ELSEWHERE:
        page = await service.with_key(None).get("/sign-in", params={"code": "c", "return_to": target})
        assert page.status_code == 422 or 'name="return_to" value="/"' in page.text, target
        fields = {"code": await link_code(service), "return_to": target}
        answer = await service.with_key(None).post(SESSION, data=fields, headers=own(service))
        assert answer.status_code == 422 or answer.headers["location"] == "/", target
        assert "a=b" not in str(answer.headers)


async def test_a_sign_in_goes_on_to_the_page_that_was_asked_for(service: Service) -> None:
    code = await link_code(service)
    answer = await service.with_key(None).post(
        SESSION, data={"code": code, "return_to": "/jobs?status=failed#top"}, headers=own(service)
    )
    assert answer.headers["location"] == "/jobs?status=failed#top"


PAGES = [
    "/",
    "/jobs",
    "/jobs?status=failed&status=partial&text=a+b%26c&since=2026-01-01T00%3A00%3A00Z",
    "/jobs/01a1f28f-dbaa-72fa-a35d-6026bcfd93b4/tasks/read/2?tab=attempts",
    "/jobs/01a1f28f-dbaa-72fa-a35d-6026bcfd93b4/nodes/a%20b%C3%A9?fingerprint=0f%2F1",
    "/workflows/it's|{odd}?q=^`",
]


@pytest.mark.parametrize("target", PAGES)
async def test_a_sign_in_leads_back_to_every_page_of_the_ui_with_its_query(service: Service, target: str) -> None:
    browser = service.with_key(None)
    page = await browser.get("/sign-in", params={"return_to": target})
    (kept,) = re.findall(r'name="return_to" value="([^"]*)"', page.text)
    assert unescape(kept) == target
    fields = {"key": await service.key("viewer"), "return_to": unescape(kept)}
    answer = await browser.post(SESSION, data=fields, headers=own(service))
    assert (answer.status_code, answer.headers["location"]) == (303, target)


async def test_the_sign_in_page_looks_like_the_ui_and_loads_its_style_from_here_alone(service: Service) -> None:
    browser = service.with_key(None)
    for address in ("/sign-in", "/sign-in?code=abc"):
        page = await browser.get(address)
        rules = dict(rule.strip().split(" ", 1) for rule in page.headers["content-security-policy"].split(";"))
        assert (rules["default-src"], rules["style-src"], rules["form-action"]) == ("'none'", "'self'", "'self'")
        assert "script-src" not in rules
        assert re.findall(r"<(?:script|style|img|iframe)|\son\w+=|\sstyle=", page.text) == []
        assert re.findall(r'<link [^>]*href="([^"]*)"', page.text) == ["/sign-in.css"]
        assert 'lang="en"' in page.text and 'name="viewport"' in page.text
    style = await browser.get("/sign-in.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "light-dark(" in style.text and "url(" not in style.text and "@import" not in style.text


def test_the_sign_in_page_has_the_colours_of_the_ui() -> None:
    """Its own style sheet repeats them: it is there without a built UI, too."""
    tokens = (ROOT / "ui" / "src" / "tokens.css").read_text(encoding="utf-8")
    own_style = (ROOT / "src/holdfast/service/identity/sign_in.css").read_text(encoding="utf-8")
    ours = re.findall(r"^  (--[\w-]+: light-dark\(.*\);)$", own_style, re.M)
    assert len(ours) >= 8
    assert [one for one in ours if one not in tokens] == []


async def test_a_person_who_sends_a_wrong_key_gets_the_page_again_and_a_program_a_problem(service: Service) -> None:
    person = service.with_key(None, Accept="text/html,application/xhtml+xml,*/*;q=0.8", **own(service))
    for fields, why in (
        ({"key": "hf_wrong", "return_to": "/jobs?status=failed"}, "This key is not valid"),
        ({"code": "used", "return_to": "/jobs?status=failed"}, "This link works no more"),
    ):
        page = await person.post(SESSION, data=fields)
        assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert why in page.text and 'role="alert"' in page.text
        assert 'name="key"' in page.text and 'value="/jobs?status=failed"' in page.text
        assert not any(fields.get(name, "no such text") in page.text for name in ("key", "code"))
        assert "set-cookie" not in page.headers
        problem = await service.with_key(None, **own(service)).post(SESSION, data=fields)
        assert (problem.status_code, problem.headers["content-type"]) == (401, "application/problem+json")


async def test_what_a_link_brings_is_never_part_of_the_page(service: Service) -> None:
    page = await service.with_key(None).get("/sign-in", params={"code": '"><script>alert(1)</script>'})
    assert "<script" not in page.text


async def test_without_a_credential_a_request_is_anonymous(service: Service) -> None:
    who = (await service.with_key(None).get(SESSION)).json()
    assert (who["name"], who["roles"], who["scopes"], who["credential"]) == ("anonymous", [], [], "none")
    assert (await service.with_key("hf_wrong").get(SESSION)).status_code == 401
    assert (await (await service.as_role("worker")).get(SESSION)).json()["scopes"] == ["work"]
