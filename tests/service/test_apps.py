"""The routes of apps: the catalog's, and apps that are broken."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.define.registry import discover
from holdfast.log_events import Line
from tests.apps.catalog.conftest import collection, facts, item
from tests.running import running
from tests.service.serving import API, serving_http
from tests.service.test_jobs import ended

pytestmark = pytest.mark.anyio

GOOD = """
from dataclasses import dataclass
from fastapi import Response
from holdfast.extend.routes import Call, Permission, RouteTable

table = RouteTable("good")

@dataclass(frozen=True)
class Asker:
    tenant: str

@table.get("/who", Permission.OPERATE, answers=Asker)
async def livez(call: Call) -> Response:
    '''Who asks.'''
    return call.answer(Asker(call.tenant))

@table.get("/broken", Permission.READ, answers=Asker)
async def fail(call: Call) -> Response:
    '''Fails.'''
    raise RuntimeError("secret detail")
"""
TWO = """
from holdfast.extend.routes import Call, Permission, RouteTable
table = RouteTable("two")

@table.get("/first", Permission.PUBLIC, answers=dict)
async def first(call: Call) -> None:
    '''One.'''

@table.get("second", Permission.PUBLIC, answers=dict)
async def second(call: Call) -> None:
    '''Two.'''
"""


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs one app that works and some that do not."""
    modules = {
        "app_good": GOOD,
        "app_two": TWO,
        "app_raises": "raise RuntimeError('not today')",
        "app_other": "table = 3",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    installed = tmp_path / "some_apps-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: some-apps\nVersion: 1.0\n")
    lines = [f"{name.removeprefix('app_')} = {name}:table" for name in modules]
    lines += ["missing = no_such_module:table [geo]", "Wrong = app_good:table"]
    (installed / "entry_points.txt").write_text("[holdfast.routes]\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in modules:
        sys.modules.pop(name, None)


async def test_a_broken_app_is_left_out_and_the_log_says_so(
    apps: None, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "holdfast.service"):
        async with serving_http(database_url) as service:
            client, viewer = await service.as_role("operator", tenant="t"), await service.as_role("viewer")
            assert (await client.get("/apps/good/who")).json() == {"tenant": "t"}
            assert (await viewer.get("/apps/good/who")).status_code == 403
            assert (await service.with_key(None).get("/apps/good/who")).status_code == 401
            assert (await client.get("/apps/good/who", params={"x": 1})).status_code == 422
            for path in ("/apps/two/first", "/apps/raises/who", "/apps/other", "/apps/missing", "/apps/Wrong/who"):
                assert (await client.get(path)).status_code == 404
            failed = await client.get("/apps/good/broken")
            assert (failed.status_code, "secret" in failed.text) == (500, False)
            assert (await client.get(f"{API}/jobs")).status_code == 200
            described = (await client.get("/openapi.json")).json()["paths"]
    assert described["/apps/good/who"]["get"]["operationId"] == "good_livez"
    assert described["/apps/good/who"]["get"]["x-holdfast-scope"] == "operate"
    lines = [one.msg for one in caplog.records if isinstance(one.msg, Line)]
    left_out = {one.fields["app"]: one.fields["reason"] for one in lines if one.event == "app_left_out"}
    assert left_out.keys() == {"two", "raises", "other", "missing", "Wrong"}
    assert "RuntimeError: not today" in left_out["raises"]
    assert "some-apps[geo]" in left_out["missing"]


async def test_the_catalog_is_read_page_by_page(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STAC_TENANTS", "default, maps")
    catalog = PostgresCatalog(database_url)
    for name in ("droughts", "floods", "winds"):
        catalog.ensure_collection(collection(name))
    catalog.upsert_items("floods", [item(number) for number in range(5)])
    async with serving_http(database_url) as service:
        client = await service.as_role("viewer")
        first = (await client.get("/apps/stac/collections", params={"limit": 2})).json()
        assert [one["id"] for one in first["items"]] == ["droughts", "floods"]
        assert first["items"][1]["extent"]["spatial"]["bbox"] != first["items"][0]["extent"]["spatial"]["bbox"]
        rest = await client.get("/apps/stac/collections", params={"limit": 2, "cursor": first["next_cursor"]})
        assert ([one["id"] for one in rest.json()["items"]], rest.json()["next_cursor"]) == (["winds"], None)
        assert (await client.get("/apps/stac/collections/floods")).json()["id"] == "floods"
        seen: list[str] = []
        cursor: str | None = None
        while True:
            more = {"cursor": cursor} if cursor is not None else {}
            page = (await client.get("/apps/stac/collections/floods/items", params={"limit": 2, **more})).json()
            seen += [one["id"] for one in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == [f"tile-{number:04d}" for number in range(5)]
        for wanted in ({"cursor": "nonsense"}, {"datetime": "yesterday"}, {"limit": 0}, {"bbox": "1"}):
            refused = await client.get("/apps/stac/collections/floods/items", params=wanted)
            assert refused.status_code == 422
        assert (await client.get("/apps/stac/collections/nope/items")).status_code == 404
        allowed, other = await service.as_role("viewer", tenant="maps"), await service.as_role("viewer", tenant="x")
        assert len((await allowed.get("/apps/stac/collections")).json()["items"]) == 3
        assert (await other.get("/apps/stac/collections")).json() == {"items": [], "next_cursor": None}
        hidden = await other.get("/apps/stac/collections/floods/items")
        assert (hidden.status_code, hidden.json()["detail"]) == (404, "There is no collection floods.")
        assert (await service.with_key(None).get("/apps/stac/collections")).status_code == 401


async def test_an_item_has_the_external_ids_of_the_job_that_made_it(database_url: str) -> None:
    PostgresCatalog(database_url).ensure_collection(collection("floods"))
    params: dict[str, Any] = {"collection_id": "floods", "items": [facts(1)]}
    register = {"handler": "raster.stac_register_items", "params": params}
    definition = {"workflow_id": "registering", "nodes": {"a": register}}
    async with running(database_url, discover()), serving_http(database_url) as service:
        client = await service.as_role("submitter")
        marks = {"external_ids": {"gateway": "g-1"}}
        made = await client.post(f"{API}/jobs", json={"definition": definition, **marks})
        assert (await ended(client, made.json()["job_id"]))["status"] == "completed"
        again = await client.post(f"{API}/jobs", json={"definition": definition, "force": True})
        assert (await ended(client, again.json()["job_id"]))["result"]["unchanged"] == 1
        (one,) = (await client.get("/apps/stac/collections/floods/items")).json()["items"]
    assert one["properties"]["holdfast:external_ids"] == {"gateway": "g-1"}
    assert one["properties"]["holdfast:job_id"] == made.json()["job_id"]
