"""Hides the memory, the variables and the open files of this process from other programs of the same user.

Works on Linux, not against root, and prevents core dumps. Programs that this process starts are not hidden.
"""

from __future__ import annotations

import ctypes
import sys

_SET_DUMPABLE = 4


def hide() -> None:
    _be_dumpable(0)


def show() -> None:
    """Undo `hide`, in a process that was forked from a hidden one and has no secrets."""
    _be_dumpable(1)


def _be_dumpable(value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, value, 0, 0, 0)
