"""Working directories: a fresh one per attempt below the worker's own, which is locked for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock

from holdfast.store.interface import Lease

LOCK = "lock"


class Workplace:
    """Where the attempts of one worker work. Nothing is made before somebody asks for it."""

    def __init__(self, root: Path, own: Path | None = None) -> None:
        """`own` is the directory of a worker that lives: its handlers' processes work there too."""
        self._root = root.absolute()
        self._own = own
        self._lock: int | None = None
        self._making = Lock()

    def of(self, lease: Lease) -> Path:
        """The attempt's directory; it need not be there yet."""
        return self.own / f"{lease.job_id}.{lease.node}.{lease.item}.{lease.epoch}"

    @property
    def home(self) -> Path:
        """What holds the working directories, and beside them what is no handler's business."""
        return self._root.parent

    @property
    def own(self) -> Path:
        with self._making:
            if self._own is None:
                self._root.mkdir(parents=True, exist_ok=True)
                own = Path(tempfile.mkdtemp(prefix="worker-", dir=self._root))
                # The kernel lets go of the lock when the process ends, however it does.
                self._lock = os.open(own / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                self._own = own
            return self._own

    def own_or_none(self) -> str | None:
        """For a process that may never need it: where nothing can be written, only who asks shall fail."""
        try:
            return str(self.own)
        except OSError:
            return None

    def remove(self, lease: Lease) -> None:
        """The attempt has ended; what it left in its directory goes."""
        if self._own is not None:
            shutil.rmtree(self.of(lease), ignore_errors=True)

    def sweep(self) -> None:
        """Remove what workers left behind that are gone."""
        for left in self._root.glob("worker-*"):
            if left != self._own and _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Everything goes, also what belongs to handlers that ignore their end."""
        if self._own is not None and self._lock is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = self._lock = None


def _is_abandoned(place: Path) -> bool:
    """Whether no process holds its lock. One that was made a moment ago may have none yet: it is spared."""
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
