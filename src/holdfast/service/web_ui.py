"""The web UI: files that were built from `ui/` and are part of the package. They are read once, and hold no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from fastapi import Response

PAGES = (
    "audit",
    "deliveries",
    "gates",
    "installation",
    "janitor",
    "jobs",
    "keys",
    "queues",
    "schedules",
    "webhooks",
    "workflows",
)
"""What the addresses of its pages begin with."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)
_INDEX = "index.html"
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""Encodings and the endings of their files, the smaller one first."""
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""Not what the machine thinks: some call a script plain text, and browsers then refuse it."""
_BASE = '<base href="/" />'
_YEAR = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A file of the UI, as it is and as it was compressed."""

    content: bytes
    media_type: str
    encoded: Mapping[str, bytes]

    def answer(self, accepted: str, *, is_named_by_content: bool) -> Response:
        """The file, in the smallest form that the browser takes."""
        headers = {
            "Cache-Control": _YEAR if is_named_by_content else "no-cache",
            "Content-Security-Policy": POLICY,
            "Vary": "Accept-Encoding",
        }
        taken = _taken(accepted)
        for name, _ in _ENCODINGS:
            if name in taken and name in self.encoded:
                headers["Content-Encoding"] = name
                return Response(self.encoded[name], headers=headers, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


def _taken(accepted: str) -> set[str]:
    """The encodings that a browser names, but for those that it refuses: `br;q=0`."""
    found = set()
    for part in accepted.lower().split(","):
        name, *parameters = (one.strip() for one in part.split(";"))
        weights = [one.removeprefix("q=").strip() for one in parameters if one.startswith("q=")]
        # A weight of zero is written with up to three digits behind its point.
        if all(weight.strip("0.") for weight in weights):
            found.add(name)
    return found


@dataclass(frozen=True, slots=True)
class WebUI:
    """The files of one build by their paths; none if the package was made without the UI."""

    files: Mapping[str, BuiltFile] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Traversable) -> WebUI:
        """What was built into a folder. A folder without a first page has no UI."""
        if not (folder / _INDEX).is_file():
            return cls()
        found = dict(_walk(folder, ""))
        endings = tuple(ending for _, ending in _ENCODINGS)
        return cls(
            {
                name: BuiltFile(
                    content,
                    _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream"),
                    {encoding: found[name + ending] for encoding, ending in _ENCODINGS if name + ending in found},
                )
                for name, content in found.items()
                if not name.endswith(endings)
            }
        )

    @property
    def is_there(self) -> bool:
        return _INDEX in self.files

    def first_page(self, root_path: str) -> Response | None:
        """The page that all addresses of the UI open; None without the UI."""
        if not self.is_there:
            return None
        html = self.files[_INDEX].content.decode().replace(_BASE, f'<base href="{escape(root_path)}/" />')
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache", "Referrer-Policy": "same-origin"}
        return Response(html, headers=headers, media_type="text/html; charset=utf-8")


@cache
def packaged() -> WebUI:
    """The UI that is part of this package."""
    return WebUI.read(files("holdfast") / "_ui")


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        name = f"{prefix}{one.name}"
        found += _walk(one, f"{name}/") if one.is_dir() else [(name, one.read_bytes())]
    return found
