"""Markup and script in everything that comes from outside stays text, on every page."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from holdfast.define.load import load_text
from tests.browser.flows import MARKUP, SCRIPTED, talking
from tests.browser.reading import job_row, places, settled
from tests.browser.site import Site

pytestmark = pytest.mark.anyio


async def stays_text(page: Page) -> None:
    """Nothing of the markup became an element, and no script of it ran. The watch sees violations of the policy."""
    await settled(page)
    assert await page.evaluate("window.wasRun") is None, page.url
    assert await page.locator("img[src=x], body script").count() == 0, page.url


async def submitted(site: Site) -> str:
    client = site.client("default")
    made = await client.submit(
        load_text(SCRIPTED),
        {"text": f"given {MARKUP}"},
        labels={"label": MARKUP},
        key=f"key {MARKUP}",
        correlation_id=f"correlation {MARKUP}",
    )
    await site.engine.finished(made.job_id)
    return made.job_id


async def test_markup_in_a_job_stays_text_in_the_lists_that_show_it(site: Site) -> None:
    async with site.working(talking()):
        job_id = await submitted(site)
    page = await site.visit("/")
    await expect(page.get_by_role("region", name="What needs a person")).to_contain_text(f"refused given {MARKUP}")
    await stays_text(page)
    await page.goto("/jobs")
    await expect(job_row(page, job_id)).to_contain_text(f"refused given {MARKUP}")
    await expect(job_row(page, job_id)).to_contain_text(f"label={MARKUP}")
    await stays_text(page)


@pytest.mark.browser
async def test_markup_stays_text_on_every_page_of_the_navigation(site: Site) -> None:
    async with site.working(talking()):
        await submitted(site)
    await site.client("default").add_key(f"key {MARKUP}"[:60], roles=["viewer"])
    page = await site.visit("/")
    for place in await places(page):
        await page.goto(place)
        await stays_text(page)
