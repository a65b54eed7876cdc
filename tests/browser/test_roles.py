"""What a role may not do is neither shown nor accepted, and a tenant sees nothing of another."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.flows import FAILING
from tests.browser.reading import job_row, job_rows
from tests.browser.site import Site
from tests.service.serving import API

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
VERBS = ("Resume", "Correct", "Acknowledge", "Undo")


async def test_a_viewer_sees_no_button_that_changes_something(site: Site) -> None:
    async with site.working():
        job = await site.engine.submit(FAILING)
        await site.engine.finished(job)
        viewer = await site.visit(f"/jobs/{job}", "viewer", tenant="default")
        operator = await site.visit(f"/jobs/{job}", "operator", tenant="default")
        for name in VERBS:
            await expect(operator.get_by_role("button", name=name)).to_be_visible()
            await expect(viewer.get_by_role("button", name=name)).to_have_count(0)
        await expect(viewer.get_by_role("link", name="Keys and tenants")).to_have_count(0)

        # What the page does not offer, the service refuses.
        refused = await viewer.request.post(f"{API}/jobs/{job}/resume", data={}, headers={"Origin": site.service.url})
        assert refused.status == 403, await refused.text()
        await viewer.goto("/jobs")
        await expect(job_rows(viewer)).to_have_count(1)
        await expect(viewer.get_by_role("checkbox")).to_have_count(0)


async def test_a_tenant_sees_nothing_of_another_tenant(site: Site) -> None:
    await site.client("*").keep_tenant("second")
    async with site.working():
        job = await site.engine.submit(FAILING)
        await site.engine.finished(job)
        page = await site.visit("/jobs", "operator", tenant="second")
        await expect(page.get_by_text("There is no job yet.")).to_be_visible()
        with site.watch.allowing("status of 404"):
            await page.goto(f"/jobs/{job}")
            await expect(page.get_by_role("alert")).to_contain_text(f"There is no job '{job}'.")
        await expect(page.locator("#main")).not_to_contain_text("no luck")

        admin = await site.visit("/jobs")
        await expect(job_row(admin, job)).to_be_visible()
        await admin.get_by_label("Tenant").select_option("second")
        await expect(admin.get_by_text("There is no job yet.")).to_be_visible()
        await admin.get_by_label("Tenant").select_option("default")
        await expect(job_row(admin, job)).to_be_visible()
