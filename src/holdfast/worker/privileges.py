"""Gives up for good the capabilities by which root looks into other processes and ignores the rights of files.

On Linux; users other than root have none of them. It holds for the calling thread and everything that it starts.
"""

from __future__ import annotations

import ctypes
import struct
import sys

# DAC_READ_SEARCH, NET_ADMIN, NET_RAW, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, MKNOD, MAC_OVERRIDE,
# MAC_ADMIN, SYSLOG, PERFMON, BPF, CHECKPOINT_RESTORE: by their numbers.
_GIVEN_UP = (2, 12, 13, 16, 17, 19, 21, 22, 27, 32, 33, 34, 38, 39, 40)
_VERSION = 0x20080522
_DROP_FROM_BOUNDS = 24


def give_up() -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for number in _GIVEN_UP:
        # The kernel refuses this to a process without privileges, which can gain none either.
        libc.prctl(_DROP_FROM_BOUNDS, number, 0, 0, 0)
    header = struct.pack("=Ii", _VERSION, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    kept = ~sum(1 << number for number in _GIVEN_UP)
    # Effective, permitted and inheritable: the low halves of all three, then the high ones.
    halves = struct.unpack("=6I", held.raw)
    low, high = (kept & 0xFFFFFFFF, (kept >> 32) & 0xFFFFFFFF)
    libc.capset(header, struct.pack("=6I", *(half & low for half in halves[:3]), *(half & high for half in halves[3:])))
