"""The address of a service and its API key, as people give them. Knows no HTTP library."""

from __future__ import annotations

import ipaddress
from importlib.resources import files
from urllib.parse import urlsplit

from holdfast.errors import InvalidInput, NeedsDatabase
from holdfast.masking import keep_secret, masked

SCHEMES = ("http://", "https://")
API = "/api/v1"
KEY_REMEDY = "Put a key of this service into HOLDFAST_API_KEY; an administrator makes one with: holdfast keys add"


def is_service_url(url: str) -> bool:
    return url.lower().startswith(SCHEMES)


def checked_url(url: str) -> str:
    """The address without a slash at its end; refused if it is none, or if it brings more than an address."""
    try:
        parts = urlsplit(url)
        is_one = is_service_url(url) and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        is_one = False
    if not is_one or " " in url:
        raise InvalidInput(
            f"'{masked(url)}' is not the address of a service.", remedy="Write it like http://host:8321."
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "The address of the service has a user name or a password.",
            remedy="Leave it out, and put an API key into HOLDFAST_API_KEY.",
        )
    if parts.query or parts.fragment:
        raise InvalidInput(
            f"The address {masked(url)} has more than host, port and path.", remedy="Leave out what follows '?' or '#'."
        )
    return url.rstrip("/")


def checked_key(key: str) -> str:
    """The key; refused if no header could carry it. No message shows it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(
            "The API key is not one: it has a space or a character that no key has.",
            remedy="Copy it again into HOLDFAST_API_KEY; it begins with hf_.",
        )
    keep_secret(key)
    return key


def refuse_service(url: str | None) -> None:
    """Refuse the address of a service, for what needs the database itself."""
    if url is not None:
        raise NeedsDatabase(
            f"This command needs the database itself; {masked(url)} is an HTTP service.",
            remedy="Run it where the database can be reached, and name that with: --database-url URL",
        )


def page_of_job(job_id: str, public_url: str) -> str:
    """Where a person sees a job in the web UI."""
    return f"{public_url.rstrip('/')}/jobs/{job_id}"


def has_web_ui() -> bool:
    """Whether this package was made with the web UI."""
    return (files("holdfast") / "_ui" / "index.html").is_file()


def is_loopback(url: str) -> bool:
    """Whether the service is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
