"""Reads the documentation: pages, their fenced blocks, and the marks before a block.

A mark is an HTML comment right before a block:

    <!-- file: handlers.py -->     the block is a file of the page's project
    <!-- fragment -->              a part of a file; it need not be complete
    <!-- background -->            a service, which runs until the end of the page
    <!-- not run: REASON -->       cannot run in a test
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>\w*)[^\n]*\n(?P<body>.*?)^ *(?P=fence) *$", re.M | re.S
)
_MARK = re.compile(r"<!-- ([a-z ]+)(?:: ([^\n]*))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    body: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """A command as a console block shows it, with the output that follows."""

    block: Block
    command: str
    expected: list[str]


def all_pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match["language"], match["body"], _marks_before(text[: match.start()]))


def _marks_before(text: str) -> dict[str, str]:
    marks: dict[str, str] = {}
    while match := _MARK.search(text):
        marks[match[1]] = (match[2] or "").strip()
        text = text[: match.start()]
    return marks


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block; a line that ends with a backslash continues in the next."""
    command = ""
    expected: list[str] = []
    for line in block.body.splitlines():
        if command.endswith("\\"):
            command += f"\n{line.removeprefix('> ')}"
        elif line.startswith("$ "):
            if command:
                yield Step(block, command, expected)
            command, expected = line.removeprefix("$ "), []
        else:
            expected.append(line)
    if command:
        yield Step(block, command, expected)


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
