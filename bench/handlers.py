"""What the benchmarked tasks do: as little as possible."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from holdfast.define.registry import handler


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
