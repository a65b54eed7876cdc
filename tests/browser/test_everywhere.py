"""What holds for every page: axe finds nothing serious, no width makes it scroll sideways, and nothing complains."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.flows import DONE, FAILING, HALF, WAITING, Gate
from tests.browser.looking import accessible, fits
from tests.browser.reading import places, settled
from tests.browser.site import Site

pytestmark = pytest.mark.anyio


async def test_axe_finds_nothing_on_the_pages_to_open_first(site: Site) -> None:
    gate = Gate()
    async with site.working(gate.handlers):
        for flow in (DONE, FAILING, HALF):
            await site.engine.finished(await site.engine.submit(flow))
        await site.engine.submit(WAITING)
        for path in ("/", "/jobs"):
            page = await site.visit(path)
            await settled(page)
            await accessible(page)
        gate.open()


@pytest.mark.browser
async def test_every_page_is_accessible_and_as_wide_as_its_window(site: Site) -> None:
    gate = Gate()
    async with site.working(gate.handlers):
        for flow in (DONE, FAILING, HALF):
            await site.engine.finished(await site.engine.submit(flow))
        await site.engine.submit(WAITING)
        page = await site.visit("/")
        for place in await places(page):
            await page.goto(place)
            await settled(page)
            await fits(page)
            await page.set_viewport_size({"width": 390, "height": 844})
            await accessible(page)
            await page.set_viewport_size({"width": 1280, "height": 900})
            await accessible(page)
        gate.open()


@pytest.mark.browser
async def test_every_page_without_any_data_is_accessible_too(site: Site) -> None:
    page = await site.visit("/")
    for place in await places(page):
        await page.goto(place)
        await settled(page)
        await accessible(page)


@pytest.mark.browser
async def test_the_page_of_a_visitor_without_a_key_is_accessible(site: Site) -> None:
    page = await site.windows.open(site.service.url)
    await page.goto("/")
    await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    await accessible(page)
    await fits(page)
