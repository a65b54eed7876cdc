"""Files on their way to a client: ranges of them, and headers with which no browser shows or runs them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from fastapi import Response
from starlette.responses import StreamingResponse

from holdfast.errors import HoldfastError
from holdfast.service.answers import problem_response

BINARY = "application/octet-stream"
_RANGE = re.compile(r"bytes=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"[^0-9A-Za-z._ ()+-]")
_NAME_LENGTH = 200


class RangeUnsatisfiable(HoldfastError):
    code = "RANGE_UNSATISFIABLE"
    title = "The range is not in the file"
    http_status = 416


def wanted_range(text: str | None, size: int) -> tuple[int, int] | None:
    """The first byte and the number of bytes that a `Range` asks for; None: the whole file.

    What is no single range of bytes is ignored, as HTTP allows. Raises RangeUnsatisfiable.
    """
    match = _RANGE.fullmatch(text.strip()) if text is not None else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        first = size - length
    else:
        first = int(match[1])
        last = min(int(match[2]), size - 1) if match[2] else size - 1
        if match[2] and int(match[2]) < first:
            return None
        length = last - first + 1
    if length <= 0:
        raise RangeUnsatisfiable(
            f"The file has {size:,} bytes: there is no range '{text}' in it.",
            remedy="Leave `Range` out for the whole file.",
        )
    return first, length


def attachment(name: str) -> str:
    """A `Content-Disposition` that saves a file under its name, whatever characters that has."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "file"
    last = "".join(letter for letter in last if letter.isprintable())[:_NAME_LENGTH].strip(". ") or "file"
    return f"attachment; filename=\"{_PLAIN.sub('_', last)}\"; filename*=UTF-8''{quote(last, safe='')}"


def headers_of(name: str, digest: str) -> dict[str, str]:
    """A browser saves the file: it neither shows nor runs it, nor lets another site embed it."""
    return {
        "Content-Disposition": attachment(name),
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Accept-Ranges": "bytes",
        "ETag": f'"{digest}"',
    }


def unsatisfiable(problem: RangeUnsatisfiable, size: int, request_id: str) -> Response:
    response = problem_response(problem, request_id)
    response.headers["Content-Range"] = f"bytes */{size}"
    return response


async def streamed(
    parts: AsyncIterator[bytes], headers: dict[str, str], wanted: tuple[int, int] | None, size: int
) -> Response:
    """The answer, once the first bytes are there: what fails before that is a problem, what fails later cuts it."""
    first, length = wanted or (0, size)
    more: dict[str, Any] = {"Content-Length": str(length)}
    if wanted is not None:
        more["Content-Range"] = f"bytes {first}-{first + length - 1}/{size}"
    begun = await anext(parts, b"")

    async def content() -> AsyncIterator[bytes]:
        yield begun
        async for part in parts:
            yield part

    return StreamingResponse(content(), 206 if wanted is not None else 200, headers=headers | more, media_type=BINARY)
