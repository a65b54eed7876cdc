"""The filters of the list of jobs are in the address: they can be sent, loaded again and gone back through."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.flows import DONE, FAILING, HALF
from tests.browser.reading import job_row, job_rows
from tests.browser.site import Site

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_a_filter_survives_a_reload_and_the_back_button(site: Site) -> None:
    async with site.working():
        done, failed, half = [await site.engine.submit(flow) for flow in (DONE, FAILING, HALF)]
        for job in (done, failed, half):
            await site.engine.finished(job)
    page = await site.visit("/jobs")
    await expect(job_rows(page)).to_have_count(3)
    failing, partial = (page.get_by_role("button", name=name, exact=True) for name in ("failed", "partial"))

    await failing.click()
    await expect(job_rows(page)).to_have_count(1)
    await expect(job_row(page, failed)).to_be_visible()
    await expect(page).to_have_url(f"{site.service.url}/jobs?status=failed")
    await partial.click()
    await expect(job_rows(page)).to_have_count(2)

    await page.reload()
    await expect(job_rows(page)).to_have_count(2)
    await expect(failing).to_have_attribute("aria-pressed", "true")
    await expect(partial).to_have_attribute("aria-pressed", "true")

    await page.go_back()
    await expect(partial).to_have_attribute("aria-pressed", "false")
    await expect(job_rows(page)).to_have_count(1)
    await page.go_back()
    await expect(job_rows(page)).to_have_count(3)
    await page.go_forward()
    await expect(job_rows(page)).to_have_count(1)


async def test_an_address_with_filters_shows_them_in_their_fields(site: Site) -> None:
    async with site.working():
        await site.engine.finished(await site.engine.submit(DONE))
    page = await site.visit("/jobs?workflow=done&text=done")
    await expect(job_rows(page)).to_have_count(1)
    await expect(page.get_by_label("Workflow", exact=True)).to_have_value("done")
    await page.get_by_label("Workflow", exact=True).fill("other")
    await page.get_by_label("Workflow", exact=True).press("Enter")
    await expect(page.get_by_text("No job is like this.")).to_be_visible()
    await page.get_by_role("button", name="Remove all filters").click()
    await expect(job_rows(page)).to_have_count(1)
    await expect(page).to_have_url(f"{site.service.url}/jobs")
