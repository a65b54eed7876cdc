"""The web UI: files that were built from `ui/` and are part of the package. They are read once, and hold no data."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

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
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
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
        takes = {part.partition(";")[0].strip() for part in accepted.split(",")}
        for name, _ in _ENCODINGS:
            if name in takes and name in self.encoded:
                headers["Content-Encoding"] = name
                return Response(self.encoded[name], headers=headers, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


@cache
def built_files() -> Mapping[str, BuiltFile]:
    """All files by their paths; none if the package was made without the UI."""
    folder = files("holdfast") / "_ui"
    if not (folder / "index.html").is_file():
        return {}
    found = dict(_walk(folder, ""))
    endings = tuple(ending for _, ending in _ENCODINGS)
    return {
        name: BuiltFile(
            content,
            mimetypes.guess_type(name)[0] or "application/octet-stream",
            {encoding: found[name + ending] for encoding, ending in _ENCODINGS if name + ending in found},
        )
        for name, content in found.items()
        if not name.endswith(endings)
    }


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        name = f"{prefix}{one.name}"
        found += _walk(one, f"{name}/") if one.is_dir() else [(name, one.read_bytes())]
    return found


def first_page(root_path: str) -> Response | None:
    """The page that all addresses of the UI open; None without the UI."""
    index = built_files().get("index.html")
    if index is None:
        return None
    html = index.content.decode().replace(_BASE, f'<base href="{escape(root_path)}/" />')
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache", "Referrer-Policy": "same-origin"}
    return Response(html, headers=headers, media_type="text/html; charset=utf-8")
