"""What people see, and what people with other senses get: screenshots on request, and what axe finds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page, ViewportSize

from tests.browser import chromium

FOLDER = "SHOTS"
"""The variable of the environment that asks for screenshots."""
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTHS = (390, 1280, 2560)
NARROW: ViewportSize = {"width": 390, "height": 844}
WIDE: ViewportSize = {"width": 1280, "height": 900}
GRAVE = ("serious", "critical")
SHOWN_PLACES = 5


async def look(page: Page, name: str, widths: Sequence[int] = WIDTHS, themes: Sequence[Theme] = THEMES) -> None:
    """Screenshots of the whole page, if the environment asks for them; the window is then as it was."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    before = page.viewport_size
    for theme in themes:
        await page.emulate_media(color_scheme=theme)
        for width in widths:
            await page.set_viewport_size({"width": width, "height": 844 if width < 500 else 900})
            await page.screenshot(
                path=Path(folder) / f"{name}-{width}-{theme}.png", full_page=True, animations="disabled"
            )
    await page.emulate_media(color_scheme="null")
    if before is not None:
        await page.set_viewport_size(before)


async def sideways(page: Page, widths: Sequence[int] = WIDTHS) -> list[str]:
    """The widths of a window in which the page is wider than it."""
    found: list[str] = []
    for width in widths:
        await page.set_viewport_size({"width": width, "height": 900})
        wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wider > 0:
            found.append(f"{page.url} is {wider} px wider than a window of {width} px")
    return found


async def barriers(page: Page, themes: Sequence[Theme] = THEMES) -> list[str]:
    """What axe finds on the page that is serious, in each theme."""
    try:
        source = chromium.axe()
    except chromium.NoBrowser as reason:
        pytest.skip(f"NOT TESTED: whether axe finds something on the pages: {reason}")
    await page.evaluate(source)
    found: list[str] = []
    for theme in themes:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        answer = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        for one in answer["violations"]:
            if one["impact"] in GRAVE:
                places = [f"    {node['html'][:200]}" for node in one["nodes"][:SHOWN_PLACES]]
                head = f"{page.url}, {theme}, {one['impact']}: {one['id']}: {one['help']}"
                found.append("\n".join([head, *places]))
    return found
