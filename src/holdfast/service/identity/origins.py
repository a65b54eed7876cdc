"""Where browsers see the service: its own origin, links to it, and which pages may write with a cookie."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request

from holdfast.errors import ForeignOrigin, Refused

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origins:
    """The addresses of the service, as the settings say."""

    public_url: str | None = None
    root_path: str = ""
    allowed: tuple[str, ...] = ()
    """Origins of other pages that may use the service."""

    def own(self, request: Request) -> str:
        """The origin of the service. What a request says about it counts only while no setting does."""
        return origin_of(self.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}")

    def base(self, request: Request) -> str:
        """What links to the service begin with. Where strangers could choose it, a setting must say it."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        own = self.own(request)
        if not is_loopback(urlsplit(own).hostname or ""):
            raise Refused(
                "The service does not know its own address.",
                remedy="Set HOLDFAST_PUBLIC_URL to the address by which people reach it.",
            )
        return own + self.root_path

    @property
    def cookie_path(self) -> str:
        return self.root_path or "/"

    def is_secure(self, request: Request) -> bool:
        """Whether a cookie may travel only by TLS: always, but on this machine."""
        own = urlsplit(self.own(request))
        return own.scheme == "https" or not is_loopback(own.hostname or "")

    def refuse_foreign(self, request: Request, *, is_browser: bool = True) -> None:
        """Refuse a write that a page of another origin has sent with the cookies of its visitor.

        A browser says where a write comes from. With `is_browser` a request that does not say it is refused, too.
        """
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin in self.allowed and origin is not None:
            return
        says_nothing = site is None and origin is None
        is_own = site in (None, "same-origin") and origin in (None, self.own(request))
        # A browser hides the origin of a form on a page that sends no referrer.
        is_hidden = origin == "null" and site == "same-origin"
        if not (is_own or is_hidden) or (says_nothing and is_browser):
            where = f"the page {origin}" if origin not in (None, "null") else "a page that is not ours"
            raise ForeignOrigin(
                f"The request comes from {where}, which may not write with this cookie.",
                remedy="Use a page of the service itself, or a key. HOLDFAST_PUBLIC_URL must be the address that"
                " browsers see; HOLDFAST_CORS_ORIGINS allows other pages.",
            )


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, as browsers write them."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").lower()
    shown = f"[{host}]" if ":" in host else host
    is_default = port is None or port == DEFAULT_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{shown}" + ("" if is_default else f":{port}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def address_of(request: Request) -> str:
    """Where a request comes from: what a trusted proxy says, or the other end of the connection."""
    return request.client.host if request.client is not None else "unknown"


def safe_target(wanted: str | None) -> str:
    """A path of the service to go on to; anything else, such as another site, becomes the first page."""
    text = wanted or "/"
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    # Browsers leave characters such as ' and | in an address as they are; the page escapes them.
    is_plain = text.isascii() and text.isprintable() and not set(text) & set('\\ "<>')
    return text if is_path and is_plain and len(text) <= 2000 else "/"
