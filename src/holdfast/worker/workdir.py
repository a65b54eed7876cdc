"""Working directories: one per attempt, below a directory of the worker that stays locked while the worker lives."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock

from holdfast.store.records import Lease

LOCK = "lock"


class Workplace:
    """The working directories of one worker's attempts. Each is made when it is first needed."""

    def __init__(self, root: Path, own: Path | None = None) -> None:
        """Pass `own` in a handler's process: it works in the directory of its worker."""
        self._root = root.absolute()
        self._own = own
        self._lock: int | None = None
        self._making = Lock()

    def of(self, lease: Lease) -> Path:
        """The path of the attempt's directory, which may not exist yet."""
        return self.own / f"{lease.job_id}.{lease.node}.{lease.item}.{lease.epoch}"

    @property
    def home(self) -> Path:
        """The folder above the working directories. It also holds files that handlers must not read."""
        return self._root.parent

    @property
    def own(self) -> Path:
        with self._making:
            if self._own is None:
                self._root.mkdir(parents=True, exist_ok=True)
                own = Path(tempfile.mkdtemp(prefix="worker-", dir=self._root))
                # The kernel releases the lock when the process ends, in whatever way.
                self._lock = os.open(own / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                self._own = own
            return self._own

    def own_or_none(self) -> str | None:
        """The worker's directory for a process that may never use it; None if it cannot be made."""
        try:
            return str(self.own)
        except OSError:
            return None

    def remove(self, lease: Lease) -> None:
        """Remove the directory of an attempt that has ended."""
        if self._own is not None:
            shutil.rmtree(self.of(lease), ignore_errors=True)

    def sweep(self) -> None:
        """Remove the directories of workers that have ended without doing so."""
        for left in self._root.glob("worker-*"):
            if left != self._own and _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Remove everything, also the directories of handlers that ignore their cancellation."""
        if self._own is not None and self._lock is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = self._lock = None


def _is_abandoned(place: Path) -> bool:
    """Whether no process holds its lock. A directory without a lock file may be brand new: it is kept."""
    try:
        lock = os.open(place / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
