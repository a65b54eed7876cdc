"""Where requests may go whose address a workflow, a caller or a tenant has given: to public addresses, and where the
installation allows it. A host is looked up once, and the connection goes to the very addresses that were checked."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from holdfast.errors import InvalidInput, cut
from holdfast.masking import masked

LONGEST_URL = 2000
_INTERNAL = (
    ipaddress.IPv4Network("168.63.129.16/32"),
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
)
"""What looks public and is not: a service of Azure, special purposes (with one of Oracle), relays for 6to4.

The library answers otherwise in some versions of Python.
"""
_UNICAST, _DOCUMENTATION = ipaddress.IPv6Network("2000::/3"), ipaddress.IPv6Network("3fff::/20")
"""The only range with public IPv6 addresses, and a part of it that has none."""
_CARRIERS = (
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""IPv6 networks whose addresses contain an IPv4 address, and by how many bits to shift it out.

NAT64, IPv4-mapped, IPv4-translated, IPv4-compatible, 6to4.
"""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(OSError):
    """The address may not be called. The text says which one, and what allows it."""


def is_public(address: str) -> bool:
    """Whether an IP address is public. An IPv6 address that contains an IPv4 address counts as that one."""
    ip = _plain(address)
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.is_global and ip in _UNICAST and ip not in _DOCUMENTATION
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _INTERNAL)


def _plain(address: str) -> Address:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # Whether such an address is global itself depends on the version of Python.
        shift = next((shift for network, shift in _CARRIERS if ip in network), None)
        if shift is not None:
            return ipaddress.IPv4Address(int(ip) >> shift & 0xFFFFFFFF)
    return ip


def checked_http_url(url: str, what: str) -> str:
    """The URL; refused if no request can be sent to it, or if it brings a password."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or not url.isascii() or not url.isprintable() or " " in url or len(url) > LONGEST_URL:
        raise InvalidInput(
            f"The URL of {what} is not one: '{cut(masked(url.partition('?')[0]))}'.",
            remedy=f"Write it like https://host/path, in at most {LONGEST_URL} ASCII characters.",
        )
    if "@" in parts.netloc or parts.fragment:
        raise InvalidInput(
            f"The URL of {what} has a user name, a password or a fragment.",
            remedy="Leave them out. What Holdfast sends is signed.",
        )
    return url


def warning_of(url: str) -> str | None:
    """What to say of a URL whose host is known, without a lookup, not to be public; None: that is not known.

    It is no refusal: only the processes that send know what the installation allows, and who gives a URL asks another
    process.
    """
    host = urlsplit(url).hostname or ""
    if not _is_internal(host):
        return None
    return f"{cut(host)} is not a public address: it is called only where HOLDFAST_OUTGOING_ALLOW lists it"


def _is_internal(host: str) -> bool:
    name = _name(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return not is_public(name)
    except ValueError:
        pass
    try:
        # Other spellings of an IPv4 address: 127.1, 0x7f000001.
        return not is_public(socket.inet_ntoa(socket.inet_aton(name)))
    except OSError:
        return False


class Outgoing:
    """Decides where requests may go."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """`allowed` has names of hosts, addresses and networks that need not be public."""
        self._hosts: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for one in allowed:
            try:
                self._networks.append(ipaddress.ip_network(one))
            except ValueError:
                self._hosts.add(_name(one))

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host; refused if one of them may not be called. Asks the network, and waits for it."""
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        for address in found:
            if not self._allows(host, address):
                is_itself = address == host
                raise AddressRefused(
                    f"{host}{'' if is_itself else f' is {address}, which'} is not a public address;"
                    " HOLDFAST_OUTGOING_ALLOW does not list it"
                )
        return list(dict.fromkeys(found))

    def _allows(self, host: str, address: str) -> bool:
        if _name(host) in self._hosts or is_public(address):
            return True
        given, plain = ipaddress.ip_address(address.partition("%")[0]), _plain(address)
        return any(given in network or plain in network for network in self._networks)

    def get_status(self, url: str, timeout_seconds: float) -> int:
        """The status that a GET gives. Follows no redirect, and reads no body. Waits for the network."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        connected = _connected(self.addresses(host, port), port, timeout_seconds)
        with connected:
            if is_secure:
                connected = ssl.create_default_context().wrap_socket(connected, server_hostname=host)
            connection = http.client.HTTPConnection(parts.netloc.rpartition("@")[2], timeout=timeout_seconds)
            connection.sock = connected
            try:
                connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
                return connection.getresponse().status
            finally:
                connection.close()


def _connected(addresses: Iterable[str], port: int, timeout_seconds: float) -> socket.socket:
    problem: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=timeout_seconds)
        except OSError as error:
            problem = problem or error
    raise problem or OSError("the host has no address")


def _name(host: str) -> str:
    return host.rstrip(".").lower()
