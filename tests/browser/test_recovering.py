"""Recovering by buttons: a whole job, a group of failures, one item, many jobs, other inputs, other params, an undo."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.flows import ITEMS, Fragile
from tests.browser.looking import look
from tests.browser.reading import job_rows, without_reload
from tests.browser.site import Site

pytestmark = pytest.mark.anyio
NUMBERED = """
workflow_id: numbered
inputs: {number: {type: integer}}
nodes:
  main: {handler: echo, next: check}
  check: {handler: fragile, params: {number: "{{ inputs.number }}"}, retry: {max_retries: 0}, compensate: take_back}
"""


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


async def do_it(page: Page, reason: str = "") -> None:
    """Confirm the plan that a dialog shows, and close it when it is done."""
    if reason:
        await dialog(page).get_by_label("Reason").fill(reason)
    confirmation = dialog(page).get_by_role("checkbox")
    await expect(dialog(page).get_by_role("button", name="Leave it")).to_be_visible()
    await expect(dialog(page).locator(".plan-summary")).to_be_visible()
    if await confirmation.count():
        await confirmation.check()
    await dialog(page).get_by_role("button", name="Do it").click()
    await expect(dialog(page)).to_contain_text("Done: the owner of the job has applied it.")
    await dialog(page).get_by_role("button", name="Close", exact=True).last.click()
    await expect(dialog(page)).to_have_count(0)


async def stands(page: Page, status: str) -> None:
    """The head of the page shows this status."""
    await expect(page.locator("#main header .badge").first).to_contain_text(status)


async def test_a_failed_job_is_resumed_with_a_plan_and_completes_before_the_eyes(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        job = await site.engine.submit(NUMBERED, {"number": 1})
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}")
        banner = page.get_by_role("region", name="What is missing")
        await expect(banner).to_contain_text("ODD_NUMBER in check: number 1 is odd")
        await expect(banner).to_contain_text("Kept: 1 completed task in main.")
        await look(page, "job-failed")
        fragile.is_mended = True
        async with without_reload(page):
            await page.get_by_role("button", name="Resume").click()
            await expect(dialog(page)).to_contain_text("1 task stays, 1 task runs.")
            await expect(dialog(page)).to_contain_text(f"holdfast resume {job}")
            await look(page, "plan")
            await do_it(page, "the handler is mended")
            await stands(page, "completed")
            await expect(banner).to_have_count(0)
            await page.get_by_role("link", name="History").click()
            await expect(page.locator("#main")).to_contain_text("the handler is mended")


@pytest.mark.browser
async def test_a_group_of_failures_is_retried_and_the_others_stay(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        job = await site.engine.submit(ITEMS)
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}/nodes/each")
        groups = (
            page.get_by_role("region", name="What failed").get_by_role("row").filter(has=page.get_by_role("button"))
        )
        await expect(groups).to_have_count(2)
        await look(page, "failures")
        fragile.is_mended = True
        odd = groups.filter(has_text="ODD_NUMBER")
        await odd.get_by_role("button", name="Retry these 2").click()
        await do_it(page)
        await expect(groups).to_have_count(1)
        await expect(groups).to_contain_text("FILE_MISSING")
        await expect(page.locator("#main header")).to_contain_text("4 of 6 items completed, 2 failed")


@pytest.mark.browser
async def test_one_item_is_retried_from_its_own_page(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        job = await site.engine.submit(ITEMS)
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}/nodes/each/0")
        await expect(page.get_by_label("The error", exact=True)).to_contain_text("number 1 is odd")
        fragile.is_mended = True
        await page.get_by_role("button", name="Retry this item").click()
        await do_it(page)
        await expect(page.get_by_label("How it stands").locator(".badge").first).to_contain_text("completed")
        tasks = await site.engine.client.tasks(job, node="each")
    assert [task.status for task in tasks][:2] == ["completed", "failed"]


@pytest.mark.browser
async def test_an_item_runs_again_with_params_that_a_person_corrects(site: Site) -> None:
    async with site.working(Fragile().handlers):
        job = await site.engine.submit(ITEMS)
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}/nodes/each/0")
        await page.get_by_role("button", name="With other params").click()
        await dialog(page).get_by_label("Params, as JSON").fill('{"number": 3}')
        await dialog(page).get_by_role("button", name="Show the plan").click()
        await do_it(page, "it was a slip")
        await expect(page.get_by_label("How it stands").locator(".badge").first).to_contain_text("completed")
        await expect(page.get_by_role("region", name="Params")).to_contain_text("A person gave these params.")


@pytest.mark.browser
async def test_a_job_is_resumed_with_other_inputs(site: Site) -> None:
    async with site.working(Fragile().handlers):
        job = await site.engine.submit(NUMBERED, {"number": 1})
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}")
        await page.get_by_role("button", name="Correct").click()
        show = dialog(page).get_by_role("button", name="Show the plan")
        await expect(dialog(page)).to_contain_text("Nothing differs from the inputs of the job.")
        await expect(show).to_be_disabled()
        await dialog(page).get_by_label("Inputs, as JSON").fill('{"number": 3}')
        await show.click()
        await do_it(page, "it was the wrong number")
        await stands(page, "completed")
        await expect(page.locator("#main")).to_contain_text("Corrected in generation 2")


@pytest.mark.browser
async def test_what_a_job_has_done_is_undone_after_a_confirmation(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        job = await site.engine.submit(NUMBERED, {"number": 3})
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}")
        await page.get_by_role("button", name="Undo").click()
        await expect(dialog(page).get_by_role("button", name="Do it")).to_be_disabled()
        await do_it(page, "it was ordered twice")
        await stands(page, "cancelled · undone")
        await page.goto(f"/jobs/{job}/nodes/check")
        await expect(page.locator("#main header")).to_contain_text("Undone: 1 task")
    assert fragile.taken_back == [3]


@pytest.mark.browser
async def test_many_jobs_are_chosen_with_the_keyboard_and_resumed_together(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        for number in (1, 2, 4):
            await site.engine.finished(await site.engine.submit(NUMBERED, {"number": number}))
        await site.engine.finished(await site.engine.submit(NUMBERED, {"number": 3}))
        page = await site.visit("/jobs?status=failed")
        await expect(job_rows(page)).to_have_count(3)
        for key in "jxjxjx":
            await page.keyboard.press(key)
        chosen = page.get_by_role("region", name="Chosen jobs")
        await expect(chosen).to_contain_text("3 jobs chosen")
        fragile.is_mended = True
        await chosen.get_by_role("button", name="Resume").click()
        await expect(dialog(page)).to_contain_text("3 jobs can be changed: 3 tasks in all.")
        await dialog(page).get_by_role("button", name="Do it for 3 jobs").click()
        await expect(dialog(page).get_by_text("✓ Done")).to_have_count(3)
        await dialog(page).get_by_role("button", name="Close", exact=True).last.click()
        await expect(page.get_by_text("No job is like this.")).to_be_visible()


@pytest.mark.browser
async def test_a_plan_is_refused_when_the_job_has_moved_and_a_new_one_is_offered(site: Site) -> None:
    fragile = Fragile()
    async with site.working(fragile.handlers):
        job = await site.engine.submit(NUMBERED, {"number": 1})
        await site.engine.finished(job)
        page = await site.visit(f"/jobs/{job}")
        await page.get_by_role("button", name="Resume").click()
        await expect(dialog(page)).to_contain_text("1 task stays, 1 task runs.")
        other = await site.visit(f"/jobs/{job}")
        await other.get_by_role("button", name="Resume").click()
        await do_it(other)
        await site.engine.finished(job)
        with site.watch.allowing("status of 409"):
            await dialog(page).get_by_role("button", name="Do it").click()
            await expect(dialog(page)).to_contain_text("The job may have moved on since the plan was made.")
        fragile.is_mended = True
        await dialog(page).get_by_role("button", name="Make a new plan").click()
        await do_it(page)
        await stands(page, "completed")
