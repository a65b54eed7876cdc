"""Browser sessions: signing in with a key, with the code of a link or at the identity provider, and signing out."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Query, Response
from pydantic import Field, ValidationError

from holdfast.errors import Forbidden, InvalidInput, NotFound, Refused, Unauthenticated
from holdfast.operations import sessions
from holdfast.operations.identity import Identity, Permission
from holdfast.service.bodies import Body, details_of
from holdfast.service.call import Call, CallContext
from holdfast.service.identity import code_flow as flow
from holdfast.service.identity.door import ANONYMOUS, COOKIE, has_credential
from holdfast.service.identity.origins import safe_target
from holdfast.service.identity.pages import back_page, sign_in_page
from holdfast.service.routing import parsed_body, read_body
from holdfast.service.table import Media, RouteTable
from holdfast.views.identities import Session

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 10
OIDC_PATH = "/api/v1/session/oidc"
CALLBACK_PATH = f"{OIDC_PATH}/callback"
table = RouteTable("identity")


class SignIn(Body):
    """A key, or the code of a link that works once."""

    key: str | None = Field(None, max_length=200)
    code: str | None = Field(None, max_length=200)
    return_to: str | None = Field(None, max_length=2000)
    """For a form: the path of the service to go on to."""


class SignInAtProvider(Body):
    """What the identity provider has given the browser."""

    code: str = Field(max_length=flow.LONGEST_CODE)
    state: str = Field(max_length=200)


@table.get("/session", Permission.PUBLIC, answers=Session, errors=(Unauthenticated,))
async def show_session(call: Call) -> Response:
    """Who asks, and what they may do. Without a credential the answer names no person."""
    is_known = has_credential(call.request)
    return call.answer(_view(await call.state.door.identify(call.request) if is_known else ANONYMOUS))


@table.post(
    "/session",
    Permission.PUBLIC,
    answers=Session,
    status=201,
    also={303: "A form was sent; the browser goes on."},
    errors=(Unauthenticated, Forbidden),
    reads_body=False,
    body_types=("application/json", FORM),
)
async def open_session(call: Call) -> Response:
    """Sign a browser in with an API key, or with the code of a link that works once. The answer sets a cookie."""
    door = call.state.door
    door.origins.refuse_foreign(call.request, is_browser=False)
    fields, is_form = await _fields(call)
    body = _read(SignIn, fields)
    if (body.key is None) == (body.code is None):
        raise InvalidInput("A sign-in brings a `key` or a `code`.")
    try:
        if body.code is not None:
            identity = await door.identity_of_code(call.request, body.code)
        else:
            identity = await door.identity_of_key(call.request, (body.key or "").strip())
    except Unauthenticated:
        if is_form and "text/html" in call.request.headers.get("accept", ""):
            return _asked_again(call, body)
        raise
    return await _signed_in(call, identity, safe_target(body.return_to) if is_form else None)


def _asked_again(call: CallContext, body: SignIn) -> Response:
    """The page again, for a person who has sent a wrong key, or the code of a link that works no more."""
    wrong = "This key is not valid, or it has ended."
    if body.code is not None:
        wrong = "This link works no more: it works once, within a minute. `holdfast up` prints one at its start."
    issuer = call.state.code_flow.issuer if call.state.code_flow is not None else None
    status = Unauthenticated.http_status
    return sign_in_page(call.root_path, None, safe_target(body.return_to), issuer, wrong=wrong, status=status)


@table.delete("/session", Permission.PUBLIC, answers=Session, errors=(Unauthenticated, Forbidden, Refused))
async def close_session(call: Call) -> Response:
    """Sign a browser out: its cookie works no more, at any process within five seconds."""
    identity = await call.state.door.identify(call.request)
    if identity.session is None:
        raise Refused(
            f"{identity.name} has no session: the request brings its credential itself.",
            remedy="A key ends with: holdfast keys revoke PREFIX",
        )
    call.state.door.origins.refuse_foreign(call.request)
    await sessions.sign_out(call.state.store, identity)
    call.state.door.forget(identity.session)
    response = call.answer(_view(ANONYMOUS))
    response.delete_cookie(COOKIE, path=call.state.door.origins.cookie_path)
    return response


@table.get(
    "/session/oidc",
    Permission.PUBLIC,
    answers=Media("text/html", "The browser goes on to the identity provider."),
    status=303,
    errors=(NotFound, Refused),
)
async def start_oidc(
    call: Call,
    return_to: Annotated[
        str | None, Query(max_length=2000, description="A path of the service to go on to afterwards.")
    ] = None,
) -> Response:
    """Send a browser to the identity provider to sign in. It comes back with a code."""
    visit = flow.Visit.new(return_to)
    address = await _flow(call).address(visit, _redirect_uri(call))
    response = Response(status_code=303, headers={"Location": address})
    origins = call.state.door.origins
    # Lax: the browser sends it when it comes back from the provider.
    response.set_cookie(
        flow.COOKIE,
        visit.to_cookie(),
        max_age=flow.FLOW_SECONDS,
        path=f"{call.root_path}{OIDC_PATH}",
        secure=origins.is_secure(call.request),
        httponly=True,
        samesite="lax",
    )
    return response


@table.get(
    "/session/oidc/callback",
    Permission.PUBLIC,
    answers=Media("text/html", "A page with a button that ends the sign-in."),
    errors=(NotFound, Forbidden),
    takes_any_query=True,
)
async def come_back_from_oidc(
    call: Call,
    code: Annotated[
        str | None, Query(max_length=flow.LONGEST_CODE, description="The code of the identity provider.")
    ] = None,
    state: Annotated[str | None, Query(max_length=200, description="What the sign-in began with.")] = None,
    iss: Annotated[str | None, Query(max_length=2000, description="The issuer of the code.")] = None,
    error: Annotated[str | None, Query(max_length=200, description="Why the provider has refused, as a code.")] = None,
    error_description: Annotated[str | None, Query(max_length=2000, description="The same in words.")] = None,
) -> Response:
    """The browser is back from the identity provider. This changes nothing: a button ends the sign-in."""
    issuer = _flow(call).issuer
    if iss is not None and iss != issuer:
        raise Forbidden("The browser comes from another identity provider.", remedy=flow.AGAIN)
    if error is not None or code is None or state is None:
        reason = f": {error_description or error}" if error_description or error else ""
        raise Forbidden(f"The identity provider did not sign you in{reason}.", remedy=flow.AGAIN)
    return back_page(call.root_path, code, state, issuer)


@table.post(
    "/session/oidc",
    Permission.PUBLIC,
    answers=Session,
    status=201,
    also={303: "A form was sent; the browser goes on."},
    errors=(NotFound, Unauthenticated, Forbidden, Refused),
    reads_body=False,
    body_types=(FORM, "application/json"),
)
async def finish_oidc(call: Call) -> Response:
    """End a sign-in at the identity provider. The answer sets a cookie."""
    call.state.door.origins.refuse_foreign(call.request)
    fields, is_form = await _fields(call)
    body = _read(SignInAtProvider, fields)
    visit = flow.Visit.from_cookie(call.request.cookies.get(flow.COOKIE))
    identity = await _flow(call).finish(visit, body.state, body.code, _redirect_uri(call))
    target = visit.target if visit is not None and is_form else None
    response = await _signed_in(call, identity, target)
    response.delete_cookie(flow.COOKIE, path=f"{call.root_path}{OIDC_PATH}")
    return response


async def _signed_in(call: CallContext, identity: Identity, target: str | None) -> Response:
    """A new session, whatever cookie the browser had before; a form goes on to a path of ours."""
    origins = call.state.door.origins
    token, known = await sessions.sign_in(call.state.store, identity)
    if target is None:
        response = call.answer(_view(known), 201)
    else:
        response = Response(status_code=303, headers={"Location": f"{call.root_path}{target}"})
    response.set_cookie(
        COOKIE,
        token,
        max_age=round(sessions.SESSION_SECONDS),
        path=origins.cookie_path,
        secure=origins.is_secure(call.request),
        httponly=True,
        samesite="strict",
    )
    return response


def _view(who: Identity) -> Session:
    permissions = tuple(str(one) for one in Permission if one in who.permissions and one is not Permission.PUBLIC)
    kind = "none" if who is ANONYMOUS else who.credential[0]
    return Session(who.name, who.tenant, tuple(map(str, who.roles)), permissions, kind, who.expires_at)


def _flow(call: CallContext) -> flow.CodeFlow:
    if call.state.code_flow is None:
        raise NotFound("This service has no identity provider.", remedy="Sign in with an API key.")
    return call.state.code_flow


def _redirect_uri(call: CallContext) -> str:
    return f"{call.state.door.origins.base(call.request)}{CALLBACK_PATH}"


async def _fields(call: CallContext) -> tuple[dict[str, Any], bool]:
    """The body as an object, and whether a form has sent it."""
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        parsed = await parsed_body(call.request, call.state)
        if not isinstance(parsed, dict):
            raise InvalidInput("The body must be a JSON object.")
        return parsed, False
    raw = await read_body(call.request, call.state)
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise InvalidInput("The body is not a form.") from None
    if len(dict(pairs)) < len(pairs):
        raise InvalidInput("A field of the form comes twice.")
    return dict(pairs), True


def _read(kind: type[Any], fields: dict[str, Any]) -> Any:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        details = details_of(error.errors(), "body")
        raise InvalidInput("The sign-in is not valid.", errors=details) from None
