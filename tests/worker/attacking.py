"""A handler without a network that tries everything to reach its worker and the files of its home."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.define.registry import handler
from holdfast.worker import landlock
from holdfast.worker.context import Context
from holdfast.worker.worker_link import WorkerLink

if os.environ.get("WITHOUT_LANDLOCK"):
    # Behave as a kernel without Landlock; only the process that was started with this variable does.
    landlock.version = lambda: 0

PIDFD_OPEN, PIDFD_GETFD, IO_URING_SETUP = 434, 438, 425
ATTACH = 16
_CALLS = {"x86_64": {"process_vm_readv": 310, "kcmp": 312}, "aarch64": {"process_vm_readv": 270, "kcmp": 272}}


def _call(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(done)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _read_memory(pid: int) -> None:
    """Read an address without memory: the kernel says so only to a process that may read."""
    here = ctypes.create_string_buffer(8)
    mine = (ctypes.c_void_p * 2)(ctypes.addressof(here), 8)
    theirs = (ctypes.c_void_p * 2)(4096, 8)
    try:
        _call(_CALLS[os.uname().machine]["process_vm_readv"], pid, mine, 1, theirs, 1, 0)
    except OSError as problem:
        if problem.strerror != "Bad address":
            raise


def _take_descriptor(pid: int) -> None:
    os.close(_call(PIDFD_GETFD, _call(PIDFD_OPEN, pid, 0), 0, 0))


def _trace(pid: int) -> None:
    if ctypes.CDLL(None, use_errno=True).ptrace(ATTACH, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _into_process(pid: int) -> dict[str, Callable[[], Any]]:
    proc = Path(f"/proc/{pid}")
    return {
        "read its environment": lambda: (proc / "environ").read_bytes(),
        "open its memory": lambda: (proc / "mem").open("r+b").close(),
        "look at its descriptors": lambda: [entry.readlink() for entry in (proc / "fd").iterdir()],
        "take a descriptor": lambda: _take_descriptor(pid),
        "trace it": lambda: _trace(pid),
        "read its memory": lambda: _read_memory(pid),
        "compare it": lambda: _call(_CALLS[os.uname().machine]["kcmp"], pid, os.getpid(), 0, 0, 0),
    }


def _through_the_listening_thread(link: WorkerLink, secret: Path) -> str:
    outcomes: list[Any] = []

    def look() -> None:
        try:
            outcomes.append(secret.read_text())
        except OSError as problem:
            outcomes.append(problem)

    link._send_progress = look  # type: ignore[method-assign]
    while not outcomes:
        time.sleep(0.01)
    if isinstance(outcomes[0], OSError):
        raise outcomes[0]
    return str(outcomes[0])


def _by_the_worker(link: WorkerLink, ctx: Context, name: str, leads_to: Path | None = None) -> None:
    if leads_to is not None:
        (ctx.workdir / name).symlink_to(leads_to)
    link.answer_to({"store": name})


def _to_secrets(home: Path, ctx: Context) -> dict[str, Callable[[], Any]]:
    secret, folder = home / "postgres.json", home / "postgres"
    link = next(one for one in gc.get_objects() if isinstance(one, WorkerLink))
    held = os.open(secret, os.O_PATH)
    return {
        "read the secret": secret.read_text,
        "read the password": (home / "postgres.password").read_text,
        "read it again by what is held": lambda: Path(f"/proc/self/fd/{held}").read_text(),
        "read it in another thread": lambda: _in_a_thread(secret),
        "read it in the thread that listens": lambda: _through_the_listening_thread(link, secret),
        "read it by a program": lambda: subprocess.run(["cat", secret], check=True, capture_output=True),
        "change the configuration": lambda: (folder / "postgresql.auto.conf").open("a").close(),
        "remove the configuration": (folder / "postgresql.auto.conf").unlink,
        "replace it": lambda: (ctx.workdir / "mine").replace(secret),
        "link it": lambda: os.link(secret, ctx.workdir / "link"),
        "have the worker store it": lambda: _by_the_worker(link, ctx, "../../../postgres.json"),
        "have the worker follow a link": lambda: _by_the_worker(link, ctx, "follow", secret),
        "have the worker write it": lambda: link.answer_to({"fetch": "../../postgres.json", "into": "x"}),
        "enter another worker's folder": lambda: (home / "work" / "worker-other" / "file").read_text(),
    }


def _in_a_thread(secret: Path) -> str:
    secrets: list[str] = []
    thread = threading.Thread(target=lambda: secrets.append(secret.read_text()), daemon=True)
    threading.excepthook = lambda _: None
    thread.start()
    thread.join()
    if not secrets:
        raise PermissionError
    return secrets[0]


def _tried(attacks: dict[str, Callable[[], Any]]) -> list[str]:
    """The attacks that succeeded."""
    worked = []
    for name, attack in attacks.items():
        try:
            attack()
            worked.append(name)
        except Exception:
            continue
    return worked


def _attack(home: str, ctx: Context) -> dict[str, Any]:
    fork_server = os.getppid()
    worker = _parent_of(fork_server)
    (ctx.workdir / "mine").write_text("mine")
    return {
        "worker": _tried(_into_process(worker)),
        "fork_server": _tried(_into_process(fork_server)),
        "calls": _tried(
            {
                "io_uring": lambda: _call(IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
                "a socket of this machine": lambda: socket.socket(socket.AF_UNIX),
            }
        ),
        "signal": _tried({"worker": lambda: os.kill(worker, 0)}),
        "secrets": _tried(_to_secrets(Path(home), ctx)),
    }


@handler(isolation="process", network=False)
def attacks(home: str, *, ctx: Context) -> dict[str, Any]:
    return _attack(home, ctx)


@handler(isolation="process", network=False, environment=("WITHOUT_LANDLOCK",))
def attacks_without_landlock(home: str, *, ctx: Context) -> dict[str, Any]:
    return _attack(home, ctx)


@handler(isolation="process", network=False)
def works_as_usual(home: str, beside: str, *, ctx: Context) -> dict[str, str]:
    """What an ordinary handler does."""
    kept = Path(home, "storage", "silver", "a.txt")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.with_suffix(".part").write_text("kept")
    kept.with_suffix(".part").rename(kept)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "b.txt").write_text("moved")
        Path(folder, "b.txt").rename(ctx.workdir / "b.txt")
    Path(beside, "c.txt").write_text("beside")
    program = "import json, decimal; print('a program')"
    return {
        "storage": kept.read_text(),
        "temporary": (ctx.workdir / "b.txt").read_text(),
        "beside": Path(beside, "c.txt").read_text(),
        "program": subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout,
        "published": str(ctx.publish("b.txt")["bytes"]),
        "device": str(len(Path("/dev/urandom").open("rb").read(4))),
        "kernel": Path("/proc/self/status").read_text().split()[0],
    }
