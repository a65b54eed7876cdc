"""The first page, and the page on which a browser signs in. Looking at them changes nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.identity.origins import safe_target
from holdfast.service.identity.pages import front_page, sign_in_page
from holdfast.service.table import Media, RouteTable

table = RouteTable("pages")


@table.get("/", Permission.PUBLIC, answers=Media("text/html", "The first page."))
async def show_front_page(call: Call) -> Response:
    """What this is, and where its description is."""
    return front_page(call.root_path)


@table.get("/sign-in", Permission.PUBLIC, answers=Media("text/html", "The page on which a browser signs in."))
async def show_sign_in_page(
    call: Call,
    code: Annotated[str | None, Query(max_length=200, description="The code of a link that works once.")] = None,
    return_to: Annotated[str | None, Query(max_length=2000, description="A path of the service to go on to.")] = None,
) -> Response:
    """Sign in with the code of a link, with an API key, or at the identity provider."""
    issuer = call.state.code_flow.issuer if call.state.code_flow is not None else None
    return sign_in_page(call.root_path, code, safe_target(return_to), issuer)
