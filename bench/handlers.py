"""What the benchmarked tasks do: as little as possible."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from holdfast.define.registry import handler
from holdfast.worker.context import Context


@handler("bench.noop")
async def noop(**params: Any) -> dict[str, Any]:
    """Nothing, and say so."""
    return {"i": params.get("i")}


@handler("bench.stamp")
async def stamp(**params: Any) -> dict[str, Any]:
    """The moment at which the handler began, by the clock that all processes of the machine share."""
    return {"at": time.monotonic(), "pid": os.getpid()}


@handler("bench.noted")
async def noted(i: int, notes: str) -> None:
    """About 50 ms of work with an effect outside: a line for every execution, whatever becomes of its report."""
    await asyncio.sleep(0.05)
    with Path(notes).open("a") as file:  # noqa: ASYNC230 - one short write.
        file.write(f"{i}\n")


@handler("bench.weighty")
async def weighty(i: int, size_bytes: int) -> str:
    """An output of that size that nothing can compress."""
    return f"{i} {os.urandom(size_bytes // 2).hex()}"[:size_bytes]


@handler("bench.gathered")
def gathered(node: str, ctx: Context) -> dict[str, Any]:
    """Read all results of a node, keep none, and tell how much memory this process ever had."""
    started, count, size = time.monotonic(), 0, 0
    for result in ctx.results(node):
        count += 1
        size += len(result)
    seconds = time.monotonic() - started
    return {"count": count, "bytes": size, "peak_mb": peak_mb(), "reading_seconds": round(seconds, 3)}


def peak_mb() -> float:
    """Since the program was started: what a parent had before does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
