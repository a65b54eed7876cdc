"""Builds the application: its routes, and what surrounds all of them."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError, InvalidInput, NotFound, Unreachable
from holdfast.log_events import DEBUG, EventLog
from holdfast.service import routes
from holdfast.service.answers import problem_response
from holdfast.service.bodies import details_of
from holdfast.service.call import CallContext
from holdfast.service.identity.cors import AllowedOrigins
from holdfast.service.identity.door import COOKIE
from holdfast.service.openapi import complete
from holdfast.service.protocol import Malformed
from holdfast.service.routes.apps import add_apps
from holdfast.service.routing import add_routes
from holdfast.service.schemas import named_in
from holdfast.service.state import ServiceState
from holdfast.service.table import RouteTable
from holdfast.version import __version__

PREFIX = "/api/v1"
ALWAYS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Headers of every answer; a route may set another value."""
NOTHING_HERE = "There is nothing at this address."
_AMBIGUOUS = re.compile(rb"%(?:2f|5c|[01][0-9a-f]|7f)|\\", re.IGNORECASE)
"""Encoded slashes and control characters, and backslashes: the parts of a path would not be what they seem."""
_FILE = re.compile(rb"(.*/jobs/[0-9A-Fa-f-]{36}/artifacts/).+", re.DOTALL)
"""The address of a file. A handler may call it anything: the name is looked up as it is and leads to no other route."""
PART_BYTES = 64 * 1024
"""How much of an answer is handed to a connection at once."""
LOGGED_BYTES = 500
"""How much of a path is logged."""
_ONCE = ("authorization", "content-type", "content-encoding", "idempotency-key", "origin")
"""Headers of which one decides: with two, a proxy before us might go by the other one."""
_REQUEST_ID = re.compile(r"[0-9A-Za-z._-]{1,64}", re.ASCII)
_log = EventLog("holdfast.service")


class MethodNotAllowed(HoldfastError):
    code = "METHOD_NOT_ALLOWED"
    title = "The method is not allowed here"
    http_status = 405


class ServiceEnding(Unreachable):
    code = "SERVICE_ENDING"
    title = "The service ends"


class OurMistake(HoldfastError):
    code = "BUG"
    title = "Holdfast made a mistake"


def build_app(state: ServiceState, *, cors_origins: Sequence[str] = ()) -> FastAPI:
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        description="Durable workflows: submit, watch, recover.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = state
    for table, prefix in all_tables():
        add_routes(app, table, prefix)
    add_apps(app)
    app.add_exception_handler(HoldfastError, _known_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    if cors_origins:
        app.add_middleware(AllowedOrigins, origins=cors_origins)
    app.add_middleware(_Surroundings)
    app.openapi = lambda: openapi_of(app)  # type: ignore[method-assign]
    return app


def all_tables() -> list[tuple[RouteTable, str]]:
    """The routes of all resources, and where each is."""
    return routes.all_tables(PREFIX)


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the schemas of all views."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(named_in(document["paths"]))
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["securitySchemes"] = {
            "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key, made with `holdfast keys add`, or a token of the identity provider.",
            },
            "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": COOKIE,
                "description": "A browser that is signed in.",
            },
        }
        complete(document)
        app.openapi_schema = document
    return app.openapi_schema


class _Surroundings:
    """Gives each request an id, and each answer the headers that all have; logs how a request was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("x-request-id", "")
        request_id = wanted if _REQUEST_ID.fullmatch(wanted) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.monotonic(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
                await send(message)
                return
            for part in _parts(message):
                await send(part)

        try:
            await self._answer(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server does that to requests that have not ended in the grace period of its own end.
            if not status:
                ending = ServiceEnding("The service ends before this request has.", remedy="Send it again.")
                await problem_response(ending, request_id)(scope, receive, send_with_headers)
        except Exception as error:
            _log_failure(scope, error)
            if not status:
                bug = problem_response(OurMistake("This is a mistake of ours; it was logged."), request_id)
                await bug(scope, receive, send_with_headers)
            # Otherwise the answer stays without its end: the server cuts the connection.
        finally:
            if _log.writes(DEBUG):
                milliseconds = round(1000 * (time.monotonic() - began))
                _log.write("request_answered", **_described(scope), status=status, duration_ms=milliseconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = _wrong_with(scope)
        if wrong is not None:
            refusal = problem_response(wrong, _request_id(scope))
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The server leaves the body out. A stream, which has no end, ends at once.
            scope["state"]["is_head"] = True
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


def _parts(message: Message) -> Iterator[Message]:
    """A large answer goes part by part, each when the client has taken the one before: the rest is not copied."""
    body = memoryview(message.get("body", b""))
    if len(body) <= PART_BYTES:
        yield message
        return
    for start in range(0, len(body), PART_BYTES):
        is_last = start + PART_BYTES >= len(body)
        part = bytes(body[start : start + PART_BYTES])
        yield {**message, "body": part, "more_body": message.get("more_body", False) or not is_last}


def _described(scope: Scope) -> dict[str, Any]:
    """What the log says of a request. The query, which may have a code, is left out; the path stays encoded."""
    call: CallContext | None = scope["state"].get("call")
    return {
        "request": _request_id(scope),
        "method": scope["method"],
        "path": scope["raw_path"][:LOGGED_BYTES].decode("ascii", "backslashreplace"),
        "actor": call.identity.name if call is not None else None,
    }


def _log_failure(scope: Scope, error: Exception) -> None:
    """A mistake of ours, with its traceback; or why an answer that had begun has no end."""
    known = error.__cause__ if isinstance(error.__cause__, HoldfastError) else error
    if isinstance(known, HoldfastError):
        _log.write("request_failed", **_described(scope), reason=str(known))
    else:
        _log.write("request_failed", error=error, **_described(scope))


def _wrong_with(scope: Scope) -> HoldfastError | None:
    """What a proxy before us might read in another way than we do."""
    headers = Headers(scope=scope)
    if "content-length" in headers and "transfer-encoding" in headers:
        return Malformed("A request has a Content-Length or a Transfer-Encoding, not both.")
    twice = next((name for name in _ONCE if len(headers.getlist(name)) > 1), None)
    if twice is not None:
        return Malformed(f"A request has one header {twice}, not several.")
    if scope["http_version"] not in ("1.0", "1.1"):
        return Malformed(f"The service does not speak HTTP/{scope['http_version']}.")
    file = _FILE.fullmatch(scope["raw_path"])
    path = file[1] if file is not None else scope["raw_path"]
    if _AMBIGUOUS.search(path) or {b".", b".."} & set(unquote_to_bytes(path).split(b"/")):
        return NotFound(NOTHING_HERE)
    return None


def _request_id(scope: Scope) -> str | None:
    request_id: str | None = scope.get("state", {}).get("request_id")
    return request_id


async def _known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return problem_response(error, _request_id(request.scope))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problem = InvalidInput("The request is not valid.", errors=details_of(error.errors()))
    return problem_response(problem, _request_id(request.scope))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == MethodNotAllowed.http_status:
        response = problem_response(
            MethodNotAllowed(f"{request.method} is not allowed here."), _request_id(request.scope)
        )
        response.headers.update(error.headers or {})
        return response
    if error.status_code == NotFound.http_status:
        return problem_response(NotFound(NOTHING_HERE), _request_id(request.scope))
    return problem_response(InvalidInput(str(error.detail)), _request_id(request.scope))
