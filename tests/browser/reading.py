"""How tests read a page: rows of tables, places in the navigation, and whether it was loaded again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Locator, Page, expect

MARK = "isTheSamePage"


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


async def places(page: Page) -> list[str]:
    """The addresses of all pages that the navigation offers."""
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    await expect(links.first).to_be_attached()
    return [str(await link.get_attribute("href")) for link in await links.all()]


async def settled(page: Page) -> None:
    """The page shows what it has to say, not that it loads."""
    await expect(page.locator("#main").locator("h1, .empty-title").first).to_be_attached()
    await expect(page.locator(".loading")).to_have_count(0)
