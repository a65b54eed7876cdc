"""The handlers of the fault tests: short tasks that write a line for each execution."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from holdfast import AsyncContext, Context, Permanent, Transient, handler

EFFECTS = "CHAOS_EFFECTS"
HOLD_SECONDS = "CHAOS_HOLD_SECONDS"
UNDO_SECONDS = "CHAOS_UNDO_SECONDS"
WORK_SECONDS = float(os.environ.get("CHAOS_WORK_SECONDS", "0.03"))


def _write_line(ctx: Any, **more: Any) -> None:
    """Append a line to a file that all workers share. One write, so that lines of several processes do not mix."""
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
    _write_line(ctx)
    time.sleep(WORK_SECONDS)
    return number + 1


@handler("chaos_item")
async def item(number: int, *, ctx: AsyncContext) -> int:
    _write_line(ctx)
    await asyncio.sleep(WORK_SECONDS)
    return number * number


@handler("chaos_large")
def large(text: str, *, ctx: Context) -> dict[str, Any]:
    _write_line(ctx)
    time.sleep(WORK_SECONDS)
    return {"text": text * 10, "length": 10 * len(text)}


@handler("chaos_flaky")
def flaky(number: int, *, ctx: Context) -> int:
    """Fails at attempt 1, even if that attempt was lost before."""
    _write_line(ctx)
    if ctx.attempt == 1:
        raise Transient("the first attempt always fails")
    return number


@handler("chaos_broken")
def broken(*, ctx: Context) -> None:
    _write_line(ctx)
    raise Permanent("this never works")


@handler("chaos_saver")
def saver(steps: int, *, ctx: Context) -> list[int]:
    """Saves a checkpoint after each step; the next attempt continues from there."""
    _write_line(ctx)
    done: list[int] = ctx.resume_point[1] if ctx.resume_point is not None else []
    while len(done) < steps:
        time.sleep(WORK_SECONDS)
        done = [*done, len(done)]
        ctx.checkpoint("step", done)
    return done


@handler("chaos_gil")
def gil(*, ctx: Context) -> str:
    """Calls a C function that keeps the interpreter's lock: no other thread of the process can run."""
    _write_line(ctx)
    ctypes.PyDLL(None).usleep(int(float(os.environ[HOLD_SECONDS]) * 1e6))
    return "held"


@handler("chaos_stubborn")
def stubborn(*, ctx: Context) -> str:
    """Its first attempt ignores every request to stop; the next one ends normally."""
    _write_line(ctx)
    if ctx.attempt == 1:
        while True:
            time.sleep(3600)
    return "done"


@handler("chaos_segfault", isolation="process", environment=(EFFECTS,))
def segfault(*, ctx: Context) -> str:
    _write_line(ctx)
    if ctx.attempt == 1:
        ctypes.string_at(0)
    return "done"


@handler("chaos_hoard", isolation="process", environment=(EFFECTS,), memory_mb=150)
def hoard(*, ctx: Context) -> str:
    """Its first attempt uses more memory than its limit, and would keep it."""
    _write_line(ctx)
    if ctx.attempt == 1:
        hoarded = [bytearray(os.urandom(1024)) * 1024 for _ in range(250)]
        _hang(hoarded)
    return "done"


@handler("chaos_victim", isolation="process", environment=(EFFECTS,))
def victim(*, ctx: Context) -> str:
    """Its first attempt waits to be killed."""
    _write_line(ctx)
    if ctx.attempt == 1:
        _hang()
    return "done"


@handler("chaos_parent", isolation="process", environment=(EFFECTS,))
def parent(*, ctx: Context) -> str:
    """Its first attempt starts two processes, one of them in a separate session, and waits to be killed."""
    if ctx.attempt == 1:
        # Only on Linux can a process in a separate session be traced to its parent and killed.
        apart = sys.platform == "linux"
        children = [subprocess.Popen(["sleep", "600"], start_new_session=own and apart).pid for own in (False, True)]
        _write_line(ctx, children=children)
        _hang()
    _write_line(ctx)
    return "done"


@handler("chaos_do")
def do(flaky: bool, *, ctx: Context) -> dict[str, Any]:
    """Has an effect on the world: a file in the ledger. Its receipt is too large for a row."""
    _write_line(ctx)
    (_place("ledger") / ctx.node).write_text(ctx.job_id)
    return {"node": ctx.node, "receipt": f"{ctx.node} " * 40}


@handler("chaos_take_back")
def take_back(params: dict[str, Any], output: dict[str, Any], *, ctx: Context) -> dict[str, Any]:
    """Removes the effect, as often as it is called; where `flaky` is true, it fails the first time."""
    _write_line(ctx, undoes=True)
    if output["node"] != ctx.node:
        raise Permanent(f"this is the output of {output['node']}")
    if ctx.resume_point is None:
        ctx.checkpoint("begun", ctx.node)
    time.sleep(float(os.environ.get(UNDO_SECONDS, "0.03")))
    if params["flaky"] and _is_first(ctx.node):
        raise Transient("the bank does not answer")
    (_place("ledger") / ctx.node).unlink(missing_ok=True)
    return {"receipt": f"{ctx.node} is taken back " * 20}


def _is_first(name: str) -> bool:
    try:
        (_place("asked") / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _place(name: str) -> Path:
    folder = Path(os.environ[EFFECTS]).with_name(name)
    folder.mkdir(exist_ok=True)
    return folder


def _hang(*kept: object) -> None:
    while True:
        time.sleep(3600)
