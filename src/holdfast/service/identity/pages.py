"""The few pages of the service itself: plain HTML without scripts, under a strict policy."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import Response

from holdfast.version import __version__

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # Without any referrer a browser would hide the origin of the form, too. The address, which may have a code, stays.
    "Referrer-Policy": "strict-origin",
}


def page(title: str, body: str) -> Response:
    """A page; `body` is HTML in which everything from outside was escaped."""
    text = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
    return Response(text, headers=dict(HEADERS), media_type="text/html; charset=utf-8")


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
    return page(
        "Holdfast",
        f"<p>This is Holdfast {escape(__version__)}: durable workflows on Postgres. Submit, watch, recover.</p>\n"
        f'<ul><li><a href="{escape(root_path)}/openapi.json">The interface, as an OpenAPI document</a></li>\n'
        f'<li><a href="{escape(root_path)}/sign-in">Sign in</a></li></ul>',
    )


def sign_in_page(root_path: str, code: str | None, target: str, issuer: str | None) -> Response:
    """Asks for nothing but a click if the link brings a code; else for a key, or to go to the provider."""
    action, fields = f"{root_path}/api/v1/session", {"return_to": target}
    if code is not None:
        return page(
            "Sign in to Holdfast",
            "<p>This link works once, within a minute after it was made.</p>\n"
            + form(action, {"code": code, **fields}, "Sign in"),
        )
    asked = '<label>API key <input type="password" name="key" autocomplete="off" required></label> '
    parts = [form(action, fields, "Sign in", asked)]
    if issuer is not None:
        parts.append(f'<p><a href="{escape(root_path)}/api/v1/session/oidc">Sign in at {escape(issuer)}</a></p>')
    return page("Sign in to Holdfast", "\n".join(parts))


def back_page(root_path: str, code: str, state: str, issuer: str) -> Response:
    """After a visit to the provider: the click makes it a request of our own page, which may set a strict cookie."""
    return page(
        "Sign in to Holdfast",
        f"<p>You come from {escape(issuer)}.</p>\n"
        + form(f"{root_path}/api/v1/session/oidc", {"code": code, "state": state}, "Sign in"),
    )
