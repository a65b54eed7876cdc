"""Handlers in processes that read the results of other nodes, and publish and fetch files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast.define.registry import handler
from holdfast.worker.context import AsyncContext, Context
from tests.worker.isolated import isolated


@isolated
def sums_results(ctx: Context) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "all": [one["n"] for one in ctx.results("stack")],
        "slice": [one["n"] for one in ctx.results("stack", offset=2, limit=3)],
        "nothing": list(ctx.results("stack", offset=100)),
        "large": sum(len(one["text"]) for one in ctx.results("stack")),
    }


@isolated
async def sums_results_async(ctx: AsyncContext) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "all": [one["n"] async for one in ctx.results("stack")],
        "slice": [one["n"] async for one in ctx.results("stack", offset=2, limit=3)],
        "nothing": [one async for one in ctx.results("stack", offset=100)],
        "large": sum([len(one["text"]) async for one in ctx.results("stack")]),
    }


@isolated
def publishes(ctx: Context) -> dict[str, Any]:
    assert list(ctx.workdir.iterdir()) == []
    (ctx.workdir / "tile.bin").write_bytes(b"tile" * 1000)
    return {"file": ctx.publish("tile.bin"), "where": str(ctx.workdir)}


@isolated
def fetches(file: dict[str, Any], ctx: Context) -> dict[str, Any]:
    place = ctx.fetch(file)
    return {"bytes": place.read_bytes().decode()[:8], "name": place.name, "where": str(ctx.workdir)}


@handler(isolation="process", network=False)
def publishes_alone(ctx: Context) -> dict[str, Any]:
    (ctx.workdir / "tile.bin").write_bytes(b"tile" * 1000)
    return {"file": ctx.publish("tile.bin")}


@handler(isolation="process", network=False)
async def publishes_alone_async(ctx: AsyncContext) -> dict[str, Any]:
    (ctx.workdir / "tile.bin").write_bytes(b"tile" * 1000)
    return {"file": await ctx.publish("tile.bin")}


@handler(isolation="process", network=False)
def fetches_alone(file: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return {"bytes": ctx.fetch(file).read_bytes().decode()[:8]}


@handler("weighs")
def weighs(size: int) -> str:
    return os.urandom(size).hex()[:size]


@handler("weighed")
def weighed(ctx: Context) -> dict[str, Any]:
    """Reads all results and keeps none; the peak is that of this process, not of its parent."""
    sizes = count = 0
    for result in ctx.results("stack"):
        count += 1
        sizes += len(result)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    return {"count": count, "bytes": sizes, "pid": os.getpid(), "peak_mb": peak}
