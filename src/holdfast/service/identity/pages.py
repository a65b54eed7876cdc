"""The few pages of the service that need no script: plain HTML and one style sheet, under a strict policy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from urllib.parse import quote

from fastapi import Response

from holdfast.version import __version__

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Without any referrer a browser would hide the origin of the form, too. The address, which may have a code, stays.
    "Referrer-Policy": "strict-origin",
}
STYLE = "/sign-in.css"
TITLE = "Sign in to Holdfast"
_SIGN = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#0b63b6"/>'
    '<path d="M10 7v18M22 7v18M10 16h12" stroke="#fff" stroke-width="4" stroke-linecap="round" fill="none"/></svg>'
)


def page(root_path: str, title: str, body: str, status: int = 200) -> Response:
    """A page; `body` is HTML in which everything from outside was escaped."""
    text = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="stylesheet" href="{escape(root_path)}{STYLE}"></head>\n'
        f"<body>\n<main>\n<h1>{_SIGN}{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )
    return Response(text, status, dict(HEADERS), "text/html; charset=utf-8")


@cache
def _style() -> bytes:
    return files("holdfast.service.identity").joinpath("sign_in.css").read_bytes()


def style_sheet() -> Response:
    """How these pages look. Browsers ask again each time: its name does not change with its content."""
    return Response(_style(), headers={"Cache-Control": "no-cache"}, media_type="text/css")


def form(action: str, fields: Mapping[str, str], button: str, more: str = "") -> str:
    """A form whose fields are hidden."""
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in fields.items()
    )
    return (
        f'<form method="post" action="{escape(action)}">{hidden}{more}'
        f'<button type="submit">{escape(button)}</button></form>'
    )


def front_page(root_path: str) -> Response:
    """What this is, where there is no web UI."""
    return page(
        root_path,
        "Holdfast",
        f"<p>This is Holdfast {escape(__version__)}: durable workflows on Postgres. Submit, watch, recover.</p>\n"
        f'<ul><li><a href="{escape(root_path)}/openapi.json">The interface, as an OpenAPI document</a></li>\n'
        f'<li><a href="{escape(root_path)}/sign-in">Sign in</a></li></ul>\n'
        '<p class="quiet">This installation has no web UI. <code>make ui</code> builds it in a clone of the'
        " repository, where npm can be reached.</p>",
    )


def sign_in_page(
    root_path: str, code: str | None, target: str, issuer: str | None, *, wrong: str | None = None, status: int = 200
) -> Response:
    """Asks for nothing but a click if the link brings a code; else for a key, or to go to the provider.

    `wrong` says why the last attempt has failed.
    """
    action, fields = f"{root_path}/api/v1/session", {"return_to": target}
    parts = [f'<p class="wrong" role="alert">{escape(wrong)}</p>'] if wrong is not None else []
    if code is not None:
        parts.append("<p>This link works once, within a minute after it was made.</p>")
        parts.append(form(action, {"code": code, **fields}, "Sign in"))
        return page(root_path, TITLE, "\n".join(parts), status)
    asked = '<label>API key <input type="password" name="key" autocomplete="off" required autofocus></label> '
    parts.append(form(action, fields, "Sign in", asked))
    if issuer is not None:
        where = f"{root_path}/api/v1/session/oidc?return_to={quote(target, safe='')}"
        parts.append(f'<p><a href="{escape(where)}">Sign in at {escape(issuer)}</a></p>')
    parts.append(
        '<p class="quiet">Who runs the service makes a key with <code>holdfast keys add NAME --role operator</code></p>'
    )
    return page(root_path, TITLE, "\n".join(parts), status)


def back_page(root_path: str, code: str, state: str, issuer: str) -> Response:
    """After a visit to the provider: the click makes it a request of our own page, which may set a strict cookie."""
    return page(
        root_path,
        TITLE,
        f"<p>You come from {escape(issuer)}.</p>\n"
        + form(f"{root_path}/api/v1/session/oidc", {"code": code, "state": state}, "Sign in"),
    )
