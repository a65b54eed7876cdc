"""A node with 100,000 items is scrolled to its end: the time of its frames is printed, what it draws is bounded."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.flows import Gate
from tests.browser.site import Site

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
ITEMS = 100_000
MOST_ELEMENTS = 2_000
LARGE = """
workflow_id: large
nodes:
  list: {handler: numbers, params: {count: 100000}, next: each}
  each:
    type: fan_out
    source: "{{ nodes.list.output }}"
    task: {handler: wait_for_test, concurrency: {limit: 1}}
"""
SCROLL = """
async (body) => {
  const longest = [0];
  new PerformanceObserver((list) => longest.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask" });
  const frames = [];
  let elements = 0;
  const steps = 400;
  for (let step = 0; step <= steps; step += 1) {
    const before = performance.now();
    body.scrollTop = ((body.scrollHeight - body.clientHeight) * step) / steps;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - before);
    elements = Math.max(elements, document.querySelectorAll("*").length);
  }
  frames.sort((one, other) => one - other);
  return { p95: frames[Math.floor(0.95 * frames.length)], longest: Math.max(...longest), elements };
}
"""


async def test_a_hundred_thousand_items_scroll_with_few_elements(site: Site) -> None:
    gate = Gate()
    async with site.working(gate.handlers):
        job = await site.engine.submit(LARGE)
        page = await site.visit(f"/jobs/{job}")
        await expect(page.locator("#main header")).to_contain_text("of 100,001 tasks completed", timeout=120_000)
        await page.goto(f"/jobs/{job}/nodes/each")
        await expect(page.get_by_role("heading", name="100,000 items")).to_be_visible()
        measured = await page.get_by_label("Rows of items").evaluate(SCROLL)
        await expect(page.get_by_role("row").filter(has_text="99,999")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="99,999")).to_contain_text("ready")
        print(
            f"{ITEMS:,} items: 95 % of the frames within {measured['p95']:.0f} ms, "
            f"longest task {measured['longest']:.0f} ms, {measured['elements']} elements"
        )
        assert measured["elements"] <= MOST_ELEMENTS
        await site.client("default").cancel(job)
        gate.open()
