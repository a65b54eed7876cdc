"""The web UI in a real Chromium, on a real service with a real Postgres. `make browser` runs all of it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.browser import chromium
from tests.browser.chromium import Chromium, NoBrowser
from tests.browser.site import SECONDS, Site, Windows, site_of

ROOT = Path(__file__).parent.parent.parent
UI = ROOT / "src" / "holdfast" / "_ui" / "index.html"
_HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_HAS_FAILED] = report.failed
    return report


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """One event loop for all tests of this package, as they share a browser."""
    return "asyncio"


@pytest.fixture(scope="session")
def built_ui() -> None:
    """The UI of these sources."""
    with (Path(sys.prefix) / "ui.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([sys.executable, ROOT / "scripts" / "ui", "build"], check=True, capture_output=True)
    if not UI.exists():
        pytest.skip("NOT TESTED: the web UI in a browser: it is not built, because npm cannot fetch its packages")


@pytest.fixture(scope="session")
def found_chromium() -> Chromium:
    try:
        return chromium.found()
    except NoBrowser as reason:
        pytest.skip(f"NOT TESTED: the web UI in a browser: {reason}")


@pytest.fixture(scope="package")
async def browser(built_ui: None, found_chromium: Chromium, anyio_backend: str) -> AsyncIterator[Browser]:
    expect.set_options(timeout=1000 * SECONDS)
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=found_chromium.program, env={**found_chromium.environment}, args=[*chromium.SWITCHES]
        )
        yield running
        await running.close()


@pytest.fixture
async def windows(browser: Browser) -> AsyncIterator[Windows]:
    opened = Windows(browser)
    yield opened
    await opened.close()
    assert not opened.watch.troubles, "in the browser: " + "\n".join(opened.watch.troubles)


@pytest.fixture
async def site(database_url: str, windows: Windows) -> AsyncIterator[Site]:
    async with site_of(database_url, windows) as running:
        yield running
        await windows.close()


@pytest.fixture(autouse=True)
async def what_a_failed_test_saw(
    windows: Windows, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[None]:
    """The report of a failed test has the text of its windows, and says where their pictures are."""
    yield
    if request.node.stash.get(_HAS_FAILED, False):
        await windows.show(tmp_path)
