"""What the benchmarked tasks do: as little as possible."""

from __future__ import annotations

import os
import time
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
