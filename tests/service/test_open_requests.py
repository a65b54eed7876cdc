"""Requests that stay open: one tenant cannot take all connections of a process with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from tests.conftest import eventually
from tests.running import client_of
from tests.service.raw import serving_raw
from tests.service.routes_of import all_routes
from tests.service.serving import API, Service
from tests.service.streaming import first_place, stream
from tests.service.test_authorization import request_of
from tests.service.test_jobs import ECHO
from tests.service.test_streams import submitted

pytestmark = pytest.mark.anyio
MOST = 2


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_raw(database_url, most_open_requests=MOST) as service:
        yield service


async def test_a_tenant_whose_streams_take_their_share_opens_no_more_and_others_do(service: Service) -> None:
    client, other = await service.as_role("operator"), await service.as_role("viewer", tenant="other")
    job_id = await submitted(client)
    async with AsyncExitStack() as kept:
        open_ones = [
            await kept.enter_async_context(stream(client, path)) for path in ("events/stream", f"jobs/{job_id}/stream")
        ]
        assert [(await anext(one)).event for one in open_ones] == ["", ""]
        for path in ("events/stream", f"jobs/{job_id}/stream"):
            refused = await client.get(f"{API}/{path}")
            assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_OPEN_REQUESTS")
            assert refused.headers["retry-after"] == "5"
        assert (await client.get(f"{API}/jobs")).status_code == 200
        async with stream(other, "events/stream") as found:
            await first_place(found)

    async def has_room() -> bool:
        return (await client.head(f"{API}/events/stream")).status_code == 200

    await eventually(has_room)
    for _ in range(MOST + 1):
        assert await has_room(), "a request for the headers keeps no place"
        assert (await client.get(f"{API}/jobs/{'0' * 8}-0000-7000-8000-{'0' * 12}/stream")).status_code == 404
    async with stream(client, "events/stream") as found:
        await first_place(found)


async def test_a_verb_that_would_wait_without_a_place_is_not_sent(service: Service, database_url: str) -> None:
    client = await service.as_role("operator")
    async with client_of(database_url) as engine, AsyncExitStack() as kept:
        job_id = (await client.post(f"{API}/jobs", json={"definition": ECHO})).json()["job_id"]
        open_ones = [await kept.enter_async_context(stream(client, "events/stream")) for _ in range(MOST)]
        assert [(await anext(one)).event for one in open_ones] == ["", ""]
        refused = await client.post(f"{API}/jobs/{job_id}/pause", params={"wait": 20}, json={})
        assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_OPEN_REQUESTS")
        pauses = "select count(*) from inbox where kind = 'pause'"
        assert await engine.query(pauses) == [(0,)]
        assert (await client.post(f"{API}/jobs/{job_id}/pause", json={})).status_code == 202
        assert await engine.query(pauses) == [(1,)]


async def test_every_request_that_stays_open_needs_a_place(
    database_url: str, record_property: Callable[[str, object], None]
) -> None:
    routes = [route for route in all_routes() if "wait" in [one["name"] for one in route.parameters("query")]]
    titles = [route.title for route in routes]
    assert {"GET /api/v1/signals/{signal_id}", "POST /api/v1/pauses", "POST /api/v1/notify/test"} < set(titles)
    record_property("generated", len(routes))
    async with serving_raw(database_url, most_open_requests=0) as service:
        client = await service.as_role("admin")
        for route in routes:
            request = request_of(route)
            waiting = await client.request(**request, params={"wait": 0.5})
            assert (route.title, waiting.status_code) == (route.title, 429), waiting.text
            assert waiting.json()["code"] == "TOO_MANY_OPEN_REQUESTS"
            assert (await client.request(**request)).status_code != 429
            assert (await client.request(**request, params={"wait": "0"})).status_code != 429
            assert (await client.request(**request, params={"wait": "soon"})).status_code == 422
