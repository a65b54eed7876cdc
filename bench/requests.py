"""Requests to the HTTP service from a process of its own, over connections that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple
from urllib.parse import urlsplit


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answered:
    """How many requests were answered, and what that cost."""

    seconds: float
    cpu_seconds: float
    """The processor time of the process that sent them."""
    durations: list[float]
    """Of each request, in seconds, shortest first."""


def send_all(url: str, key: str, requests: list[Request], connections: int) -> Answered:
    """Send them from a new process, as many at a time as there are connections; each must succeed."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_send_all, url, key, requests, connections).result()


def _send_all(url: str, key: str, requests: list[Request], connections: int) -> Answered:
    return asyncio.run(_send(url, key, requests, connections))


async def _send(url: str, key: str, requests: list[Request], connections: int) -> Answered:
    address, left, durations = urlsplit(url), iter(requests), list[float]()
    begun, cpu = time.perf_counter(), time.process_time()
    workers = (_one_connection(address.netloc, key, left, durations) for _ in range(connections))
    await asyncio.gather(*workers)
    return Answered(time.perf_counter() - begun, time.process_time() - cpu, sorted(durations))


async def _one_connection(netloc: str, key: str, left: Iterator[Request], durations: list[float]) -> None:
    host, _, port = netloc.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for request in left:
        begun = time.perf_counter()
        writer.write(_encoded(netloc, key, request))
        head = await reader.readuntil(b"\r\n\r\n")
        status, length = _read_head(head)
        body = await reader.readexactly(length)
        durations.append(time.perf_counter() - begun)
        if status not in (200, 201):
            raise RuntimeError(f"{request.method} {request.path} was answered with {status}: {body[:500]!r}")
    writer.close()


def _encoded(netloc: str, key: str, request: Request) -> bytes:
    head = f"{request.method} {request.path} HTTP/1.1\r\nHost: {netloc}\r\nAuthorization: Bearer {key}\r\n"
    if request.body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n"
    return f"{head}\r\n".encode() + request.body


def _read_head(head: bytes) -> tuple[int, int]:
    lines = head.split(b"\r\n")
    lengths: Iterable[int] = (int(line[15:]) for line in lines if line[:15].lower() == b"content-length:")
    return int(lines[0].split()[1]), next(iter(lengths))
