"""The data of a file and the place of each key and value, so that messages can point to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import Detail, cut

Path = tuple[str | int, ...]

MAX_PROBLEMS = 100
"""The most problems of one file that are reported. A hostile file could have a million."""


@dataclass(frozen=True, slots=True)
class DefinitionText:
    """The text from which a definition was read, as it came."""

    kind: str
    """`yaml`, `json` or `python`."""
    content: str
    name: str | None = None
    """The name of its file."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, counted from 1. `text_column` is the start of a text that is written without escapes."""

    line: int
    column: int
    text_column: int | None = None

    def shifted(self, offset: int) -> Place:
        """The place of a character inside a text, if it is known."""
        return self if self.text_column is None else Place(self.line, self.text_column + offset)


@dataclass(slots=True)
class Source:
    """Plain data with the places of its keys and values. A workflow built in Python has no places."""

    data: Any
    file: str | None = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    numbers: dict[Path, str] = field(default_factory=dict)
    """Numbers as text: the version 1.10 is not 1.1."""
    text: DefinitionText | None = None

    def at_key(self, path: Path, message: str, suggestion: str | None = None) -> Detail:
        return self._detail(path, self._nearest(path, self.keys), message, suggestion)

    def at_value(self, path: Path, message: str, suggestion: str | None = None, offset: int | None = None) -> Detail:
        place = self._nearest(path, self.values)
        if place is not None and offset is not None and path in self.values:
            place = place.shifted(offset)
        return self._detail(path, place, message, suggestion)

    def first_of(self, *paths: Path) -> Path:
        """The first path that exists, for values that can be written in several ways."""
        return next((path for path in paths if self.has(path)), paths[-1])

    def at(self, path: Path) -> dict[str, Any]:
        """The object at the path; an empty one if there is none."""
        current = self.data
        for step in path:
            current = current.get(step) if isinstance(current, dict) else None
        return current if isinstance(current, dict) else {}

    def has(self, path: Path) -> bool:
        current = self.data
        for step in path:
            known = range(len(current)) if isinstance(current, list) else current
            if not isinstance(current, dict | list) or step not in known:
                return False
            current = current[step]  # type: ignore[index]  # a list knows only its indices
        return True

    def _nearest(self, path: Path, places: dict[Path, Place]) -> Place | None:
        """The place of a missing key is that of the object around it."""
        if path in places:
            return places[path]
        for length in range(len(path), -1, -1):
            place = self.keys.get(path[:length]) or self.values.get(path[:length])
            if place is not None:
                return place
        return None

    def _detail(self, path: Path, place: Place | None, message: str, suggestion: str | None) -> Detail:
        return Detail(
            message,
            file=self.file,
            line=place.line if place else None,
            column=place.column if place else None,
            path=path_text(path) or None,
            suggestion=suggestion,
        )


@dataclass(slots=True)
class Report:
    """Collects the problems of one source, so that all are reported together."""

    source: Source
    problems: list[Detail] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def at_key(self, path: Path, message: str, suggestion: str | None = None) -> None:
        self.problems.append(self.source.at_key(path, message, suggestion))

    def at_value(self, path: Path, message: str, suggestion: str | None = None, offset: int | None = None) -> None:
        self.problems.append(self.source.at_value(path, message, suggestion, offset))


def path_text(path: Path) -> str:
    """`nodes.route.branches[0].next`"""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{cut(step)}" if text else cut(step)
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A suggestion for a mistyped word, if a known word is similar."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if not close and len(word) >= 3:
        close = [one for one in by_lower if one.startswith(word.lower())]
    return f"Did you mean '{by_lower[close[0]]}'?" if close else None


def by_place(details: Iterable[Detail]) -> list[Detail]:
    """The problems in the order of the file, each once, up to MAX_PROBLEMS."""
    ordered = sorted(
        dict.fromkeys(details),
        key=lambda d: (d.line is None, d.line or 0, d.column or 0),
    )
    return ordered[:MAX_PROBLEMS]
