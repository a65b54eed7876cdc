"""What holds for every page: axe finds nothing serious, no width makes it scroll sideways, and markup stays text."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from holdfast.define.load import load_text
from tests.browser.flows import DONE, FAILING, HALF, ITEMS, MARKUP, SCRIPTED, WAITING, Fragile, Gate, talking
from tests.browser.looking import NARROW, WIDE, barriers, sideways
from tests.browser.reading import every_page, job_row, settled
from tests.browser.site import Site

pytestmark = pytest.mark.anyio
FEWEST_KINDS = 20
"""A walk that finds fewer kinds of pages has lost its way."""


async def test_axe_finds_nothing_on_the_pages_to_open_first(site: Site) -> None:
    gate = Gate()
    async with site.working(gate.handlers):
        for flow in (DONE, FAILING, HALF):
            await site.engine.finished(await site.engine.submit(flow))
        await site.engine.submit(WAITING)
        for path in ("/", "/jobs"):
            page = await site.visit(path)
            await settled(page)
            assert not (found := await barriers(page)), "\n".join(found)
        gate.open()


async def registered(site: Site, *flows: str) -> None:
    for flow in flows:
        await site.client("default").register(load_text(flow))


@pytest.mark.browser
async def test_every_page_is_accessible_and_as_wide_as_its_window(site: Site) -> None:
    found: list[str] = []
    kinds = 0
    async with site.working(Fragile().handlers):
        await registered(site, DONE, ITEMS)
        for flow in (DONE, FAILING, HALF, ITEMS):
            await site.engine.finished(await site.engine.submit(flow))
        page = await site.visit("/")
        async for _ in every_page(page):
            kinds += 1
            found += await sideways(page)
            for size in (NARROW, WIDE):
                await page.set_viewport_size(size)
                found += await barriers(page)
    assert not found, "\n".join(found)
    assert kinds >= FEWEST_KINDS


@pytest.mark.browser
async def test_every_page_of_a_new_installation_is_accessible(site: Site) -> None:
    page = await site.visit("/")
    found: list[str] = []
    async for _ in every_page(page):
        found += await barriers(page)
    assert not found, "\n".join(found)


@pytest.mark.browser
async def test_the_page_of_a_visitor_without_a_key_is_accessible(site: Site) -> None:
    page = await site.windows.open(site.service.url)
    await page.goto("/")
    await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    assert not (found := await barriers(page) + await sideways(page)), "\n".join(found)


async def stays_text(page: Page) -> None:
    """Nothing of the markup became an element, and no script of it ran. The watch sees violations of the policy."""
    assert await page.evaluate("window.wasRun") is None, page.url
    assert await page.locator("img[src=x], body script").count() == 0, page.url


async def scripted(site: Site) -> str:
    """A job with markup wherever people and handlers can write."""
    made = await site.client("default").submit(
        load_text(SCRIPTED),
        {"text": f"given {MARKUP}"},
        labels={"label": MARKUP},
        key=f"key {MARKUP}",
        correlation_id=f"correlation {MARKUP}",
    )
    await site.engine.finished(made.job_id)
    return made.job_id


async def test_markup_stays_text_in_the_lists_of_jobs(site: Site) -> None:
    async with site.working(talking()):
        job_id = await scripted(site)
    page = await site.visit("/")
    await expect(page.get_by_role("region", name="What needs a person")).to_contain_text(f"refused given {MARKUP}")
    await stays_text(page)
    await page.goto("/jobs")
    await expect(job_row(page, job_id)).to_contain_text(f"refused given {MARKUP}")
    await expect(job_row(page, job_id)).to_contain_text(f"label={MARKUP}")
    await stays_text(page)


@pytest.mark.browser
async def test_markup_stays_text_on_every_page(site: Site) -> None:
    found = 0
    shown: set[str] = set()
    async with site.working(talking()):
        await registered(site, SCRIPTED)
        job_id = await scripted(site)
        await site.client("default").acknowledge(job_id, reason=f"reason {MARKUP}")
        await site.client("default").add_key(f"key {MARKUP}"[:60], roles=["viewer"])
        page = await site.visit("/")

        async def look_at_it() -> None:
            await settled(page)
            await stays_text(page)
            text = await page.locator("#main").inner_text()
            shown.update(word for word in WRITTEN if f"{word} {MARKUP}" in text)

        async for _ in every_page(page):
            found += 1
            await look_at_it()
        for task in ("first", "each/0", "last", "refuse"):
            await page.goto(f"/jobs/{job_id}/nodes/{task}")
            await look_at_it()
    assert found >= FEWEST_KINDS
    assert shown == set(WRITTEN), "the test sees these nowhere: " + ", ".join(set(WRITTEN) - shown)


WRITTEN = ("name", "description", "given", "printed given", "logged given", "refused given", "reason", "node")
"""What comes before the markup in each place."""
