"""The documentation avoids words that newcomers had to decode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, prose

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BANNED = re.compile(r"\b(told|heard|anew|nobody|whoever|everybody|what became of|is to be|so many)\b", re.IGNORECASE)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end of generated -->", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_words(page: Path) -> None:
    assert _BANNED.findall(_GENERATED.sub("", prose(page))) == []
