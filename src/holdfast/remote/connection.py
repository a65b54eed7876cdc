"""Requests to the service: kept connections, timeouts, sending again what may be sent again, and problems as errors.

A request is sent again only if that changes nothing: because it reads, because the service knows it by its key, or
because it never left.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson

from holdfast import tracing
from holdfast.errors import Forbidden, HoldfastError, Unauthenticated, Unreachable
from holdfast.service_address import API, KEY_REMEDY
from holdfast.version import __version__
from holdfast.views.problems import from_problem

WHOLE = "application/vnd.holdfast.view+json"
"""The media type in which the service answers views with all their fields."""
MOST_TRIES = 5
PATIENCE_SECONDS = 20.0
"""How long a request is sent again at most."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0
KEPT_SECONDS = 30.0
"""How long a connection without requests is kept: less than the service does, so that it is never closed there."""
BUSY = (502, 503, 504)
Query = Sequence[tuple[str, str]]


class Connection:
    """The service at an address, with one key."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        headers = {"Accept": WHOLE, "User-Agent": f"holdfast/{__version__}"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx2.AsyncClient(
            base_url=url + API,
            headers=headers,
            timeout=_timeout(0.0),
            limits=httpx2.Limits(keepalive_expiry=KEPT_SECONDS),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        text: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool = False,
        seconds: float = 0.0,
        patience_seconds: float | None = None,
    ) -> Any:
        """The answer's JSON, or the text of another answer. `seconds` is how long the service may wait on purpose.

        `text` is a body that is not JSON, after its media type. With `patience_seconds`, a repeatable request is sent
        again for that long, however often; else a few times.
        """
        request: dict[str, Any] = {"params": list(query), "headers": dict(headers or {}), "timeout": _timeout(seconds)}
        traceparent = tracing.current()
        if traceparent is not None:
            request["headers"]["traceparent"] = traceparent
        if text is not None:
            request["headers"]["Content-Type"], request["content"] = text[0], text[1].encode()
        elif body is not None:
            request["headers"]["Content-Type"], request["content"] = "application/json", orjson.dumps(body)
        response = await self._sent(method, path, request, is_repeatable, patience_seconds)
        if response.status_code >= 300:
            raise self._problem(response)
        if "json" not in response.headers.get("content-type", ""):
            return response.text
        try:
            return orjson.loads(response.content)
        except ValueError:
            raise self._is_no_service() from None

    async def _sent(
        self, method: str, path: str, request: dict[str, Any], is_repeatable: bool, patience_seconds: float | None
    ) -> httpx2.Response:
        most_tries = MOST_TRIES if patience_seconds is None else None
        until = time.monotonic() + (PATIENCE_SECONDS if patience_seconds is None else patience_seconds)
        pause = FIRST_PAUSE_SECONDS
        for attempt in itertools.count(1):
            is_last = attempt == most_tries or time.monotonic() + pause > until
            try:
                response = await self._client.request(method, path, **request)
            except httpx2.TransportError as error:
                # What has found no connection was never sent.
                may_repeat = is_repeatable or isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if is_last or not may_repeat:
                    raise self._unreachable(error) from None
                waited = pause
            else:
                if response.status_code not in BUSY or is_last or not is_repeatable:
                    return response
                waited = min(_retry_after(response) or pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(waited * random.uniform(1.0, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        raise AssertionError

    @asynccontextmanager
    async def download(
        self, path: str, query: Query = (), *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The parts of a large answer, as they arrive."""
        try:
            async with self._client.stream("GET", path, params=list(query), headers=dict(headers or {})) as response:
                if response.status_code >= 300:
                    await response.aread()
                    raise self._problem(response)
                yield response.aiter_bytes()
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None

    def _problem(self, response: httpx2.Response) -> HoldfastError:
        try:
            problem = orjson.loads(response.content)
        except ValueError:
            problem = None
        if not isinstance(problem, dict) or "code" not in problem:
            return self._foreign(response)
        error = from_problem(problem, seconds=_retry_after(response))
        if isinstance(error, Unauthenticated):
            error.remedy = KEY_REMEDY
        return error

    def _foreign(self, response: httpx2.Response) -> HoldfastError:
        """An answer that is not ours: perhaps of a proxy, or of another program at that address."""
        status = response.status_code
        if 300 <= status < 400:
            return Unreachable(
                f"The service at {self.url} sends requests to another address.",
                remedy="Use that address itself; for example, https instead of http.",
            )
        if status == Unauthenticated.http_status or status == Forbidden.http_status:
            return from_problem({"status": status, "detail": f"What stands before {self.url} answered {status}."})
        if status in BUSY:
            return Unreachable(
                f"The service at {self.url} does not answer: status {status}.", remedy="Try again later."
            )
        return self._is_no_service()

    def _is_no_service(self) -> Unreachable:
        return Unreachable(
            f"What answers at {self.url} is not the HTTP service of Holdfast.",
            remedy="Check the address; it is the one that `holdfast up` or `holdfast api` prints.",
        )

    def _unreachable(self, error: httpx2.TransportError) -> Unreachable:
        reason = " ".join(str(error).split()) or type(error).__name__
        return Unreachable(
            f"The service at {self.url} does not answer: {reason}.",
            remedy="Check the address, and that the service runs: holdfast up, or holdfast api.",
        )


def _timeout(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(ANSWER_SECONDS + seconds, connect=CONNECT_SECONDS)


def _retry_after(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None
