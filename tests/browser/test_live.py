"""Pages show what happens while they are open: jobs that begin and end, and a stream that was cut."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.flows import DONE, FAILING, HALF, WAITING, Gate
from tests.browser.looking import look
from tests.browser.reading import is_live, job_row, without_reload
from tests.browser.site import Site, Windows, new_key
from tests.running import client_of, serving
from tests.service.processes import api_process

pytestmark = pytest.mark.anyio


async def shows(page: Page, **numbers: int) -> None:
    """So many jobs of each status, as the overview counts them."""
    for status, number in numbers.items():
        await expect(page.get_by_role("link", name=f"{number} {status}", exact=True)).to_be_visible()


async def test_jobs_that_begin_and_end_appear_by_themselves(site: Site) -> None:
    overview, jobs = await site.visit("/"), await site.visit("/jobs")
    gate = Gate()
    async with without_reload(overview), without_reload(jobs), site.working(gate.handlers):
        await expect(overview.get_by_text("There is no job yet.")).to_be_visible()
        await expect(jobs.get_by_text("There is no job yet.")).to_be_visible()
        await is_live(overview)
        await is_live(jobs)

        done, failed, half, waiting = [await site.engine.submit(flow) for flow in (DONE, FAILING, HALF, WAITING)]
        await shows(overview, completed=1, failed=1, partial=1, running=1)
        await expect(job_row(jobs, done)).to_contain_text("completed")
        await expect(job_row(jobs, failed)).to_contain_text("failed")
        await expect(job_row(jobs, failed)).to_contain_text("no luck")
        await expect(job_row(jobs, half)).to_contain_text("partial · 1 task failed")
        await expect(job_row(jobs, waiting)).to_contain_text("running")
        concerns = overview.get_by_role("region", name="What needs a person")
        await expect(concerns).to_contain_text("failing")
        await expect(concerns).to_contain_text("half")
        await look(overview, "overview")
        await look(jobs, "jobs")

        gate.open()
        await expect(job_row(jobs, waiting)).to_contain_text("completed")
        await shows(overview, completed=2, running=0)


@pytest.mark.browser
async def test_jobs_that_come_above_move_neither_the_chosen_row_nor_what_is_in_view(site: Site) -> None:
    jobs = [await site.engine.submit(DONE, key=f"{number}") for number in range(60)]
    page = await site.visit("/jobs")
    await expect(job_row(page, jobs[-1])).to_be_visible()
    await is_live(page)
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    chosen = page.locator(".table-row.cursor")
    await expect(chosen).to_contain_text(jobs[-2][-8:])

    newest = await site.engine.submit(DONE, key="newest")
    await expect(job_row(page, newest)).to_be_visible()
    await expect(chosen).to_contain_text(jobs[-2][-8:])

    await page.locator(".table-body").evaluate("body => { body.scrollTop = 34 * 20; }")
    in_view = job_row(page, jobs[-25])
    await expect(in_view).to_be_in_viewport()
    place = await in_view.bounding_box()
    await site.engine.submit(DONE, key="newer than that")
    await expect(page.get_by_role("table", name="jobs")).to_have_attribute("aria-rowcount", "63")
    assert await in_view.bounding_box() == place


@pytest.mark.browser
async def test_a_stream_that_was_cut_says_so_and_comes_back_without_a_gap(
    database_url: str, windows: Windows, tmp_path: Path
) -> None:
    async with client_of(database_url) as engine, serving(database_url):
        key = await new_key(database_url, "viewer", tenant="default")
        before = await engine.submit(DONE)
        async with AsyncExitStack() as closing:
            process, url = await closing.enter_async_context(api_process(database_url, tmp_path))
            page = await windows.signed_in(url, key, "/jobs")
            await expect(job_row(page, before)).to_contain_text("completed")
            await is_live(page)
            with windows.watch.allowing("net::ERR_"):
                async with without_reload(page):
                    process.kill()
                    await expect(page.locator(".live")).to_contain_text("cut off")
                    # What was shown stays.
                    await expect(job_row(page, before)).to_contain_text("completed")
                    meanwhile = await engine.submit(FAILING)
                    await engine.finished(meanwhile)
                    same_port = url.rpartition(":")[2]
                    await closing.enter_async_context(api_process(database_url, tmp_path, HOLDFAST_PORT=same_port))
                    await is_live(page)
                    await expect(job_row(page, meanwhile)).to_contain_text("failed")
                await windows.close()
