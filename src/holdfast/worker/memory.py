"""How much memory process groups hold. Pages that processes of a group share count for each of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

_PROC = Path("/proc")
_GROUP, _PAGES = 2, 21
"""Where these stand in /proc/PID/stat, counted from behind the process's name."""


def resident_mb(groups: Collection[int]) -> dict[int, int]:
    """Resident memory by process group, in MB."""
    held = dict.fromkeys(groups, 0)
    for group, size in _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps():
        if group in held:
            held[group] += size
    return {group: size // (1024 * 1024) for group, size in held.items()}


def _from_proc() -> Iterator[tuple[int, int]]:
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            # Processes end while we look.
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                yield int(fields[_GROUP]), int(fields[_PAGES]) * page


def _from_ps() -> Iterator[tuple[int, int]]:
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        group, kilobytes = line.split()
        yield int(group), int(kilobytes) * 1024
