"""The schema over HTTP, for administrators of the installation."""

from __future__ import annotations

import httpx2
import psycopg
import pytest

from holdfast.define.load import load_text
from holdfast.settings import Settings
from tests.service.serving import API, Service, serving_http

pytestmark = pytest.mark.anyio

PATHS = {"GET": ("status", "tables", "settings", "ddl"), "POST": ("deploy", "migrate", "rebuild")}


async def rebuilt(client: httpx2.AsyncClient, name: str) -> int:
    return (await client.post(f"{API}/bootstrap/rebuild", json={"database": name})).status_code


async def test_the_schema_is_shown_to_administrators_of_the_installation_only(database_url: str) -> None:
    async with serving_http(database_url, allow_bootstrap=True) as service:
        admin = await service.as_role("admin", tenant="*")
        status = (await admin.get(f"{API}/bootstrap/status")).json()
        assert (status["is_current"], status["missing"]) == (True, [])
        tables = {one["table"] for one in (await admin.get(f"{API}/bootstrap/tables")).json()["items"]}
        assert {"jobs", "external_ids", "sources"} <= tables
        ddl = await admin.get(f"{API}/bootstrap/ddl")
        assert ddl.headers["content-type"].startswith("application/sql")
        assert "create table jobs" in ddl.text
        assert (await admin.post(f"{API}/bootstrap/migrate")).json() == {"applied": []}
        assert (await admin.post(f"{API}/bootstrap/deploy")).json() == {"applied": []}
        for client in (await service.as_role("admin"), await service.as_role("viewer"), service.with_key(None)):
            for method, paths in PATHS.items():
                for path in paths:
                    body = {"database": "any"} if path == "rebuild" else None
                    refused = await client.request(method, f"{API}/bootstrap/{path}", json=body)
                    expected = 403 if "authorization" in client.headers else 401
                    assert (path, refused.status_code) == (path, expected)


async def test_the_settings_are_shown_without_secrets(database_url: str) -> None:
    secret = "s3cretword"
    chosen = {
        "smtp_url": f"smtp://ann:{secret}@mail.example", "oidc_client_secret": secret,
        "oidc_issuer": "https://issuer.example/realm", "oidc_client_id": "ui", "oidc_audience": "holdfast",
        "traces_url": f"https://ann:{secret}@traces.example/v1?token={secret}",
        "outgoing_allow": ("hooks.internal", "10.0.0.0/8"),
    }  # fmt: skip
    async with serving_http(database_url, **chosen) as service:
        admin = await service.as_role("admin", tenant="*")
        answer = await admin.get(f"{API}/bootstrap/settings")
    assert secret not in answer.text
    shown = {one["name"]: (one["value"], one["is_default"]) for one in answer.json()["items"]}
    assert shown["HOLDFAST_SMTP_URL"] == shown["HOLDFAST_OIDC_CLIENT_SECRET"] == ("***", False)
    assert shown["HOLDFAST_API_KEY"] == (None, True)
    assert shown["HOLDFAST_TRACES_URL"] == ("https://traces.example/v1", False)
    assert shown["HOLDFAST_OUTGOING_ALLOW"] == ("hooks.internal, 10.0.0.0/8", False)
    assert shown["HOLDFAST_AUDIT_DAYS"] == ("365", True)
    password = database_url.partition("@")[0].rpartition(":")[2]
    assert password not in answer.text
    assert (shown["HOLDFAST_DATABASE_URL"][0] or "").endswith(database_url.rpartition("@")[2])


@pytest.mark.parametrize("mark", ["?", "#", "/", "@", ":"])
def test_a_password_that_was_not_escaped_is_not_shown_in_an_address(mark: str) -> None:
    secret = f"s3cret{mark}word"
    shown = {name: value for name, value, _ in Settings(traces_url=f"https://ann:{secret}@traces.example/v1").shown()}
    assert shown["HOLDFAST_TRACES_URL"] in ("***", "https://traces.example/v1")


async def test_a_process_without_the_flag_changes_no_schema(database_url: str) -> None:
    async with serving_http(database_url) as service:
        admin = await service.as_role("admin", tenant="*")
        assert (await admin.get(f"{API}/bootstrap/status")).status_code == 200
        for path in ("deploy", "migrate"):
            assert (await admin.post(f"{API}/bootstrap/{path}")).status_code == 403
        assert await rebuilt(admin, database_url.rpartition("/")[2]) == 403


async def test_a_rebuild_wants_the_name_of_the_database_and_refuses_while_jobs_are_open(database_url: str) -> None:
    name = database_url.rpartition("/")[2]
    async with serving_http(database_url, allow_bootstrap=True) as service:
        admin = await service.as_role("admin", tenant="*")
        assert await rebuilt(admin, "another") == 409
        await service.admin.for_tenant("default").submit(load_text("workflow_id: a\nnodes: {a: {handler: echo}}"))
        refused = await admin.post(f"{API}/bootstrap/rebuild", json={"database": name})
        assert (refused.status_code, "1 of its jobs are open" in refused.json()["detail"]) == (409, True)
        with psycopg.connect(database_url) as connection:
            connection.execute("update holdfast.jobs set status = 'cancelled', finished_at = now()")
        await _rebuild(service, name)
    with psycopg.connect(database_url) as connection:
        for table in ("jobs", "api_keys"):
            assert connection.execute(f"select count(*) from holdfast.{table}".encode()).fetchone() == (0,)


async def _rebuild(service: Service, name: str) -> None:
    admin = await service.as_role("admin", tenant="*")
    assert await rebuilt(admin, name) == 200
    assert (await admin.get(f"{API}/bootstrap/status")).status_code == 401
