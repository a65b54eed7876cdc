"""Handlers for the tests of isolation: at the top level of a module, so that another process can import them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from holdfast.define.registry import Result, handler
from holdfast.errors import Permanent, RetryAfter, Transient
from holdfast.worker.context import AsyncContext, Context

DAEMON = "setsid sleep 600 < /dev/null > /dev/null 2>&1 & echo $!"


def start_others() -> str:
    """Start processes that outlive a handler; on Linux also in sessions of their own, and without a living parent."""
    started = [subprocess.Popen(["sleep", "600"]).pid]
    if sys.platform == "linux":
        started.append(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
        started.append(int(subprocess.run(["sh", "-c", DAEMON], capture_output=True, check=True).stdout))
    return " ".join(map(str, started))


def isolated(function: Any) -> Any:
    return handler(isolation="process")(function)


@isolated
def where(*, ctx: Context) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "group": os.getpgrp(),
        "thread": threading.current_thread() is threading.main_thread(),
        "seen": [ctx.job_id, ctx.node, ctx.index, ctx.attempt, ctx.generation, ctx.inputs, ctx.resume_point],
        "cancelled": ctx.cancelled,
    }


def _surroundings() -> dict[str, Any]:
    """The variables and arguments with which this process began, and the variables that it sees now."""
    environ = Path("/proc/self/environ")
    return {
        "environment": dict(os.environ),
        "initial": environ.read_bytes().decode().split("\0") if environ.exists() else [],
        "arguments": Path("/proc/self/cmdline").read_text().split("\0") if environ.exists() else [],
        "at_import": AT_IMPORT,
    }


AT_IMPORT = os.environ.get("MAPS_TOKEN")


@isolated
def sees_surroundings() -> dict[str, Any]:
    return _surroundings()


@handler(isolation="process", environment=("MAPS_TOKEN", "AWS_*"))
def sees_declared() -> dict[str, Any]:
    return _surroundings()


@handler("in_a_thread")
def in_a_thread() -> dict[str, Any]:
    return _surroundings()


@isolated
def asks_for_the_database(*, ctx: Context) -> str:
    return ctx.database_url


@handler(isolation="process", database=True)
def uses_the_database(*, ctx: Context) -> str:
    return ctx.database_url


@handler("asks_in_a_thread")
def asks_in_a_thread(*, ctx: Context) -> str:
    return ctx.database_url


@handler("uses_in_a_thread", database=True)
def uses_in_a_thread(*, ctx: Context) -> str:
    return ctx.database_url


@handler(isolation="process", attempts_per_process=3)
def shares(leaves: str = "", *, ctx: Context) -> dict[str, Any]:
    """Returns what earlier attempts left in this process, and may leave something behind."""
    print("attempt of", ctx.index)
    ctx.progress(1, 2, f"item {ctx.index}")
    ctx.checkpoint("begun", {"item": ctx.index})
    if leaves == "thread":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    elif leaves == "process":
        subprocess.Popen(["sleep", "600"])
    elif leaves == "directory":
        os.chdir("/")
    elif leaves == "stream":
        sys.stdout.close()
    elif leaves == "failure":
        raise Transient("later")
    elif leaves == "nothing":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"pid": os.getpid(), "cancelled": ctx.cancelled, "is_main": threading.current_thread().name == "MainThread"}


@handler(isolation="process", attempts_per_process=100)
def shares_async_too() -> int:
    return os.getpid()


@handler(isolation="process", attempts_per_process=100)
async def shares_async(*, ctx: AsyncContext) -> int:
    await ctx.checkpoint("one", {"pid": os.getpid()})
    return os.getpid()


@handler(isolation="process", attempts_per_process=100, memory_mb=200)
def shares_memory(mb: int) -> int:
    global HOARD
    HOARD = [bytearray(os.urandom(1024)) * 1024 for _ in range(mb)]
    return os.getpid()


HOARD: list[bytearray] = []


@handler(isolation="process", attempts_per_process=100, network=False)
def shares_no_network(port: int) -> tuple[int, bool, int]:
    filters = next(line for line in Path("/proc/self/status").read_text().splitlines() if "Seccomp_filters" in line)
    return os.getpid(), _reaches(port), int(filters.split()[1])


@isolated
async def where_async(*, ctx: AsyncContext) -> int:
    await asyncio.sleep(0)
    return os.getpid()


@isolated
def add(a: int, b: int = 1) -> int:
    return a + b


@isolated
def tells_bands(bands: list[Any]) -> dict[str, Any]:
    print("looking for bands")
    return {"bands": bands}


@isolated
async def tells_bands_async(bands: list[Any]) -> dict[str, Any]:
    print("looking for bands")
    return {"bands": bands}


@isolated
def tells() -> Result:
    return Result({"a": 1}, warnings=("careful",), metrics={"seconds": 2})


@isolated
def raises(kind: str) -> None:
    raise {
        "permanent": Permanent("no", code="GONE"),
        "transient": Transient("later", code="BUSY"),
        "after": RetryAfter(30, "slow down"),
        "other": ValueError("bad value"),
    }[kind]


def _leaves(kind: str) -> Any:
    if kind == "next":
        return next(number for number in range(3) if number > 10)
    raise {
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "generator": GeneratorExit(),
        "cancelled": asyncio.CancelledError(),
        "group": BaseExceptionGroup("both", [SystemExit(4)]),
    }[kind]


@isolated
def leaves(kind: str) -> Any:
    return _leaves(kind)


@isolated
async def leaves_async(kind: str) -> Any:
    return _leaves(kind)


@isolated
async def leaves_in_a_task() -> None:
    await asyncio.gather(asyncio.to_thread(_leaves, "exit"), leaves_async("exit"))


@isolated
def speaks(raw: str) -> None:
    """Sends an arbitrary message to its worker, and waits until it is killed."""
    (mine,) = [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if _is_socket(entry)]
    socket.socket(fileno=mine).sendall(bytes.fromhex(raw))
    time.sleep(600)


def _is_socket(entry: Path) -> bool:
    return entry.is_symlink() and str(entry.readlink()).startswith("socket:")


@isolated
def closes_its_streams(fails: bool) -> str:
    sys.stdout.close()
    sys.stderr = None
    if fails:
        raise ValueError("bad value")
    return "fine"


@isolated
def logs_without_end(*, ctx: Context) -> None:
    ctx.logger.warning("x" * 5_000_000)


@isolated
def returns(kind: str) -> Any:
    deep: Any = 1
    for _ in range(129):
        deep = [deep]
    return {
        "result": Result(1, warnings=None),  # type: ignore[arg-type]
        "nan": float("nan"),
        "deep": deep,
    }[kind]


@isolated
def gives(kind: str) -> Any:
    return {"object": object(), "nul": "a\0b", "large": "x" * (16 * 1024 * 1024)}[kind]


@isolated
def gives_almost_too_much() -> str:
    return '"' * (8 * 1024 * 1024 - 2)


@isolated
def prints() -> None:
    print("from Python")
    print("to stderr", file=sys.stderr)
    os.write(1, b"to the descriptor\n")
    subprocess.run(["echo", "from a program"], check=True)
    ctypes.CDLL(None).printf(b"from C\n")


@isolated
def logs(*, ctx: Context) -> None:
    ctx.log("half way", done=3)
    ctx.logger.warning("to the worker %d", 7)


@isolated
def floods() -> None:
    for _ in range(1000):
        print("x" * 1000)


@isolated
def segfaults() -> None:
    print("about to fall", end="")
    ctypes.string_at(0)


@isolated
def exits(status: int) -> None:
    os._exit(status)


@isolated
def kills_the_fork_server() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@isolated
def checkpoints(*, ctx: Context) -> Any:
    """Saves two checkpoints and dies; the next attempt returns where it resumes."""
    if ctx.resume_point is None:
        ctx.checkpoint("one", {"step": 1})
        ctx.checkpoint("two", {"step": 2})
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.resume_point


@isolated
async def checkpoints_async(*, ctx: AsyncContext) -> Any:
    await ctx.checkpoint("one", {"step": 1})
    await asyncio.gather(ctx.checkpoint("two"), ctx.checkpoint("three"))
    return ctx.resume_point


@isolated
def stubborn(path: str, *, ctx: Context) -> None:
    """Ignores every signal that can be ignored, with a child that does so too; writes down both process ids."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    others = start_others()
    ctx.progress(1, 2, "hanging")
    file = Path(path)
    file.with_suffix(".part").write_text(f"{os.getpid()} {others}")
    file.with_suffix(".part").rename(file)
    while True:
        time.sleep(600)


@isolated
def obeys(path: str, *, ctx: Context) -> str:
    Path(path).write_text(str(os.getpid()))
    while not ctx.cancelled:
        time.sleep(0.01)
    return "stopped when asked"


@handler(isolation="process", memory_mb=200)
def hoards(mb: int, *, ctx: Context) -> int:
    hoard = [bytearray(os.urandom(1024)) * 1024 for _ in range(mb)]
    if mb > 200:
        time.sleep(600)
    return len(hoard)


@handler(isolation="process", memory_mb=200)
def hoards_in_a_child() -> None:
    subprocess.run([sys.executable, "-c", "b = b'x' * 300_000_000; import time; time.sleep(600)"], check=True)


@isolated
def leaves_a_child_behind(falls: bool) -> int:
    print(start_others())
    if falls:
        ctypes.string_at(0)
    return os.getpid()


@handler("falls")
def falls(number: int, path: str) -> int:
    """Kills its process, and so the worker if it runs in a thread. Each run writes a line."""
    with Path(path).open("a") as file:
        file.write(f"{number} {os.getpid()}\n")
    if number == 3:
        ctypes.string_at(0)
    return number * number


falls_isolated = handler("falls_isolated", isolation="process")(lambda **params: falls(**params))


@isolated
def saves(name: str, *, ctx: Context) -> None:
    ctx.checkpoint(name)


@isolated
def descriptors() -> list[str]:
    """The open files of this process."""
    return [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]


@handler("guarded", isolation="process")
def guarded(name: str, *, ctx: Context) -> str:
    with ctx.breaker(name):
        return "well"


@handler("guarded_async", isolation="process")
async def guarded_async(name: str, *, ctx: AsyncContext) -> str:
    async with ctx.breaker(name):
        return "well"


def _reaches(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except PermissionError:
        return False
    return True


def _tried(port: int, ctx: Context) -> dict[str, bool]:
    with ThreadPoolExecutor(1) as pool:
        by_a_thread = pool.submit(_reaches, port).result()
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=10)"
    by_a_program = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
    one, other = socket.socketpair()
    one.sendall(b"x")
    within = other.recv(1) == b"x"
    one.close()
    other.close()
    ctx.checkpoint("tried", {})
    return {"here": _reaches(port), "by_a_thread": by_a_thread, "by_a_program": by_a_program, "within": within}


@handler("isolated.reach", isolation="process")
def reach(port: int, *, ctx: Context) -> dict[str, bool]:
    return _tried(port, ctx)


@handler("isolated.reach_without_network", isolation="process", network=False)
def reach_without_network(port: int, *, ctx: Context) -> dict[str, bool]:
    return _tried(port, ctx)


@isolated
def gives_values(*, ctx: Context) -> dict[str, Any]:
    ctx.checkpoint("half", {"file": Path("a/b")})
    return {"day": date(2026, 1, 2), "file": Path("a/b")}
