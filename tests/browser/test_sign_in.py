"""Signing in and out, with the link of `holdfast up` and with a key."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.reading import is_live
from tests.browser.site import Site, Windows
from tests.chaos.fleet import Process
from tests.conftest import eventually

pytestmark = pytest.mark.anyio
KEY = "hf_wrongkey_0123456789012345678901234567890123456789012"


@asynccontextmanager
async def up_process(url: str, scratch: Path) -> AsyncIterator[tuple[str, str]]:
    """`holdfast up`: the address of its service, and the link that it prints."""
    process = Process("up", url, scratch, {"HOLDFAST_API": "1", "HOLDFAST_PORT": "0"})

    async def link() -> re.Match[str] | None:
        assert process.is_alive, process.log.read_text()
        return re.search(r"(http://\S+?)/sign-in\?code=\S+", process.log.read_text())

    try:
        found = await eventually(link, 60)
        yield found[1], found[0]
    finally:
        process.kill()


async def test_the_link_of_up_opens_the_overview_once(database_url: str, windows: Windows, tmp_path: Path) -> None:
    async with up_process(database_url, tmp_path) as (url, link):
        page = await windows.open(url)
        await page.goto(link)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(f"{url}/")
        await expect(page.get_by_text("There is no job yet.")).to_be_visible()
        await is_live(page)

        second = await windows.open(url)
        with windows.watch.allowing("status of 401"):
            await second.goto(link)
            await second.get_by_role("button", name="Sign in").click()
            await expect(second.locator("body")).to_contain_text("This link works no more")
        await windows.close()


@pytest.mark.browser
async def test_a_visitor_signs_in_with_a_key_comes_back_to_the_page_and_signs_out(site: Site) -> None:
    page = await site.windows.open(site.service.url)
    await page.goto("/jobs?status=failed")
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("API key").fill(await site.service.key("viewer"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{site.service.url}/jobs?status=failed")
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    assert await page.context.cookies() == []


@pytest.mark.browser
async def test_a_wrong_key_opens_nothing(site: Site) -> None:
    page = await site.windows.open(site.service.url)
    with site.watch.allowing("status of 401"):
        await page.goto("/sign-in")
        await page.get_by_label("API key").fill(KEY)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("body")).to_contain_text("key")
    await page.goto("/")
    await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
