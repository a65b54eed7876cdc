"""What people see, and what people with other senses get: screenshots on request, and what axe finds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page

from tests.browser import chromium

FOLDER = "SHOTS"
"""The variable of the environment that asks for screenshots."""
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTHS = (390, 1280, 2560)
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


async def fits(page: Page, widths: Sequence[int] = WIDTHS) -> None:
    """The page is as wide as its window: there is no scrolling sideways."""
    for width in widths:
        await page.set_viewport_size({"width": width, "height": 900})
        wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"at {width} px the page is {wider} px wider than its window"


async def accessible(page: Page, themes: Sequence[Theme] = THEMES) -> None:
    """Axe finds nothing serious on the page, in any theme."""
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
                found.append("\n".join([f"{theme}, {one['impact']}: {one['id']}: {one['help']}", *places]))
    assert not found, "axe finds on " + page.url + ":\n" + "\n".join(found)
