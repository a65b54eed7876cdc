"""What the service answers: views as JSON, problems, and the headers that every answer has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request, Response

from holdfast.errors import HoldfastError, TooManyRequests, Unauthenticated, Unreachable
from holdfast.views.encoding import to_json
from holdfast.views.transfer import to_transfer

JSON = "application/json"
PROBLEM = "application/problem+json"
WHOLE = "application/vnd.holdfast.view+json"
"""With this media type in `Accept`, views have all fields, also those that JSON for people leaves out."""
RETRY_AFTER_SECONDS = 2


def wants_whole(request: Request) -> bool:
    return WHOLE in request.headers.get("accept", "")


def json_response(
    view: Any, status: int = 200, headers: Mapping[str, str] | None = None, *, whole: bool = False
) -> Response:
    """A view, or an object of views."""
    content = orjson.dumps(to_transfer(view) if whole else to_json(view))
    return Response(content, status, headers=dict(headers or {}), media_type=WHOLE if whole else JSON)


def problem_response(error: HoldfastError, request_id: str | None = None) -> Response:
    """An error as a problem object; never a traceback."""
    problem = error.to_problem() | ({"request_id": request_id} if request_id is not None else {})
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.seconds)))
    elif isinstance(error, Unreachable):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return Response(orjson.dumps(problem), error.http_status, headers=headers, media_type=PROBLEM)
