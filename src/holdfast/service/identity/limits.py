"""How often a key or an address may ask. Each process counts for itself; the clock is an argument."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from holdfast.errors import TooManyRequests

MOST_BUCKETS = 10_000
"""How many names are counted; those that asked least lately are forgotten."""
BURST_SECONDS = 2.0
"""For how long of its rate at once a name may ask after a rest."""
FILES_OF_A_PAGE = 25
"""How many files of the web UI count as one request: about as many as a page loads when a browser has none of them."""


class Buckets:
    """A bucket of tokens for each name: a request takes one, and time puts them back."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, burst)
        self._clock = clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, name: Hashable) -> float:
        """Take a token. If there is none, the seconds until there is one."""
        now = self._clock()
        level, at = self._levels.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._per_second)
        missing = 1 - level
        self._keep(name, level if missing > 0 else level - 1, now)
        return missing / self._per_second if missing > 0 else 0.0

    def give_back(self, name: Hashable) -> None:
        """A request took a token that it need not have taken."""
        if name in self._levels:
            level, at = self._levels[name]
            self._levels[name] = min(self._burst, level + 1), at

    def _keep(self, name: Hashable, level: float, now: float) -> None:
        self._levels[name] = level, now
        if len(self._levels) > MOST_BUCKETS:
            self._levels.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each may ask."""

    key_requests_per_second: float = 1000.0
    address_requests_per_second: float = 100.0
    wrong_credentials_per_minute: float = 30.0


class RateLimits:
    """The limits of one process: requests of an identity; requests, files and guesses of an address without one."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        per_key, per_address = rates.key_requests_per_second, rates.address_requests_per_second
        self._identities = Buckets(per_key, per_key * BURST_SECONDS, clock)
        self._addresses = Buckets(per_address, per_address * BURST_SECONDS, clock)
        # Apart from requests: people who open pages can still sign in, and a flood of requests keeps no page away.
        files = per_address * FILES_OF_A_PAGE
        self._files = Buckets(files, max(files * BURST_SECONDS, 2 * FILES_OF_A_PAGE), clock)
        guesses = rates.wrong_credentials_per_minute
        self._guesses = Buckets(guesses / 60, guesses, clock)

    def count_identity(self, credential: tuple[str, str], name: str) -> None:
        """Count a request with a valid credential."""
        seconds = self._identities.take(credential)
        if seconds > 0:
            raise TooManyRequests(f"{name} sends more requests than it may.", seconds=seconds)

    def count_address(self, address: str) -> None:
        """Count a request that brings no credential, or needs none."""
        seconds = self._addresses.take(network_of(address))
        if seconds > 0:
            raise TooManyRequests(f"Address {address} sends too many requests without a credential.", seconds=seconds)

    def count_file(self, address: str) -> None:
        """Count a file of the web UI. It costs next to nothing: the process has it in memory."""
        seconds = self._files.take(network_of(address))
        if seconds > 0:
            raise TooManyRequests(f"Address {address} loads too many files.", seconds=seconds)

    def count_guess(self, address: str) -> None:
        """Count a credential that this process does not know, before anything looks at it."""
        seconds = self._guesses.take(network_of(address))
        if seconds > 0:
            raise TooManyRequests(f"Address {address} has sent too many wrong credentials.", seconds=seconds)

    def was_no_guess(self, address: str) -> None:
        """The credential was right, or the database could not say."""
        self._guesses.give_back(network_of(address))


def network_of(address: str) -> str:
    """What counts as one address: a household has a whole network of version 6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
