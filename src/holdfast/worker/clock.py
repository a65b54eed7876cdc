"""The clock by which a worker ends its own lease."""

from __future__ import annotations

import sys
import time

# Where a machine sleeps, `time.monotonic` of Linux sleeps too, and a lease does not. On other systems this one goes on.
_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def lease_clock() -> float:
    """Seconds that only grow, also while the machine is suspended; the same in every process of the machine."""
    return time.clock_gettime(_CLOCK)
