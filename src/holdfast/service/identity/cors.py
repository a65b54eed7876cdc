"""Other pages that may use the service from a browser: exactly the origins that the settings name."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

PREFLIGHT_SECONDS = 600


class AllowedOrigins:
    """Answers the questions of browsers about named origins; to others the service says nothing of CORS."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._with_cors = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-Id"],
            allow_credentials=True,
            expose_headers=["Content-Disposition", "Location", "Retry-After", "X-Request-Id"],
            max_age=PREFLIGHT_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_named = scope["type"] == "http" and Headers(scope=scope).get("origin") in self._origins
        await (self._with_cors if is_named else self._app)(scope, receive, send)
