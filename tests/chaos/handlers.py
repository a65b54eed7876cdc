"""What the workers of a fault test run: short pieces of work that leave a line for each execution."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import time
from typing import Any

from holdfast import AsyncContext, Context, Permanent, Transient, handler

EFFECTS = "CHAOS_EFFECTS"
HOLD_SECONDS = "CHAOS_HOLD_SECONDS"
WORK_SECONDS = float(os.environ.get("CHAOS_WORK_SECONDS", "0.03"))


def _leave_a_line(ctx: Any, **more: Any) -> None:
    """One write to a file that all workers append to: lines of several processes do not mix."""
    lease = ctx._attempt.lease
    task = {"job": ctx.job_id, "node": ctx.node, "item": lease.item, "epoch": lease.epoch, "attempt": lease.attempt}
    line = task | {"pid": os.getpid(), "at": time.time()} | more
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


@handler("chaos_step")
def step(number: int, *, ctx: Context) -> int:
    _leave_a_line(ctx)
    time.sleep(WORK_SECONDS)
    return number + 1


@handler("chaos_item")
async def item(number: int, *, ctx: AsyncContext) -> int:
    _leave_a_line(ctx)
    await asyncio.sleep(WORK_SECONDS)
    return number * number


@handler("chaos_large")
def large(text: str, *, ctx: Context) -> dict[str, Any]:
    _leave_a_line(ctx)
    time.sleep(WORK_SECONDS)
    return {"text": text * 10, "length": 10 * len(text)}


@handler("chaos_flaky")
def flaky(number: int, *, ctx: Context) -> int:
    """Fails at its first attempt, whatever became of it."""
    _leave_a_line(ctx)
    if ctx.attempt == 1:
        raise Transient("the first attempt always fails")
    return number


@handler("chaos_broken")
def broken(*, ctx: Context) -> None:
    _leave_a_line(ctx)
    raise Permanent("this never works")


@handler("chaos_saver")
def saver(steps: int, *, ctx: Context) -> list[int]:
    """Saves what it has after each step; the next attempt goes on from there."""
    _leave_a_line(ctx)
    done: list[int] = ctx.resume_point[1] if ctx.resume_point is not None else []
    while len(done) < steps:
        time.sleep(WORK_SECONDS)
        done = [*done, len(done)]
        ctx.checkpoint("step", done)
    return done


@handler("chaos_gil")
def gil(*, ctx: Context) -> str:
    """A C function that keeps the interpreter to itself: no other thread of the process gets a turn."""
    _leave_a_line(ctx)
    ctypes.PyDLL(None).usleep(int(float(os.environ[HOLD_SECONDS]) * 1e6))
    return "held"


@handler("chaos_stubborn")
def stubborn(*, ctx: Context) -> str:
    """Its first attempt does not listen to anybody; the next one is reasonable."""
    _leave_a_line(ctx)
    if ctx.attempt == 1:
        while True:
            time.sleep(3600)
    return "done"


@handler("chaos_segfault", isolation="process", environment=(EFFECTS,))
def segfault(*, ctx: Context) -> str:
    _leave_a_line(ctx)
    if ctx.attempt == 1:
        ctypes.string_at(0)
    return "done"


@handler("chaos_hoard", isolation="process", environment=(EFFECTS,), memory_mb=150)
def hoard(*, ctx: Context) -> str:
    """Its first attempt takes more memory than it may have, and would keep it."""
    _leave_a_line(ctx)
    if ctx.attempt == 1:
        hoarded = [bytearray(os.urandom(1024)) * 1024 for _ in range(250)]
        _hang(hoarded)
    return "done"


@handler("chaos_victim", isolation="process", environment=(EFFECTS,))
def victim(*, ctx: Context) -> str:
    """Its first attempt waits to be killed."""
    _leave_a_line(ctx)
    if ctx.attempt == 1:
        _hang()
    return "done"


@handler("chaos_parent", isolation="process", environment=(EFFECTS,))
def parent(*, ctx: Context) -> str:
    """Its first attempt has children, one of them in a session of its own, and waits to be killed."""
    if ctx.attempt == 1:
        # Where the kernel does not say whose orphans they are, a session of its own is a way out.
        apart = sys.platform == "linux"
        children = [subprocess.Popen(["sleep", "600"], start_new_session=own and apart).pid for own in (False, True)]
        _leave_a_line(ctx, children=children)
        _hang()
    _leave_a_line(ctx)
    return "done"


def _hang(*kept: object) -> None:
    while True:
        time.sleep(3600)
