"""How tests read pages: rows of tables, the links from one page to the next, and whether a page was loaded again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Locator, Page, expect

MARK = "isTheSamePage"
NO_PAGES = ("/api/", "/sign-in", "/openapi.json", "/metrics", "/stac")


@asynccontextmanager
async def without_reload(page: Page) -> AsyncIterator[None]:
    """What happens in the block must not load the page again."""
    await page.evaluate(f"window.{MARK} = true")
    yield
    assert await page.evaluate(f"window.{MARK}") is True, "the page was loaded again"


def job_row(page: Page, job_id: str) -> Locator:
    """The row of a job in the list; it shows the end of the id."""
    return page.get_by_role("row").filter(has_text=job_id[-8:])


def job_rows(page: Page) -> Locator:
    return page.get_by_role("table", name="jobs").get_by_role("row").filter(has=page.get_by_role("cell"))


async def is_live(page: Page) -> None:
    """The page follows the stream: what happens from now on appears by itself."""
    await expect(page.locator(".live")).to_contain_text("live")


async def every_page(page: Page) -> AsyncIterator[str]:
    """Opens one page of each kind, as far as links lead from the navigation, and yields its address."""
    waiting = await _links(page, "nav")
    seen: set[str] = set()
    while waiting:
        address = waiting.pop(0)
        if (kind := _kind(address)) in seen:
            continue
        seen.add(kind)
        await page.goto(address)
        await settled(page)
        yield address
        waiting += await _links(page, "#main")


async def _links(page: Page, within: str) -> list[str]:
    """The pages of ours that the links in a part of a page lead to."""
    found = await page.locator(f"{within} a[href^='/']").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    return [address for address in found if not address.startswith(NO_PAGES)]


def _kind(address: str) -> str:
    """What pages have in common whose addresses differ in ids, numbers and filters alone."""
    path = address.partition("?")[0]
    path = re.sub(r"^/(jobs|workflows)/[^/]+", r"/\1/ID", path)
    return re.sub(r"/nodes/[^/]+", "/nodes/NODE", re.sub(r"/-?\d+(?=/|$)", "/NUMBER", path))


async def settled(page: Page) -> None:
    """The page shows what it has to say, not that it loads."""
    await expect(page.locator("#main").locator("h1, .empty-title").first).to_be_attached()
    await expect(page.locator(".loading")).to_have_count(0)
