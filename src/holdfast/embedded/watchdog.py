"""The locks that say who uses the embedded Postgres and whether it lives; and the process that ends it.

Runs as a script with the standard library alone, so that it starts fast, stays small and outlives
every user; it must not import anything of ours.
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
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 1.0
STOP_PATIENCE_SECONDS = 5.0
LOG_LIMIT_BYTES = 4_000_000

# Locks of a process belong to it alone: a forked child closes its copies at once, or it would keep
# a server alive, or block everyone, for as long as it lives. The guard keeps forks out of the moment
# in which a lock is open but not yet noted.
_guard = threading.RLock()
_held: set[int] = set()


def _close_in_child() -> None:
    for lock in _held:
        os.close(lock)
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_in_child)


def try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Take the lock and return its descriptor; None if someone else has it."""
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
    """Take the lock and return its descriptor; `TimeoutError` if it cannot be had in time."""
    deadline = time.monotonic() + timeout_seconds
    while (lock := try_lock(path, kind)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return lock


@contextlib.contextmanager
def locked(path: Path, timeout_seconds: float) -> Iterator[None]:
    """Hold the lock alone; `TimeoutError` if it cannot be had in time."""
    lock = wait_for_lock(path, fcntl.LOCK_EX, timeout_seconds)
    try:
        yield
    finally:
        release(lock)


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What Postgres wrote about itself into `postmaster.pid`."""

    pid: int
    port: int
    status: str


def read_postmaster(data: Path) -> Postmaster | None:
    """The server that `postmaster.pid` names; None while there is none or it is half written."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return Postmaster(int(lines[0]), int(lines[3]), lines[7].strip())
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, ValueError, IndexError):
        return None


def may_serve(pid: int, data: Path) -> bool:
    """Whether this process can be the Postgres on `data`: False for the dead, zombies and reused pids."""
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
    """End every process of a server whose postmaster is dead.

    They end by themselves, but for one that waits for a lock that a killed process had: it waits forever.
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
    """End the server, first gently, in the end by force; False if some process of it still lives.

    Call it under `home/lock`. Nothing committed is lost whichever signal it takes.
    """
    for number, seconds in ((signal.SIGINT, patience_seconds), (signal.SIGQUIT, 2), (signal.SIGKILL, 2)):
        deadline = time.monotonic() + seconds
        signalled = None
        while time.monotonic() < deadline:
            if is_free(home / "server.lock"):
                (home / "postgres.json").unlink(missing_ok=True)
                return True
            # A server that has just been started has no postmaster.pid yet: look again each time.
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
    """Have a log, and an empty one if it has become long."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(file).st_size > LOG_LIMIT_BYTES:
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def watch(home: Path, data: Path, own_lock: int) -> None:
    """Return when the server has ended; end it when its last user is gone without having done so."""
    os.pwrite(own_lock, f"{os.getpid():<10}\n".encode(), 0)
    while True:
        time.sleep(POLL_SECONDS)
        shorten(home / "postgres.log")
        with contextlib.suppress(TimeoutError), locked(home / "lock", timeout_seconds=3600):
            if is_free(home / "users.lock"):
                stop(home, data, STOP_PATIENCE_SECONDS)
            if is_free(home / "server.lock"):
                # Given up before `lock` is, so that the next to start a server starts a watchdog too.
                os.close(own_lock)
                return


if __name__ == "__main__":
    # Without its directory there is nothing to watch: Postgres ends by itself when its files are gone.
    with contextlib.suppress(FileNotFoundError):
        watch(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
