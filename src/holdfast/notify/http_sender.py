"""Sends webhooks and callbacks: one request on its own connection, bounded in time and size, to a checked address."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore2

from holdfast.errors import InvalidInput
from holdfast.masking import masked
from holdfast.notify.body import body_of
from holdfast.notify.deciding import Ending, ending_of_answer
from holdfast.notify.signing import signed_headers
from holdfast.outgoing import Outgoing, checked_http_url
from holdfast.store.notify_rows import ClaimedDelivery
from holdfast.version import __version__

SEND_SECONDS = 15.0
"""How long one try takes at most, from the look at the name to the end of the answer."""
ANSWER_BYTES = 64 * 1024
"""How much of an answer is read."""
EXCERPT_CHARACTERS = 200
LOOKUPS = 4
"""How many names are looked up at once: a name server that hangs holds up no other thread of the process."""


class HttpSender:
    """Sends what webhooks and callbacks get."""

    def __init__(self, outgoing: Outgoing, public_url: str | None, *, seconds: float = SEND_SECONDS) -> None:
        self._network = _CheckedNetwork(outgoing)
        self._tls = ssl.create_default_context()
        self._public_url = public_url
        self._seconds = seconds

    async def send(self, delivery: ClaimedDelivery) -> Ending:
        url = delivery.url if delivery.kind == "webhook" else delivery.target
        if url is None:
            return Ending(f"there is no webhook '{delivery.target}'", is_final=True, is_of_destination=False)
        if delivery.disabled_reason is not None:
            return Ending(f"the webhook is disabled: {delivery.disabled_reason}", is_final=True)
        try:
            checked_http_url(url, f"{delivery.kind} '{delivery.target.partition('?')[0]}'")
            body = body_of(delivery.events[0], delivery.facts, self._public_url)
            headers = self._headers(delivery, body)
        except (InvalidInput, ValueError, TypeError, IndexError) as problem:
            return Ending(f"it cannot be made: {problem}", is_final=True, is_of_destination=False)
        ending = await self._post(url, headers, body)
        if delivery.kind == "callback" and ending.answer is not None and ending.answer < 500:
            # Callbacks of many jobs share a host: that one of them is not welcome says nothing of the others.
            return ending._replace(is_of_destination=ending.retry_after_seconds is not None)
        return ending

    def _headers(self, delivery: ClaimedDelivery, body: bytes) -> dict[str, str]:
        keys = (delivery.secret, delivery.former_secret)
        return {
            "content-type": "application/json",
            "user-agent": f"holdfast/{__version__}",
            "connection": "close",
            **signed_headers(delivery.delivery_id, int(time.time()), body, keys),
        }

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> Ending:
        """One request. The status decides: what follows it is read for people, as far as it comes in time."""
        answered: list[Ending] = []
        try:
            async with asyncio.timeout(self._seconds):
                return await self._request(url, headers, body, answered)
        except TimeoutError:
            problem = f"no answer within {self._seconds:g} s"
        except (OSError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            problem = masked(str(error) or type(error).__name__)
        return answered[0] if answered else Ending(problem)

    async def _request(self, url: str, headers: dict[str, str], body: bytes, answered: list[Ending]) -> Ending:
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls, network_backend=self._network, max_keepalive_connections=0
        )
        async with pool, pool.stream("POST", url, headers=list(headers.items()), content=body) as answer:
            received = {name.lower(): value for name, value in answer.headers}
            ending = ending_of_answer(answer.status, _text(received.get(b"retry-after")), time.time())
            answered.append(ending)
            read = b""
            async for part in answer.aiter_stream():
                read += part
                if len(read) >= ANSWER_BYTES:
                    break
        if ending.problem is None or not read:
            return ending
        return ending._replace(problem=f"{ending.problem}: {_excerpt(read)}")


def _excerpt(body: bytes) -> str:
    """The beginning of an answer in one line."""
    text = " ".join(body[: 4 * EXCERPT_CHARACTERS].decode(errors="replace").split())
    return masked("".join(one for one in text if one.isprintable())[:EXCERPT_CHARACTERS])


def _text(value: bytes | None) -> str | None:
    return value.decode("latin-1") if value is not None else None


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to the very addresses that were checked: a second look at the name could give others."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._network = httpcore2.AnyIOBackend()
        self._lookups = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="holdfast lookup")

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._lookups, self._outgoing.addresses, host, port)
        problem: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.NetworkError as error:
                problem = problem or error
        raise problem or OSError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)
