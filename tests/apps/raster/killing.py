"""Raster handlers whose first attempt kills its own process, by SIGKILL, right after the third checkpoint."""

from __future__ import annotations

import os
import signal
from typing import Any

from holdfast import Context, Result, handler
from holdfast.apps.raster import handlers, storage


def dying(ctx: Context) -> Context:
    if ctx.attempt == 1:
        save, saved = ctx.checkpoint, []

        def checkpoint(name: str, data: Any = None) -> None:
            save(name, data)
            saved.append(name)
            if len(saved) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        ctx.checkpoint = checkpoint  # type: ignore[method-assign]
    return ctx


@handler("killing.blob_to_mount", isolation="process", environment=storage.VARIABLES)
def blob_to_mount(source: str, target: str, *, ctx: Context) -> dict[str, Any] | None:
    return handlers.blob_to_mount(source, target, checkpoint_mb=0.25, ctx=dying(ctx))


@handler("killing.process_tile_batch", isolation="process", environment=storage.VARIABLES)
def process_tile_batch(tiles: list[dict[str, Any]], path: str, target: str, *, ctx: Context) -> Result | None:
    return handlers.process_tile_batch(path, target, tiles, ctx=dying(ctx))
