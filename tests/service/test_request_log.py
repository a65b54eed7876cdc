"""The lines that the service logs about requests: one for each failure, and if asked for one for each answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.log_events import Line
from tests.conftest import eventually
from tests.service.serving import API, Service, serving_http
from tests.service.streaming import first_place, stream

pytestmark = pytest.mark.anyio


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    async with serving_http(database_url) as service:
        yield service


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    found = [one.msg for one in caplog.records if isinstance(one.msg, Line)]
    return [line.fields for line in found if line.event == event]


async def test_each_answer_leaves_a_line_at_the_level_debug_that_has_no_query(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    client = await service.as_role("viewer")
    with caplog.at_level(logging.DEBUG, "holdfast.service"):
        await client.get(f"{API}/jobs", params={"text": "private"}, headers={"X-Request-Id": "the-list"})
        await service.with_key("hf_wrong").get("/no%0Awhere" + "x" * 600, headers={"X-Request-Id": "nothing"})
        async with stream(client, "events/stream") as found:
            await first_place(found)

        async def stream_has_ended() -> bool:
            return len(lines(caplog, "request_answered")) == 3

        await eventually(stream_has_ended)
    listed, nowhere, streamed = lines(caplog, "request_answered")
    assert (listed["request"], listed["method"], listed["path"]) == ("the-list", "GET", f"{API}/jobs")
    assert (listed["status"], listed["actor"].startswith("test (hf_")) == (200, True)
    assert (nowhere["request"], nowhere["status"], "actor" in nowhere) == ("nothing", 404, False)
    assert nowhere["path"].startswith("/no%0Awherexxx") and len(nowhere["path"]) == 500
    assert (streamed["path"], streamed["status"]) == (f"{API}/events/stream", 200)
    assert "private" not in str([str(one.msg) for one in caplog.records if one.name == "holdfast.service"])


async def test_at_other_levels_only_failures_leave_lines(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("odd")

    client = await service.as_role("viewer")
    monkeypatch.setattr("holdfast.client.Client.workflows", fail)
    with caplog.at_level(logging.INFO):
        assert (await client.get(f"{API}/jobs")).status_code == 200
        answer = await client.get(f"{API}/workflows", headers={"X-Request-Id": "mine-1"})
        assert (answer.status_code, answer.json()["request_id"]) == (500, "mine-1")
    assert lines(caplog, "request_answered") == []
    (failed,) = lines(caplog, "request_failed")
    assert (failed["request"], failed["path"]) == ("mine-1", f"{API}/workflows")
    assert caplog.text.count("RuntimeError: odd") == 1
