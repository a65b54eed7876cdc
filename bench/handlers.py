"""The handlers of the benchmarks, which do as little as possible."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from holdfast.define.registry import handler
from holdfast.errors import Permanent
from holdfast.worker.context import Context


@handler("bench.noop")
async def noop(**params: Any) -> dict[str, Any]:
    """Do nothing."""
    return {"i": params.get("i")}


@handler("bench.faulty")
async def faulty(i: int) -> dict[str, Any]:
    """Each hundredth fails, in one of three ways."""
    if i % 100 == 7:
        raise Permanent(f"the file of item {i} is broken", code=f"BROKEN_{'ABC'[i // 100 % 3]}")
    return {"i": i}


@handler("bench.failing")
async def failing(i: int) -> None:
    """Every item fails, for good."""
    raise Permanent(f"the file of item {i} is broken", code="BROKEN")


@handler("bench.rest")
async def rest(seconds: float) -> None:
    """Take time and nothing else."""
    await asyncio.sleep(seconds)


@handler("bench.stamp")
async def stamp(**params: Any) -> dict[str, Any]:
    """The start time of the handler, by the clock that all processes of the machine share."""
    return {"at": time.monotonic(), "pid": os.getpid()}


@handler("bench.noted")
async def noted(i: int, notes: str) -> None:
    """About 50 ms of work with an external effect: a line for every execution, even if its report is lost."""
    await asyncio.sleep(0.05)
    with Path(notes).open("a") as file:  # noqa: ASYNC230 - one short write.
        file.write(f"{i}\n")


@handler("bench.weighty")
async def weighty(i: int, size_bytes: int) -> str:
    """An incompressible output of this size."""
    return f"{i} {os.urandom(size_bytes // 2).hex()}"[:size_bytes]


@handler("bench.gathered")
def gathered(node: str, ctx: Context) -> dict[str, Any]:
    """Read all results of a node, keep none, and return the peak memory of this process."""
    started, count, size = time.monotonic(), 0, 0
    for result in ctx.results(node):
        count += 1
        size += len(result)
    seconds = time.monotonic() - started
    return {"count": count, "bytes": size, "peak_mb": peak_mb(), "reading_seconds": round(seconds, 3)}


def peak_mb() -> float:
    """The peak memory since the start of this program, without that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
