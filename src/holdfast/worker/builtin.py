"""The handlers of every installation: for first steps, for tests, and for trying out failures."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from holdfast.define.registry import handler
from holdfast.errors import Permanent, Transient
from holdfast.worker.context import AsyncContext


@handler("echo")
async def echo(*, ctx: AsyncContext, **params: Any) -> dict[str, Any]:
    """Return the params. With `steps` > 1, save a checkpoint after each step, so that a killed attempt resumes."""
    steps = int(params.get("steps", 1))
    first = 1
    if ctx.resume_point is not None:
        first = int(ctx.resume_point[1]["next_step"])
    for step in range(first, steps):
        await asyncio.sleep(float(params.get("step_delay", 0.1)))
        await ctx.checkpoint(f"step_{step}", {"next_step": step + 1})
        ctx.progress(step, steps)
    return {"echoed_params": params}


@handler("hello_world")
async def hello_world(name: Any = "World", **params: Any) -> dict[str, Any]:
    """Say hello."""
    return {"message": params.get("message") or f"Hello, {name}!", "name": name}


@handler("sleep")
async def sleep(*, ctx: AsyncContext, **params: Any) -> dict[str, Any]:
    """Wait for `duration_seconds`."""
    duration = float(params.get("duration_seconds", 1))
    await asyncio.sleep(duration)
    return {"slept_seconds": duration}


@handler("fail")
async def fail(**params: Any) -> None:
    """Fail with `error_message`; permanently if `permanent` is true."""
    message = str(params.get("error_message", "failed as asked"))
    if params.get("permanent") in (True, "true", "True"):
        raise Permanent(message)
    raise Transient(message)


@handler("flaky_echo")
async def flaky_echo(**params: Any) -> dict[str, Any]:
    """Fail with probability `failure_rate`, else return the params."""
    rate = float(params.get("failure_rate", 0.2))
    if random.random() < rate:
        raise Transient(f"flaky as asked (failure_rate {rate:g})")
    return {"echoed_params": params}


@handler("multi_phase")
async def multi_phase(*, ctx: AsyncContext, **params: Any) -> dict[str, Any]:
    """Go through `phases`, with a checkpoint after each; a new attempt starts in the unfinished phase."""
    phases = int(params.get("phases", 3))
    done = int(ctx.resume_point[1]["phase"]) if ctx.resume_point is not None else 0
    resumed_from = done
    for phase in range(done + 1, phases + 1):
        await asyncio.sleep(float(params.get("phase_delay", 0)))
        await ctx.checkpoint(f"phase_{phase}", {"phase": phase})
        ctx.progress(phase, phases)
    return {"phases": phases, "resumed_from": resumed_from}


@handler("size_check")
async def size_check(**params: Any) -> dict[str, Any]:
    """Say whether `size_bytes` is light or heavy work."""
    size = int(params.get("size_bytes", 0))
    threshold = int(params.get("threshold_bytes", 100 * 1024 * 1024))
    return {
        "size_bytes": size,
        "size_mb": size / 1024 / 1024,
        "route": "heavy" if size > threshold else "light",
    }


@handler("chunk_processor")
async def chunk_processor(**params: Any) -> dict[str, Any]:
    """Pretend to process one chunk of data."""
    data = params.get("chunk_data")
    count = len(data) if isinstance(data, list | dict | str) else 0
    return {"chunk_id": params.get("chunk_id"), "processed": count}
