"""Pages under watch: a violation of their policy, a complaint, an exception or a foreign host fails the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request

VIOLATION = "The policy was violated: "
REPORT_VIOLATIONS = f"""
document.addEventListener("securitypolicyviolation", (event) => {{
  console.error({VIOLATION!r} + event.violatedDirective + " by " + event.blockedURI + " " + (event.sample || ""));
}});
"""
BAD = ("error", "warning", "assert")


class Watch:
    """Collects what must not happen in the windows of a test."""

    def __init__(self) -> None:
        self._hosts: set[str] = set()
        self._allowed: list[re.Pattern[str]] = []
        self.troubles: list[str] = []

    async def begin(self, context: BrowserContext, url: str) -> None:
        self._hosts.add(f"{url}/")
        await context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", lambda error: self._note(f"exception: {error.error}"))
        context.on("request", self._request)
        context.on("page", self._page)

    @contextmanager
    def allowing(self, pattern: str) -> Iterator[None]:
        """Lines that match come from what the test does on purpose, such as a stopped service."""
        self._allowed.append(re.compile(pattern))
        try:
            yield
        finally:
            self.troubles = [one for one in self.troubles if not re.search(pattern, one)]
            self._allowed.pop()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in BAD:
            self._note(f"{message.type}: {message.text} at {message.location.get('url', '')}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((*self._hosts, "data:", "blob:")):
            self._note(f"a request to a foreign host: {request.url}")

    def _page(self, page: Page) -> None:
        page.on("crash", lambda _: self._note("the page has crashed"))
        page.on("dialog", self._dialog)

    async def _dialog(self, dialog: Any) -> None:
        self._note(f"a dialog of the browser: {dialog.message}")
        await dialog.dismiss()

    def _note(self, trouble: str) -> None:
        if not any(pattern.search(trouble) for pattern in self._allowed):
            self.troubles.append(trouble)
