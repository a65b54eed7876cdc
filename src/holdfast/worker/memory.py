"""How much memory processes hold, with their descendants. A page that several of them share counts for each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

_PROC = Path("/proc")
_PAGES = 1
"""The position of the resident pages in /proc/PID/statm."""


def resident_mb(leaders: Collection[int]) -> dict[int, int]:
    """Resident memory in MB by the process that leads a group. Where the kernel lists children, descendants that have
    left the group count too."""
    held = _by_family(leaders) if _knows_families() else _by_group(leaders)
    return {leader: size // (1024 * 1024) for leader, size in held.items()}


def _knows_families() -> bool:
    return (_PROC / "self" / "task" / str(os.getpid()) / "children").exists()


def _by_family(leaders: Collection[int]) -> dict[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return {leader: page * sum(_pages(pid) for pid in _family(leader)) for leader in leaders}


def _family(leader: int) -> Iterator[int]:
    """A process and its descendants; some may end meanwhile."""
    pids = [leader]
    while pids:
        pid = pids.pop()
        yield pid
        try:
            for thread in (_PROC / str(pid) / "task").iterdir():
                pids += [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
        except OSError:
            continue


def _pages(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_bytes().split()[_PAGES])
    except OSError:
        return 0


def _by_group(leaders: Collection[int]) -> dict[int, int]:
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=True).stdout
    held = dict.fromkeys(leaders, 0)
    for line in listed.splitlines():
        group, kilobytes = map(int, line.split())
        if group in held:
            held[group] += kilobytes * 1024
    return held
