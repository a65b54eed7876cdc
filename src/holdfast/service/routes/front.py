"""The pages for browsers: the web UI, and the page on which a browser signs in. Looking at them changes nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from starlette.convertors import StringConvertor, register_url_convertor

from holdfast.errors import NotFound
from holdfast.operations.identity import Permission
from holdfast.service.call import Call
from holdfast.service.identity.origins import safe_target
from holdfast.service.identity.pages import front_page, sign_in_page, style_sheet
from holdfast.service.table import Media, RouteTable
from holdfast.service.web_ui import PAGES

table = RouteTable("pages")
HTML = Media("text/html", "A page of the web UI.")


class _Page(StringConvertor):
    """An address of the web UI, which finds the rest of it by itself."""

    regex = f"(?:{'|'.join(PAGES)})(?:/.*)?"


register_url_convertor("page", _Page())


@table.get("/", Permission.PUBLIC, answers=Media("text/html", "The first page."), takes_any_query=True, is_file=True)
async def show_front_page(call: Call) -> Response:
    """The web UI; without it, what this is and where its description is."""
    return call.state.ui.first_page(call.root_path) or front_page(call.root_path)


@table.get("/{page:page}", Permission.PUBLIC, answers=HTML, takes_any_query=True, is_hidden=True, is_file=True)
async def show_page(call: Call, page: str) -> Response:
    """A page of the web UI."""
    shown = call.state.ui.first_page(call.root_path)
    if shown is None:
        raise NotFound(
            "This service was installed without its web UI.",
            remedy="Build it in a clone of the repository, where npm can be reached: make ui",
        )
    return shown


@table.get(
    "/assets/{name}",
    Permission.PUBLIC,
    answers=Media("*/*", "A file of the web UI."),
    is_hidden=True,
    is_file=True,
)
async def show_asset(call: Call, name: str) -> Response:
    """A file of the web UI, whose name changes with its content."""
    return _file(call, f"assets/{name}", is_named_by_content=True)


@table.get(
    "/icon.svg",
    Permission.PUBLIC,
    answers=Media("image/svg+xml", "The sign of the UI."),
    is_hidden=True,
    is_file=True,
)
async def show_icon(call: Call) -> Response:
    """The sign in the tab of a browser."""
    return _file(call, "icon.svg", is_named_by_content=False)


def _file(call: Call, name: str, *, is_named_by_content: bool) -> Response:
    file = call.state.ui.files.get(name)
    if file is None:
        raise NotFound("There is nothing at this address.")
    accepted = ",".join(call.request.headers.getlist("accept-encoding"))
    return file.answer(accepted, is_named_by_content=is_named_by_content)


@table.get(
    "/sign-in.css",
    Permission.PUBLIC,
    answers=Media("text/css", "The look of the pages without scripts."),
    is_hidden=True,
    is_file=True,
)
async def show_style_sheet(call: Call) -> Response:
    """How the page looks on which a browser signs in."""
    return style_sheet()


@table.get("/sign-in", Permission.PUBLIC, answers=Media("text/html", "The page on which a browser signs in."))
async def show_sign_in_page(
    call: Call,
    code: Annotated[str | None, Query(max_length=200, description="The code of a link that works once.")] = None,
    return_to: Annotated[str | None, Query(max_length=2000, description="A path of the service to go on to.")] = None,
) -> Response:
    """Sign in with the code of a link, with an API key, or at the identity provider."""
    issuer = call.state.code_flow.issuer if call.state.code_flow is not None else None
    return sign_in_page(call.root_path, code, safe_target(return_to), issuer)
