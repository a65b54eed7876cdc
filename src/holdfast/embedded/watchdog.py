"""The file locks of the embedded Postgres, and the watchdog process that stops the server after its last user.

The watchdog runs this file as a script and outlives every user. It uses the standard library alone, so that it starts
fast and stays small: this module must not import anything else of Holdfast.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 1.0
STOP_PATIENCE_SECONDS = 5.0
LOG_LIMIT_BYTES = 4_000_000

# A forked child must close its copies of the locks at once. Otherwise it would keep a server alive, or block all
# others, for as long as it lives. The guard prevents a fork between the opening of a lock and its entry in `_held`.
_guard = threading.RLock()
_held: set[int] = set()


def _close_in_child() -> None:
    for lock in _held:
        os.close(lock)
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_in_child)


def try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Take the lock and return its descriptor; None if another process has it."""
    with _guard:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        _held.add(lock)
        return lock


def release(lock: int) -> None:
    """Close our copy; a process that inherited the descriptor on purpose keeps the lock."""
    with _guard:
        _held.discard(lock)
        os.close(lock)


def is_free(path: Path) -> bool:
    lock = try_lock(path)
    if lock is not None:
        release(lock)
    return lock is not None


def wait_for_lock(path: Path, kind: int, timeout_seconds: float) -> int:
    """Take the lock and return its descriptor; `TimeoutError` if it is not free in time."""
    deadline = time.monotonic() + timeout_seconds
    while (lock := try_lock(path, kind)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return lock


@contextlib.contextmanager
def locked(path: Path, timeout_seconds: float) -> Iterator[None]:
    """Hold the lock exclusively; `TimeoutError` if it is not free in time."""
    lock = wait_for_lock(path, fcntl.LOCK_EX, timeout_seconds)
    try:
        yield
    finally:
        release(lock)


class Postmaster(NamedTuple):
    """The content of `postmaster.pid`, which Postgres writes."""

    pid: int
    port: int
    status: str


def read_postmaster(data: Path) -> Postmaster | None:
    """The server in `postmaster.pid`; None if the file does not exist or is incomplete."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return Postmaster(int(lines[0]), int(lines[3]), lines[7].strip())
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, ValueError, IndexError):
        return None


def may_serve(pid: int, data: Path) -> bool:
    """Whether this process can be the Postgres on `data`: False for dead processes, zombies and reused pids."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cwd").samefile(data)
        except PermissionError:
            return True
        except OSError:
            return False
    import subprocess  # only where there is no /proc: it doubles the size of this process

    answer = subprocess.run(["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, check=False)
    return b"postgres" in answer.stdout


def kill_orphans(home: Path, data: Path) -> None:
    """Kill every process of a server whose postmaster is dead.

    Most end by themselves. But a process that waits for a lock of a killed process waits forever.
    """
    if Path("/proc/self").exists():
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        orphans = [pid for pid in pids if _works_in(pid, data)]
    else:
        import subprocess  # as above

        answer = subprocess.run(["lsof", "-t", home / "server.lock"], capture_output=True, check=False)
        orphans = [int(pid) for pid in answer.stdout.split()]
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _works_in(pid: int, data: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        return False


def stop(home: Path, data: Path, patience_seconds: float) -> bool:
    """Stop the server, first gently, at last by force; False if one of its processes is still alive.

    The caller must hold `home/lock`. No signal loses committed data.
    """
    for number, seconds in ((signal.SIGINT, patience_seconds), (signal.SIGQUIT, 2), (signal.SIGKILL, 2)):
        deadline = time.monotonic() + seconds
        signalled = None
        while time.monotonic() < deadline:
            if is_free(home / "server.lock"):
                (home / "postgres.json").unlink(missing_ok=True)
                return True
            # A server that has just been started has no postmaster.pid yet, so it is read again each time.
            server = read_postmaster(data)
            if server is not None and server.pid != signalled and may_serve(server.pid, data):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server.pid, number)
                signalled = server.pid
            if number == signal.SIGKILL:
                kill_orphans(home, data)
            time.sleep(0.01)
    return False


def shorten(log: Path) -> None:
    """Create the log if it does not exist; empty it if it has become too long."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(file).st_size > LOG_LIMIT_BYTES:
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def watch(home: Path, data: Path, own_lock: int) -> None:
    """Stop the server when its last user has died without stopping it; return when the server has ended."""
    os.pwrite(own_lock, f"{os.getpid():<10}\n".encode(), 0)
    while True:
        time.sleep(POLL_SECONDS)
        shorten(home / "postgres.log")
        with contextlib.suppress(TimeoutError), locked(home / "lock", timeout_seconds=3600):
            if is_free(home / "users.lock"):
                stop(home, data, STOP_PATIENCE_SECONDS)
            if is_free(home / "server.lock"):
                # Released before `lock` is, so that the next process that starts a server starts a watchdog too.
                os.close(own_lock)
                return


if __name__ == "__main__":
    # Without the directory there is nothing to watch: Postgres ends by itself when its files are deleted.
    with contextlib.suppress(FileNotFoundError):
        watch(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
