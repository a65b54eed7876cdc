"""The server that takes mails, as its URL says: `smtp`, `smtps` (TLS at once) or `starttls`; with a login."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidInput
from holdfast.masking import keep_secret
from holdfast.service_address import is_loopback

PORTS = {"smtp": 25, "smtps": 465, "starttls": 587}
EXAMPLE = "starttls://USER:PASSWORD@mail.example.org:587"


class MailServer(NamedTuple):
    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None


def checked_mail_server(url: str) -> MailServer:
    """The server that a URL names; refused if it is none, or if it would send a password without TLS."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput("HOLDFAST_SMTP_URL is not the address of a mail server.", remedy=f"Write it like {EXAMPLE}")
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    keep_secret(password, (user, parts.hostname))
    if (user is None) != (password is None):
        raise InvalidInput(
            "HOLDFAST_SMTP_URL has a user or a password, and not both.", remedy=f"Write it like {EXAMPLE}"
        )
    if password is not None and parts.scheme == "smtp" and not is_loopback(url):
        raise InvalidInput(
            "HOLDFAST_SMTP_URL would send a password without TLS.", remedy="Begin it with starttls:// or smtps://"
        )
    return MailServer(parts.scheme, parts.hostname, port or PORTS[parts.scheme], user, password)
