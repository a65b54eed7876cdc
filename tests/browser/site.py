"""A service on a database, an orchestrator and a worker if a test wants them, and windows of a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from holdfast.client import Client
from holdfast.define.registry import Registry
from holdfast.operations.scope import Scope
from tests.browser.watching import Watch
from tests.running import Engine, client_of, serving
from tests.service.serving import API, Service, serving_http

WIDE = {"width": 1280, "height": 900}
SECONDS = 20.0
"""How long a test waits for something on a page."""


class Windows:
    """Windows of a browser, each with cookies of its own. What must not happen in them is in `watch`."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._pages: list[Page] = []
        self.watch = Watch()

    async def open(self, url: str, **options: Any) -> Page:
        """An empty window, whose addresses begin with the URL."""
        context = await self._browser.new_context(base_url=url, **{"viewport": WIDE, "locale": "en-GB", **options})
        context.set_default_timeout(1000 * SECONDS)
        await self.watch.begin(context, url)
        page = await context.new_page()
        self._pages.append(page)
        return page

    async def signed_in(self, url: str, key: str, path: str = "/", **options: Any) -> Page:
        """A window that shows a page to the owner of the key."""
        page = await self.open(url, **options)
        answer = await page.request.post(f"{API}/session", data={"key": key})
        assert answer.status == 201, await answer.text()
        await page.goto(path)
        # From now on it listens to keys.
        await expect(page.locator("#main")).to_be_visible()
        return page

    async def close(self) -> None:
        """Close all windows. A service that ends would wait for their streams."""
        for page in self._pages:
            await page.context.close()
        self._pages.clear()

    async def show(self, folder: Path) -> None:
        """Print what the open windows show, for a test that failed."""
        for number, page in enumerate(self._pages):
            path = folder / f"window-{number}.png"
            await page.screenshot(path=path)
            print(f"Window {number} shows {page.url}, see {path}:\n{await page.inner_text('body')}\n")


class Site:
    """An installation: its service, its database, and who looks at it."""

    def __init__(self, service: Service, engine: Engine, windows: Windows) -> None:
        self.service = service
        self.engine = engine
        self.windows = windows
        self.watch = windows.watch

    def client(self, tenant: str = "default") -> Client:
        return self.service.admin.for_tenant(tenant)

    async def visit(self, path: str = "/", *roles: str, tenant: str = "*", **options: Any) -> Page:
        """A window that is signed in with these roles; by default as who starts the service is."""
        key = await self.service.key(*(roles or ("admin",)), tenant=tenant)
        return await self.windows.signed_in(self.service.url, key, path, **options)

    @asynccontextmanager
    async def working(self, handlers: Registry | None = None, **settings: Any) -> AsyncIterator[None]:
        """An orchestrator and a worker, for the duration of the block."""
        async with serving(self.engine.url, handlers, **settings):
            yield


@asynccontextmanager
async def site_of(database_url: str, windows: Windows) -> AsyncIterator[Site]:
    async with serving_http(database_url) as service, client_of(database_url) as engine:
        yield Site(service, engine, windows)


async def new_key(database_url: str, *roles: str, tenant: str = "*") -> str:
    """A key for the service of another process."""
    async with Client.connect(database_url, Scope("*", "admin@test")) as client:
        return (await client.add_key("test", roles=roles, tenant=tenant)).key
