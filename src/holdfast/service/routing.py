"""From declared routes to the application's: checks of credential, permission, query and body before any endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import cache
from typing import Any, get_args, get_origin

from fastapi import FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from holdfast import failpoint
from holdfast.define.gates import DEFAULT_TENANT
from holdfast.define.plain import MAX_DEPTH, faults, parse_json
from holdfast.define.source import did_you_mean
from holdfast.errors import Detail, Forbidden, InvalidInput, NotFound, PayloadRefused
from holdfast.operations.identity import EVERY_TENANT, Identity, Permission
from holdfast.service.call import CallContext
from holdfast.service.schemas import described
from holdfast.service.state import ServiceState
from holdfast.service.table import Declared, RouteTable

LARGE_BYTES = 64 * 1024
MOST_FIELDS = 10_000
"""How many names a body may have. No route knows so many, and to name each as unknown would take seconds."""
TENANT = "tenant"
"""The name in a query by which an administrator of the installation chooses a tenant."""
WAIT = "wait"
"""The name in a query that says for how long a request waits, of whatever route."""


def add_routes(app: FastAPI, table: RouteTable, prefix: str = "", *, owner: str = "") -> None:
    """Make the routes of a table routes of the application: all of them, or none if one is wrong.

    The names of operations that an owner brings begin with its name.
    """
    app.router.routes += _routes(table, prefix, owner)


@cache
def _routes(table: RouteTable, prefix: str, owner: str) -> list[_Route]:
    """Made once: FastAPI takes a millisecond for each. They have no state; the application's comes with a request."""
    return [_Route.of(route, prefix + route.path, table.tag, owner) for route in table.routes]


class _Route(APIRoute):
    """A route that no request reaches without the permission that it names."""

    declared: Declared

    @classmethod
    def of(cls, declared: Declared, path: str, tag: str, owner: str) -> _Route:
        cls_for_it = type("_Declared", (cls,), {"declared": declared})
        route: _Route = cls_for_it(
            path,
            declared.endpoint,
            methods=[declared.method],
            status_code=declared.status,
            response_model=None,
            tags=[tag],
            name=declared.endpoint.__name__,
            operation_id="_".join(filter(None, (owner, declared.endpoint.__name__))),
            include_in_schema=not declared.is_hidden,
            # A request without a body needs no type; `parsed_body` refuses other types.
            strict_content_type=False,
            **described(declared),
        )
        return route

    @property
    def permission(self) -> Permission:
        return self.declared.permission

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        known = _query_names(self.dependant)

        async def handle(request: Request) -> Response:
            state: ServiceState = request.app.state.service
            identity = await state.door.admit(request, self.permission, is_file=self.declared.is_file)
            if "\0" in request.scope["path"]:
                # Nothing has such a name: Postgres stores no NUL.
                raise NotFound("There is nothing at this address.")
            if not self.declared.takes_any_query:
                _refuse_unknown_query(request, known)
            tenant = _tenant(request, identity)
            request.scope["state"]["call"] = CallContext(request, state, identity, tenant)
            try:
                if self.body_field is not None and self.declared.reads_body:
                    request = _ParsedRequest(request, await parsed_body(request, state))
                stays_open = WAIT in known and _waits(request)
                with state.open_requests.held(identity.tenant) if stays_open else nullcontext():
                    response = await inner(request)
            finally:
                state.release(request.scope["state"].get("held_bytes", 0))
            if self.declared.method != "GET":
                await failpoint.hit("api.after_commit", self.name)
            return response

        return handle


class _ParsedRequest(Request):
    """A request whose body was read and parsed before, with our limits."""

    def __init__(self, request: Request, body: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._parsed = body

    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> Any:
        return self._parsed


def _waits(request: Request) -> bool:
    """Whether a request waits for something. What is no number is refused where it is read."""
    try:
        return float(request.query_params.get(WAIT, 0)) > 0
    except ValueError:
        return False


def _query_names(dependant: Dependant) -> dict[str, bool]:
    """The names that a route knows, and whether it takes each more than once."""
    found = {str(one.alias): _is_list(one.field_info.annotation) for one in dependant.query_params}
    for inner in dependant.dependencies:
        found |= _query_names(inner)
    return dict(sorted(found.items()))


def _is_list(annotation: Any) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


def _refuse_unknown_query(request: Request, known: dict[str, bool]) -> None:
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if "\0" in value:
            raise InvalidInput(f"The query parameter '{name}' has a NUL character.", remedy="Leave the character out.")
        if name not in known and name != TENANT:
            raise InvalidInput(
                f"There is no query parameter '{name}' here.",
                errors=[Detail(f"'{name}' is not known.", path=f"query.{name}", suggestion=did_you_mean(name, known))],
                remedy=f"Known: {', '.join(known)}." if known else "This route takes none.",
            )
        if name in seen and not known.get(name, False):
            # Who stands before us may have read the other one.
            raise InvalidInput(f"The query parameter '{name}' is given more than once.", remedy="Give it once.")
        seen.add(name)


def _tenant(request: Request, identity: Identity) -> str:
    """The tenant that a request is for: that of the identity. Only an administrator of the installation names one."""
    wanted = request.query_params.get(TENANT)
    if wanted is None or wanted == identity.tenant:
        return DEFAULT_TENANT if identity.tenant == EVERY_TENANT else identity.tenant
    if not identity.is_installation_admin:
        raise Forbidden(f"{identity.name} may not name a tenant: its own is used.", remedy="Leave `tenant` out.")
    return wanted


async def parsed_body(request: Request, state: ServiceState) -> Any:
    """The body as plain JSON; refused if it is too large, too slow, too deep or something else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await read_body(request, state)
    if not raw:
        return {}
    if kind != "application/json" and not kind.endswith("+json"):
        raise InvalidInput(f"The body must be JSON, not '{kind}'.", remedy="Send `Content-Type: application/json`.")
    # While a large body is parsed, the process answers other requests.
    return _parsed(raw) if len(raw) <= LARGE_BYTES else await asyncio.to_thread(_parsed, raw)


def _parsed(raw: bytes) -> Any:
    try:
        parsed = parse_json(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidInput("The body is not UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The body is not JSON: {error}.") from None
    if isinstance(parsed, dict) and len(parsed) > MOST_FIELDS:
        raise InvalidInput(f"The body has {len(parsed):,} fields; no route takes more than {MOST_FIELDS:,}.")
    wrong = faults(parsed)
    if wrong:
        raise InvalidInput(
            f"The body has values that cannot be stored, or more than {MAX_DEPTH} levels.",
            errors=[Detail(reason, path=".".join(map(str, ("body", *path)))) for path, reason in wrong],
        )
    return parsed


async def read_body(request: Request, state: ServiceState) -> bytes:
    """The body as it came, within the limits of size and time."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise InvalidInput("A body must not be compressed.", remedy="Leave `Content-Encoding` out.")
    limit = state.body_limit_bytes
    too_large = PayloadRefused(f"The body has more than {limit:,} bytes.", remedy="Pass a reference to large data.")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(state.body_seconds):
            async for part in request.stream():
                state.hold(len(part))
                request.scope["state"]["held_bytes"] = size = size + len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except ClientDisconnect:
        raise InvalidInput("The body ended before its end.") from None
    except TimeoutError:
        raise InvalidInput(f"The body did not arrive within {state.body_seconds:g} s.") from None
    return b"".join(parts)
