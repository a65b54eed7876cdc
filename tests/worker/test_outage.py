"""The database goes out of reach while handlers run: they wait, and lose their attempt only with the lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.assembly import new_worker_over_http
from holdfast.define.registry import discover
from holdfast.settings import Settings
from tests import sources
from tests.chaos.proxy import BOTH, Proxy, port_of
from tests.conftest import eventually
from tests.marks import HTTP_IN_CHAOS
from tests.running import QUICK, SHORT_LEASES, Engine, client_of, serving, streams_kept
from tests.service.serving import serving_http

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_source")]

KINDS = ("saves_on_the_loop", "saves_in_a_thread", "saves_in_a_process")
NO_RETRY = """
workflow_id: saves
inputs: {{folder: {{type: string}}}}
nodes:
  work: {{handler: {handler}, params: {{folder: "{{{{ inputs.folder }}}}"}}, retry: {{max_retries: 0}}}}
"""


@asynccontextmanager
async def worker_behind_a_proxy(url: str, **settings: Any) -> AsyncIterator[tuple[Engine, Proxy]]:
    """Only the worker goes through the proxy, to Postgres or to the service; all others see Postgres all the time."""
    handlers = discover(["tests.worker.saving"])
    async with client_of(url) as engine, serving(url, work=False, **settings):
        if sources.kind == sources.DATABASE:
            port = port_of(url)
            async with Proxy(port) as proxy:
                proxied = url.replace(f":{port}/", f":{proxy.port}/")
                async with serving(proxied, handlers, orchestrate=False, **settings):
                    yield engine, proxy
            return
        async with serving_http(url) as api, Proxy(urlsplit(api.url).port or 0) as proxy:
            chosen = Settings(**(QUICK | settings))
            key = await api.key("worker")
            with streams_kept():
                async with new_worker_over_http(f"http://127.0.0.1:{proxy.port}", key, chosen, handlers):
                    yield engine, proxy


async def appears(file: Path) -> None:
    async def is_there() -> bool:
        return file.exists()

    await eventually(is_there)


def _is_of_half(message: str) -> bool:
    return message.startswith("checkpoint_waits: ") and "checkpoint=half" in message


async def a_checkpoint_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def is_logged() -> bool:
        return any(_is_of_half(message) for message in caplog.messages)

    await eventually(is_logged)


@pytest.mark.parametrize("handler", KINDS)
async def test_a_checkpoint_waits_for_a_database_that_is_away_for_less_than_the_lease(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, handler: str
) -> None:
    async with worker_behind_a_proxy(database_url) as (engine, proxy):
        job_id = await engine.submit(NO_RETRY.format(handler=handler), {"folder": str(tmp_path)})
        await appears(tmp_path / "begun_1")
        proxy.refuse()
        (tmp_path / "go").touch()
        await a_checkpoint_waits(caplog)
        assert not (tmp_path / "saved_1").exists()
        proxy.heal()
        status = await engine.finished(job_id)
        saved = await engine.query("select name, data from holdfast.checkpoints")
    assert (status["status"], status["result"]) == ("completed", 1)
    assert saved == [("half", {"way": 1})]


@HTTP_IN_CHAOS
@pytest.mark.parametrize("handler", KINDS)
async def test_a_checkpoint_that_waits_until_the_lease_is_over_is_lost_and_no_retry_is_spent(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, handler: str
) -> None:
    async with worker_behind_a_proxy(database_url, **SHORT_LEASES) as (engine, proxy):
        job_id = await engine.submit(NO_RETRY.format(handler=handler), {"folder": str(tmp_path)})
        await appears(tmp_path / "begun_1")
        proxy.refuse()
        (tmp_path / "go").touch()
        await a_checkpoint_waits(caplog)

        async def lost() -> bool:
            return bool(await engine.query("select 1 from holdfast.tasks where lost_count = 1"))

        await eventually(lost)
        if handler == "saves_in_a_thread":
            await appears(tmp_path / "lost_1")
        proxy.heal()
        status = await engine.finished(job_id)
        counts = await engine.query("select retry_count, lost_count, crash_count from holdfast.tasks")
    assert (status["status"], status["result"]) == ("completed", 2)
    assert counts == [(0, 1, 0)]
    assert not (tmp_path / "saved_1").exists()


async def test_files_and_large_outputs_wait_while_the_service_restarts_and_no_retry_is_spent(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A regression: over HTTP, an attempt failed that met a service which was away for a moment."""
    async with worker_behind_a_proxy(database_url) as (engine, proxy):
        job_id = await engine.submit(NO_RETRY.format(handler="stores_much"), {"folder": str(tmp_path)})
        await appears(tmp_path / "begun_1")
        proxy.refuse()
        (tmp_path / "go").touch()

        async def waits() -> bool:
            return any(message.startswith("payload_unavailable: ") for message in caplog.messages)

        if sources.kind == sources.HTTP:
            await eventually(waits)
        proxy.heal()
        status = await engine.finished(job_id)
        (file,) = await engine.client.artifacts(job_id)
    assert (status["status"], status["result"]) == ("completed", "x" * 300_000)
    assert file.name == "map.txt"


@HTTP_IN_CHAOS
async def test_a_thread_that_saves_into_a_silent_network_is_free_when_the_lease_is_over(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_behind_a_proxy(database_url, **SHORT_LEASES) as (engine, proxy):
        job_id = await engine.submit(NO_RETRY.format(handler="saves_in_a_thread"), {"folder": str(tmp_path)})
        await appears(tmp_path / "begun_1")
        proxy.hold(*BOTH)
        (tmp_path / "go").touch()
        await appears(tmp_path / "lost_1")
        waits = [message for message in caplog.messages if _is_of_half(message)]
        assert waits
        assert not any("no answer within" in message for message in waits), "the lease was over long before"
        proxy.heal()
        assert (await engine.finished(job_id))["result"] == 2
