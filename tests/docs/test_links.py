"""Every link has a target, and the index names every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages, prose

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def links(page: Path) -> Iterator[str]:
    return (link for link in _LINK.findall(prose(page)) if not link.startswith(("https://", "http://")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them: lower case, hyphens for spaces, no punctuation."""
    headings = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.relative_to(ROOT)} links to {link}, which does not exist"
        assert target.is_relative_to(ROOT), f"{page.relative_to(ROOT)} links out of the repository: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.relative_to(ROOT)} links to {link}: no such heading"


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    missing = [page for page in (ROOT / "docs").rglob("*.md") if page != index and page.resolve() not in named]
    assert missing == []
