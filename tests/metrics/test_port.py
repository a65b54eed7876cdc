"""The port of metrics of services without the HTTP service: what it answers, and what it does not put up with."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from holdfast.assembly import serving_metrics
from holdfast.errors import Unusable
from holdfast.log_events import Line
from holdfast.meters import Meters
from holdfast.metrics_port import CONNECTIONS
from holdfast.settings import Settings
from tests.metrics.scraping import Scrape
from tests.running import HOME, registry, serving

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def port_of(url: str, port: int = 0) -> AsyncIterator[str]:
    async with serving(url, registry()) as services:
        settings = Settings(database_url=url, home=HOME, metrics_port=port)
        async with serving_metrics(url, settings, services.meters, lambda: services.are_ready) as metrics:
            assert metrics is not None
            yield metrics.url


async def test_the_port_answers_metrics_and_questions_of_life(database_url: str) -> None:
    async with port_of(database_url) as url, httpx2.AsyncClient(base_url=url) as client:
        page = Scrape((await client.get("/metrics")).text)
        assert page.value("holdfast_database_up") == 1
        assert page.value("holdfast_workers") == 1
        assert {labels["pool"] for labels, _ in page.of("holdfast_readers")} >= {"orchestrator", "janitor", "worker"}
        for path, text in (("/livez", "alive\n"), ("/readyz", "ready\n")):
            answer = await client.get(path)
            assert (answer.status_code, answer.text) == (200, text)
        head = await client.head("/metrics")
        assert (head.status_code, head.content) == (200, b"")
        assert (await client.get("/else")).status_code == 404
        refused = await client.post("/metrics")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_a_worker_that_has_not_registered_is_alive_and_not_ready(database_url: str) -> None:
    from holdfast.assembly import new_services

    settings = Settings(database_url=database_url, home=HOME, metrics_port=0)
    services = new_services(database_url, settings, registry=registry(), orchestrate=False)
    async with serving_metrics(database_url, settings, services.meters, lambda: services.are_ready) as metrics:
        assert metrics is not None
        async with httpx2.AsyncClient(base_url=metrics.url) as client:
            assert (await client.get("/livez")).status_code == 200
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.text) == (503, "The services have not begun their work.\n")


async def test_a_process_without_a_database_shows_what_it_has_counted() -> None:
    meters = Meters()
    meters.count("attempts", "completed", "")
    async with serving_metrics(None, Settings(home=HOME, metrics_port=0), meters) as metrics:
        assert metrics is not None
        async with httpx2.AsyncClient(base_url=metrics.url) as client:
            page = Scrape((await client.get("/metrics")).text)
            assert page.value("holdfast_attempts_total", outcome="completed", code="") == 1
            assert "holdfast_database_up" not in page.names
            assert (await client.get("/readyz")).status_code == 200


async def test_without_its_database_a_process_is_alive_and_not_ready_and_shows_its_counters() -> None:
    meters = Meters()
    meters.count("attempts", "completed", "")
    nowhere = "postgresql://someone@127.0.0.1:1/none"
    async with serving_metrics(nowhere, Settings(home=HOME, metrics_port=0), meters) as metrics:
        assert metrics is not None
        async with httpx2.AsyncClient(base_url=metrics.url) as client:
            assert (await client.get("/livez")).status_code == 200
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.text) == (503, "The database does not answer.\n")
            page = Scrape((await client.get("/metrics")).text)
    assert page.value("holdfast_database_up") == 0
    assert page.value("holdfast_attempts_total", outcome="completed", code="") == 1
    assert "holdfast_workers" not in page.names


async def test_figures_that_cannot_be_read_are_an_answer_and_a_line_of_the_log(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=HOME, metrics_port=0)
    async with serving_metrics(empty_database_url, settings, Meters()) as metrics:
        assert metrics is not None
        async with httpx2.AsyncClient(base_url=metrics.url) as client:
            for path in ("/metrics", "/readyz"):
                answer = await client.get(path)
                assert (answer.status_code, answer.text) == (500, "The figures of the database cannot be read.\n")
            assert (await client.get("/livez")).status_code == 200
    lines = [one for one in caplog.records if isinstance(one.msg, Line) and one.msg.event == "metrics_failed"]
    assert len(lines) == 2
    assert all(one.exc_info is not None and "does not exist" in str(one.exc_info[1]) for one in lines)


async def test_a_connection_that_says_nothing_or_nonsense_holds_up_no_other(database_url: str) -> None:
    async with port_of(database_url) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(CONNECTIONS - 1)]
        async with httpx2.AsyncClient(base_url=url) as client:
            assert (await client.get("/livez")).status_code == 200
        for _, writer in silent:
            writer.close()
        for nonsense in (b"\x00\xff" * 10_000, b"GET\r\n\r\n", b"\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(nonsense)
            answer = await reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 404")
            writer.close()


async def test_a_port_that_is_taken_is_refused_in_words(database_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unusable) as refusal:
            async with port_of(database_url, port):
                pass
        assert f"127.0.0.1:{port}" in str(refusal.value)
