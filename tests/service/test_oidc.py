"""An identity provider over real HTTP: its tokens, forged ones, and signing in with a browser."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import RSAKey

from holdfast.errors import InvalidInput, Unreachable
from holdfast.service.identity import provider as providing
from holdfast.service.identity.provider import Provider, is_safe
from holdfast.settings import load_settings
from tests.conftest import eventually
from tests.service.issuer import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    DESCRIPTION,
    Issuer,
    confused,
    elliptic,
    issuing,
    unsigned,
)
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

SESSION = f"{API}/session"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@asynccontextmanager
async def trusting(url: str, issuer: Issuer, **more: Any) -> AsyncIterator[Service]:
    named = {
        "oidc_issuer": issuer.url,
        "oidc_audience": AUDIENCE,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
    }
    async with serving_http(url, **(named | more)) as service:
        yield service


@pytest.fixture
async def service(database_url: str, issuer: Issuer) -> AsyncIterator[Service]:
    async with trusting(database_url, issuer) as service:
        yield service


async def test_a_token_has_the_tenant_and_the_roles_that_the_provider_says(service: Service, issuer: Issuer) -> None:
    issuer.person |= {"roles": ["offline_access", "submitter", "viewer"]}
    client = service.with_key(issuer.token())
    who = (await client.get(SESSION)).json()
    assert (who["name"], who["tenant"], who["credential"]) == ("ann@example.com (oidc ann)", "acme", "token")
    assert (who["roles"], who["scopes"]) == (["viewer", "submitter"], ["read", "submit"])
    echo = {"definition": {"workflow_id": "echo", "nodes": {"a": {"handler": "echo"}}}}
    made = await client.post(f"{API}/jobs", json=echo)
    assert made.status_code == 201
    other = service.with_key(issuer.token(tenant="other"))
    assert (await other.get(f"{API}/jobs/{made.json()['job_id']}")).status_code == 404
    assert (await other.get(f"{API}/keys")).status_code == 403


async def test_forged_tokens_are_refused(service: Service, issuer: Issuer) -> None:
    good = issuer.token()
    header, payload, signature = good.split(".")
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    public = issuer.keys["one"].as_pem(private=False)
    claims = issuer.claims(roles=["admin"])
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    embedded = stranger.as_dict(private=False)
    now = int(time.time())
    forged = {
        "another key": issuer.token(stranger),
        "none": unsigned(claims),
        "none with a key id": unsigned(claims, kid="one"),
        "None": unsigned(claims, alg="None"),
        "the public key as a secret": confused(claims, public),
        "a key of its own in the header": issuer.token(stranger, {"jwk": embedded}),
        "an address of a key in the header": issuer.token(stranger, {"jku": "http://127.0.0.1:1/jwks"}),
        "other claims": f"{header}.{changed}.{signature}",
        "no signature": f"{header}.{payload}.",
        "a part too few": f"{header}.{payload}",
        "a part too many": f"{good}.{signature}",
        "an unknown key": issuer.token(stranger, {"kid": "two"}),
        "a critical extension": issuer.token(header={"crit": ["b64"], "b64": False}),
        "over": issuer.token(exp=now - 60),
        "never over": issuer.token(exp=None),
        "over at no time": issuer.token(exp="tomorrow"),
        "not yet": issuer.token(nbf=now + 600),
        "another issuer": issuer.token(iss="http://127.0.0.1:1"),
        "no issuer": issuer.token(iss=None),
        "another audience": issuer.token(aud="other"),
        "the token of a sign-in": issuer.token(aud=CLIENT_ID),
        "no audience": issuer.token(aud=None),
        "no person": issuer.token(sub=None),
        "too long": issuer.token(filler="x" * 20_000),
        "not text": "\u00e9.\u00e9.\u00e9",
        "empty parts": "..",
    }
    assert (await service.with_key(good).get(SESSION)).status_code == 200
    for what, token in forged.items():
        headers = {"Authorization": f"Bearer {token}".encode()}
        answer = await service.with_key(None).get(f"{API}/jobs", headers=headers)  # type: ignore[arg-type]
        assert (what, answer.status_code, answer.json()["code"]) == (what, 401, "UNAUTHENTICATED")


async def test_a_token_ends_at_its_time_although_it_was_seen_before(service: Service, issuer: Issuer) -> None:
    """The identity is remembered for seconds; the end of a token is looked at in any case."""
    soon = int(time.time()) - 8
    client = service.with_key(issuer.token(exp=soon))
    assert (await client.get(SESSION)).status_code == 200, "clocks may differ by ten seconds"

    async def has_ended() -> bool:
        return (await client.get(f"{API}/jobs")).status_code == 401

    await eventually(has_ended, 10.0)


LACKING: list[tuple[dict[str, Any], str]] = [
    ({"tenant": None}, "tenant"),
    ({"tenant": ""}, "tenant"),
    ({"tenant": ["acme"]}, "tenant"),
    ({"tenant": "a\nb"}, "tenant"),
    ({"roles": None}, "roles"),
    ({"roles": []}, "roles"),
    ({"roles": ["offline_access"]}, "roles"),
    ({"roles": {"viewer": True}}, "roles"),
    ({"tenant": "*", "roles": ["viewer"]}, "tenant"),
]


async def test_a_token_that_does_not_say_what_it_may_do_is_refused_with_the_name_of_the_claim(
    service: Service, issuer: Issuer
) -> None:
    for claims, named in LACKING:
        refused = await service.with_key(issuer.token(**claims)).get(f"{API}/jobs")
        problem = refused.json()
        assert (claims, refused.status_code, problem["code"]) == (claims, 403, "FORBIDDEN")
        assert f"'{named}'" in problem["detail"] + problem["remedy"], claims


async def test_claims_may_have_other_names_and_lie_in_objects(database_url: str, issuer: Issuer) -> None:
    names = {"oidc_tenant_claim": "https://maps/tenant", "oidc_roles_claim": "realm_access.roles"}
    async with trusting(database_url, issuer, **names) as service:
        own: dict[str, Any] = {"https://maps/tenant": "maps", "realm_access": {"roles": "viewer operator"}}
        who = (await service.with_key(issuer.token(**own)).get(SESSION)).json()
        assert (who["tenant"], who["roles"]) == ("maps", ["viewer", "operator"])


async def test_a_name_from_a_token_looks_like_no_key(service: Service, issuer: Issuer) -> None:
    token = issuer.token(email="root (hf_abcdefgh)\n", sub="x) y")
    name = (await service.with_key(token).get(SESSION)).json()["name"]
    assert re.fullmatch(r"root _hf_abcdefgh__ \(oidc x_ y [0-9a-f]{12}\)", name)


async def test_two_people_of_the_provider_never_have_one_name(service: Service, issuer: Issuer) -> None:
    names = []
    for subject in ("x)", "x(", "x_", "x\x00", "x" * 255, "x" * 256, "x" * 257):
        who = await service.with_key(issuer.token(email="one@example.com", sub=subject)).get(SESSION)
        assert who.status_code == 200, who.text
        names.append(who.json()["name"])
    assert len(set(names)) == len(names)


async def test_new_keys_of_the_provider_are_read_but_not_for_every_unknown_one(
    database_url: str, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trusting(database_url, issuer) as service:
        assert (await service.with_key(issuer.token()).get(SESSION)).status_code == 200
        issuer.keys["two"] = elliptic("two")
        turned = issuer.token(issuer.keys["two"], {"alg": "ES256", "kid": "two"})
        asked = issuer.requests.count("/jwks")
        for number in range(20):
            unknown = issuer.token(header={"kid": f"unknown-{number}"})
            assert (await service.with_key(unknown).get(SESSION)).status_code == 401
        assert issuer.requests.count("/jwks") <= asked + 1
        monkeypatch.setattr(providing, "AGAIN_SECONDS", 0.0)
        assert (await service.with_key(turned).get(SESSION)).status_code == 200
        confused = issuer.token(issuer.keys["one"], {"kid": "two"})
        assert (await service.with_key(confused).get(SESSION)).status_code == 401


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        (DESCRIPTION, 200, b'{"issuer": "http://127.0.0.1:1"}'),
        (DESCRIPTION, 200, b"[]"),
        (DESCRIPTION, 200, b"no JSON"),
        (DESCRIPTION, 500, b"{}"),
        (DESCRIPTION, 302, b""),
        ("/jwks", 302, b""),
        ("/jwks", 200, b'{"keys": []}'),
        ("/jwks", 200, b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}'),
        ("/jwks", 200, b'{"keys": [' + b"1," * 600_000 + b"1]}"),
    ],
)
async def test_a_provider_that_answers_something_else_is_out_of_reach(
    issuer: Issuer, path: str, status: int, body: bytes
) -> None:
    issuer.answers[path] = (status, body)
    with pytest.raises(Unreachable):
        await Provider(issuer.url).keys("one")
    assert "/elsewhere" not in issuer.requests, "a redirect was followed"


async def test_a_provider_that_is_down_stops_no_key_and_known_keys_go_on(database_url: str, issuer: Issuer) -> None:
    async with trusting(database_url, issuer) as service:
        issuer.answers["/jwks"] = (500, b"")
        refused = await service.with_key(issuer.token()).get(f"{API}/jobs")
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        assert (await (await service.as_role("viewer")).get(f"{API}/jobs")).status_code == 200
    clock = [0.0]
    issuer.answers.clear()
    provider = Provider(issuer.url, lambda: clock[0])
    assert await provider.keys("one")
    issuer.answers["/jwks"] = (500, b"")
    clock[0] += providing.KEPT_SECONDS + 1
    assert await provider.keys("one")
    clock[0] += providing.OLDEST_SECONDS
    with pytest.raises(Unreachable):
        await provider.keys("one")


async def test_a_short_key_of_the_provider_is_no_key(issuer: Issuer) -> None:
    with pytest.warns(UserWarning, match="2048"):
        issuer.keys["short"] = RSAKey.generate_key(1024, {"kid": "short"})
    assert [key.kid for key in await Provider(issuer.url).keys("one")] == ["one"]


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("https://login.example.com/jwks", True),
        ("http://127.0.0.1:80/jwks", True),
        ("http://login.example.com/jwks", False),
        ("http://localhost.example.com/", False),
        ("file:///etc/passwd", False),
        ("https://[", False),
    ],
)
def test_addresses_of_the_provider_are_safe(address: str, safe: bool) -> None:
    assert is_safe(address) is safe


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example.com", "https://a/?b", "https://user@a/", "ftp://a", "http://localhost.evil.example"],
)
def test_an_issuer_that_is_not_safe_is_refused(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_OIDC_ISSUER", issuer)
    with pytest.raises(InvalidInput):
        load_settings()


async def follow(browser: httpx2.AsyncClient, issuer: Issuer, target: str | None = None) -> httpx2.Response:
    """Start at the service, sign in at the provider, and come back to the page with the button."""
    started = await browser.get(f"{SESSION}/oidc", params={"return_to": target} if target is not None else None)
    assert started.status_code == 303
    assert started.headers["location"].startswith(f"{issuer.url}/authorize?")
    back = await browser.get(started.headers["location"])
    assert back.status_code == 302
    return await browser.get(back.headers["location"])


def returned(page: httpx2.Response) -> dict[str, str]:
    query = parse_qs(urlsplit(str(page.url)).query)
    return {"code": query["code"][0], "state": query["state"][0]}


async def test_a_browser_signs_in_at_the_provider(service: Service, issuer: Issuer) -> None:
    browser = service.with_key(None)
    page = await follow(browser, issuer, "/jobs?status=failed")
    assert (page.status_code, "holdfast_session" in browser.cookies) == (200, False)
    assert "<script" not in page.text
    (asked,) = issuer.codes.values()
    assert (asked["code_challenge_method"], asked["response_type"], asked["scope"][:6]) == ("S256", "code", "openid")
    assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    done = await browser.post(f"{SESSION}/oidc", data=returned(page), headers={"Origin": service.url})
    assert (done.status_code, done.headers["location"]) == (303, "/jobs?status=failed")
    who = (await browser.get(SESSION)).json()
    assert (who["name"], who["tenant"], who["credential"]) == ("ann@example.com (oidc ann)", "acme", "session")
    assert "holdfast_sign_in" not in browser.cookies
    assert (await browser.get(f"{API}/jobs")).status_code == 200
    assert (await browser.delete(SESSION, headers={"Origin": service.url})).status_code == 200
    assert (await browser.get(f"{API}/jobs")).status_code == 401


async def test_the_link_to_the_provider_keeps_the_page_to_go_back_to(service: Service, issuer: Issuer) -> None:
    browser = service.with_key(None)
    page = await browser.get("/sign-in", params={"return_to": "/jobs?status=failed&text=a%26b"})
    (link,) = re.findall(r'href="(/api/v1/session/oidc[^"]*)"', page.text)
    started = await browser.get(unescape(link))
    back = await browser.get(started.headers["location"])
    await browser.get(back.headers["location"])
    fields = {name: parse_qs(urlsplit(back.headers["location"]).query)[name][0] for name in ("code", "state")}
    done = await browser.post(f"{SESSION}/oidc", data=fields, headers={"Origin": service.url})
    assert (done.status_code, done.headers["location"]) == (303, "/jobs?status=failed&text=a%26b")


async def test_a_code_that_was_used_or_is_from_another_browser_signs_no_one_in(
    service: Service, issuer: Issuer
) -> None:
    own = {"Origin": service.url}
    browser, attacker = service.with_key(None), service.with_key(None)
    fields = returned(await follow(attacker, issuer))
    await follow(browser, issuer)
    for wrong in (fields, {**fields, "state": ""}, {"code": fields["code"], "state": "x" * 43}):
        refused = await browser.post(f"{SESSION}/oidc", data=wrong, headers=own)
        assert (refused.status_code, "holdfast_session" in refused.headers.get("set-cookie", "")) == (401, False)
    assert (await service.with_key(None).post(f"{SESSION}/oidc", data=fields, headers=own)).status_code == 401
    cookie = {"Cookie": f"holdfast_sign_in={attacker.cookies['holdfast_sign_in']}"}
    assert (await attacker.post(f"{SESSION}/oidc", data=fields, headers=own)).status_code == 303
    replayed = await service.with_key(None).post(f"{SESSION}/oidc", data=fields, headers={**own, **cookie})
    assert (replayed.status_code, "set-cookie" in replayed.headers) == (401, False)


async def test_a_token_with_another_nonce_or_for_another_client_signs_no_one_in(
    service: Service, issuer: Issuer
) -> None:
    for change in ({"nonce": "another"}, {"person": {**issuer.person, "azp": "other"}}):
        for name, value in change.items():
            setattr(issuer, name, value)
        browser = service.with_key(None)
        page = await follow(browser, issuer)
        refused = await browser.post(f"{SESSION}/oidc", data=returned(page), headers={"Origin": service.url})
        assert (refused.status_code, "holdfast_session" in browser.cookies) == (401, False)
        issuer.nonce = None


async def test_the_end_of_a_sign_in_from_another_page_is_refused(service: Service, issuer: Issuer) -> None:
    browser = service.with_key(None)
    fields = returned(await follow(browser, issuer))
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}):
        assert (await browser.post(f"{SESSION}/oidc", data=fields, headers=headers)).status_code == 403


async def test_what_the_provider_refuses_is_said(service: Service, issuer: Issuer) -> None:
    callback = f"{SESSION}/oidc/callback"
    browser = service.with_key(None)
    denied = await browser.get(
        callback, params={"error": "access_denied", "error_description": "Not you", "state": "s"}
    )
    assert (denied.status_code, "Not you" in denied.json()["detail"]) == (403, True)
    mixed = await browser.get(callback, params={"code": "c", "state": "s", "iss": "https://evil.example"})
    assert mixed.status_code == 403
    quoted = await browser.get(callback, params={"code": '"><script>', "state": "s", "authuser": "0", "hd": "b.c"})
    assert quoted.status_code == 200, "providers add what they like"
    assert "<script" not in quoted.text


async def test_a_sign_in_at_the_provider_never_goes_on_to_another_site(service: Service, issuer: Issuer) -> None:
    for target in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        browser = service.with_key(None)
        page = await follow(browser, issuer, target)
        done = await browser.post(f"{SESSION}/oidc", data=returned(page), headers={"Origin": service.url})
        assert (target, done.headers["location"]) == (target, "/")


async def test_without_a_provider_there_is_no_such_sign_in(database_url: str, issuer: Issuer) -> None:
    async with serving_http(database_url) as service:
        assert (await service.with_key(None).get(f"{SESSION}/oidc")).status_code == 404
        assert (await service.with_key(issuer.token()).get(f"{API}/jobs")).status_code == 401


async def test_the_provider_sends_browsers_only_to_the_address_that_the_settings_say(
    database_url: str, issuer: Issuer
) -> None:
    evil = {"Host": "evil.example"}
    async with trusting(database_url, issuer) as service:
        refused = await service.with_key(None).get(f"{SESSION}/oidc", headers=evil)
        assert (refused.status_code, "HOLDFAST_PUBLIC_URL" in refused.json()["remedy"]) == (409, True)
    async with trusting(database_url, issuer, public_url="https://maps.example.com/holdfast") as service:
        started = await service.with_key(None).get(f"{SESSION}/oidc", headers=evil)
        (address,) = parse_qs(urlsplit(started.headers["location"]).query)["redirect_uri"]
        assert address == f"https://maps.example.com/holdfast{SESSION}/oidc/callback"
        assert "secure" in started.headers["set-cookie"].lower()
