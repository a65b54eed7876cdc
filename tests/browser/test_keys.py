"""Everything without a mouse: finding, moving, opening, choosing, going to another page, and help."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.flows import DONE, FAILING
from tests.browser.reading import job_row, job_rows
from tests.browser.site import Site

pytestmark = pytest.mark.anyio


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_a_job_is_found_opened_and_left_with_the_keyboard_alone(site: Site) -> None:
    async with site.working():
        older = await site.engine.submit(DONE)
        newer = await site.engine.submit(FAILING)
        await site.engine.finished(older)
        await site.engine.finished(newer)
    page = await site.visit("/")
    await expect(page.get_by_role("link", name="1 completed", exact=True)).to_be_visible()
    await press(page, "g", "j")
    await expect(page).to_have_url(f"{site.service.url}/jobs")
    await expect(job_rows(page)).to_have_count(2)
    await press(page, "j")
    await expect(job_row(page, newer)).to_have_class("table-row cursor link")
    await press(page, "j")
    await expect(job_row(page, older)).to_have_class("table-row cursor link")
    await press(page, "k", "Enter")
    await expect(page).to_have_url(f"{site.service.url}/jobs/{newer}")
    await page.go_back()
    await expect(job_rows(page)).to_have_count(2)

    await press(page, "/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type(older)
    await press(page, "Enter")
    await expect(page).to_have_url(f"{site.service.url}/jobs/{older}")
    await press(page, "g", "o")
    await expect(page).to_have_url(f"{site.service.url}/")


@pytest.mark.browser
async def test_help_lists_the_keys_and_holds_the_others_back(site: Site) -> None:
    page = await site.visit("/jobs")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await press(page, "?")
    help_ = page.get_by_role("dialog", name="Keys")
    await expect(help_).to_contain_text("go to Overview")
    await press(page, "g", "o")
    await expect(page).to_have_url(f"{site.service.url}/jobs")
    await press(page, "Escape")
    await expect(help_).to_have_count(0)
    await press(page, "g", "o")
    await expect(page).to_have_url(f"{site.service.url}/")


@pytest.mark.browser
async def test_letters_that_somebody_types_are_no_commands(site: Site) -> None:
    page = await site.visit("/jobs")
    await press(page, "/")
    await page.keyboard.type("gojk?x")
    await expect(page.get_by_role("searchbox")).to_have_value("gojk?x")
    await expect(page).to_have_url(f"{site.service.url}/jobs")


@pytest.mark.browser
async def test_the_tab_key_reaches_every_place_of_the_navigation(site: Site) -> None:
    page = await site.visit("/")
    wanted = await page.get_by_role("navigation", name="Pages").get_by_role("link").all_inner_texts()
    await page.get_by_role("link", name="Holdfast").focus()
    reached: list[str] = []
    for _ in range(60):
        await press(page, "Tab")
        reached.append(await page.evaluate("document.activeElement.innerText ?? ''"))
    assert [text for text in reached if text in wanted][: len(wanted)] == wanted
