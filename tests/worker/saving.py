"""One handler in three kinds: it begins, waits for a file, saves a checkpoint, and writes down the outcome."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.define.registry import handler
from holdfast.worker.context import AsyncContext, Context, LeaseLost


def _begin(folder: str, attempt: int) -> None:
    Path(folder, f"begun_{attempt}").touch()


def _may_save(folder: str) -> bool:
    return Path(folder, "go").exists()


def _saves(folder: str, ctx: Context) -> int:
    _begin(folder, ctx.attempt)
    while not _may_save(folder):
        time.sleep(0.01)
    try:
        ctx.checkpoint("half", {"way": 1})
    except LeaseLost:
        Path(folder, f"lost_{ctx.attempt}").touch()
        raise
    Path(folder, f"saved_{ctx.attempt}").touch()
    return ctx.attempt


@handler()
def saves_in_a_thread(folder: str, *, ctx: Context) -> int:
    return _saves(folder, ctx)


@handler(isolation="process")
def saves_in_a_process(folder: str, *, ctx: Context) -> int:
    return _saves(folder, ctx)


@handler()
def stores_much(folder: str, *, ctx: Context) -> str:
    """Publishes a file and has a large output, when it may go on."""
    _begin(folder, ctx.attempt)
    while not _may_save(folder):
        time.sleep(0.01)
    file = ctx.workdir / "map.txt"
    file.write_text("a map")
    ctx.publish(file)
    return "x" * 300_000


@handler()
async def saves_on_the_loop(folder: str, *, ctx: AsyncContext) -> int:
    _begin(folder, ctx.attempt)
    while not _may_save(folder):
        await asyncio.sleep(0.01)
    await ctx.checkpoint("half", {"way": 1})
    Path(folder, f"saved_{ctx.attempt}").touch()
    return ctx.attempt
