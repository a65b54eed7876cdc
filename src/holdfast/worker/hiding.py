"""Keeps other programs of the same user out of this process: out of its memory, its variables and what it has open.

It holds on Linux, not against root, and leaves no core dump. What is started from here is seen again.
"""

from __future__ import annotations

import ctypes
import sys

_SET_DUMPABLE = 4


def hide() -> None:
    _be_dumpable(0)


def show() -> None:
    """For a process that was forked from a hidden one and has nothing to hide."""
    _be_dumpable(1)


def _be_dumpable(value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, value, 0, 0, 0)
