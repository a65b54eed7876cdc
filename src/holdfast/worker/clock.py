"""The clock by which a worker ends its own lease."""

from __future__ import annotations

import sys
import time

# On Linux, `time.monotonic` stops while the machine is suspended, but leases go on. Elsewhere it goes on too.
_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def lease_clock() -> float:
    """Seconds that go on while the machine is suspended; the same in every process of the machine."""
    return time.clock_gettime(_CLOCK)
