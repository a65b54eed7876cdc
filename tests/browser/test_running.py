"""Jobs that run while somebody watches: sent by a form, a worker that dies, a dependency that is down, a slow line."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from holdfast.define.load import load_text
from holdfast.define.registry import Registry
from holdfast.errors import Transient
from tests.browser.flows import DONE, ITEMS, Fragile
from tests.browser.looking import look
from tests.browser.reading import is_live, job_row, without_reload
from tests.browser.site import Site
from tests.chaos.fleet import Fleet
from tests.running import registry

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
NAP = """
workflow_id: nap
nodes: {rest: {handler: sleep, params: {duration_seconds: 4}}}
"""
LETTERS = """
workflow_id: letters
breakers: {gateway: {window_calls: 4, min_calls: 4, failure_share: 0.5, cooldown_seconds: 0.5}}
nodes:
  send:
    type: fan_out
    source: "{{ [1, 2, 3, 4, 5, 6, 7, 8] }}"
    task: {handler: send, breaker: gateway, retry: {max_retries: 5, backoff: fixed, initial_delay_seconds: 0.1}}
"""
SLOW_SECONDS = 1.5


class Gateway:
    """A handler that needs a service, which is down until the test says otherwise."""

    def __init__(self) -> None:
        self.is_up = False

    @property
    def handlers(self) -> Registry:
        def send() -> str:
            if not self.is_up:
                raise Transient("the gateway does not answer", "GATEWAY_DOWN")
            return "sent"

        return registry(send=send)


async def test_a_form_made_from_the_inputs_submits_a_job_that_is_watched_to_its_end(site: Site) -> None:
    fragile = Fragile()
    fragile.is_mended = True
    await site.client("default").register(load_text(ITEMS))
    async with site.working(fragile.handlers):
        page = await site.visit("/workflows/items/submit")
        numbers = page.get_by_label("numbers")
        send = page.get_by_role("button", name="Submit", exact=True)
        await numbers.fill("[1, 2")
        await expect(send).to_be_disabled()
        await numbers.fill("[3, 6, 9]")
        await expect(page.locator("#main")).to_contain_text("holdfast submit items --input 'numbers=[3,6,9]'")
        async with without_reload(page):
            await send.click()
            await expect(page.get_by_text("A new job was made.")).to_be_visible()
            await page.get_by_role("button", name="Open the job").click()
            await expect(page.locator("#main header .badge").first).to_contain_text("completed")
            await expect(page.locator("#main header")).to_contain_text("3 of 3 tasks completed")


async def test_a_worker_is_killed_and_the_page_shows_the_second_attempt(site: Site, tmp_path: Path) -> None:
    fleet = Fleet(site.engine.url, tmp_path)
    try:
        _, worker = await fleet.up("orchestrator", "worker")
        job = await site.engine.submit(NAP)
        page = await site.visit(f"/jobs/{job}/nodes/rest")
        stands = page.get_by_label("How it stands").locator(".badge").first
        async with without_reload(page):
            await expect(stands).to_contain_text("running")
            worker.kill()
            fleet.replace_the_dead()
            await expect(stands).to_contain_text("attempt 2", timeout=60_000)
            await expect(stands).to_contain_text("completed", timeout=60_000)
            await expect(page.get_by_role("region", name="Attempts")).to_contain_text("Attempt 1: lost")
    finally:
        fleet.end()


async def test_a_breaker_opens_and_closes_before_the_eyes(site: Site) -> None:
    gateway = Gateway()
    page = await site.visit("/")
    async with without_reload(page), site.working(gateway.handlers):
        job = await site.engine.submit(LETTERS)
        await expect(page.get_by_text("gateway is down.")).to_be_visible()
        await look(page, "breaker-open")
        gateway.is_up = True
        await expect(page.get_by_text("gateway is down.")).to_have_count(0)
        await site.engine.finished(job)
        await expect(page.get_by_role("link", name="1 completed", exact=True)).to_be_visible()


async def test_a_slow_line_delays_the_page_and_loses_nothing(site: Site) -> None:
    page = await site.visit("/jobs")
    await is_live(page)

    async def dawdle(route: Route) -> None:
        await page.wait_for_timeout(1000 * SLOW_SECONDS)
        await route.continue_()

    await page.route("**/api/v1/jobs?**", dawdle)
    async with site.working():
        jobs = [await site.engine.submit(DONE, key=f"{number}") for number in range(5)]
        for job in jobs:
            await expect(job_row(page, job)).to_contain_text("completed")
    await page.unroute_all(behavior="wait")
