"""Refuses what is no Postgres URL."""

from __future__ import annotations

import re

import psycopg.conninfo

from holdfast.errors import InvalidInput
from holdfast.masking import keep_secret

_PORT = re.compile(r"[0-9]{0,5}")


def check_url(url: str) -> None:
    """Refuse what is no Postgres URL before anything is tried, without a part of it; mask its password from now on."""
    scheme, _, rest = url.partition("://")
    if _has_open_password(rest):
        raise InvalidInput(
            "The database URL is not valid: a character of its user name or password has to be escaped.",
            remedy="Percent-encode the user name and the password: / as %2F, @ as %40, : as %3A, ? as %3F, # as %23.",
        )
    try:
        parsed = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parsed = {}
    ports = str(parsed.get("port") or "5432").split(",")
    if not parsed or scheme not in ("postgresql", "postgres") or not all(_PORT.fullmatch(port) for port in ports):
        raise InvalidInput(
            "The database URL is not valid.",
            remedy="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
        )
    names = [str(parsed.get(name)) for name in ("user", "host", "dbname")]
    for name in ("password", "sslpassword"):
        keep_secret(str(parsed.get(name) or ""), names)


def _has_open_password(rest: str) -> bool:
    """Whether libpq would take a part of the user info for a host, a port or a database, and so name it in errors."""
    authority, _, path = rest.partition("?")[0].partition("/")
    return authority.count("@") > 1 or "@" in path
