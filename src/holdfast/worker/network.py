"""Takes the network away from this process, for good, and the calls that reach into other processes: on Linux.

No socket can be made any more, to another machine or to a program on this one; pairs of sockets within the process can.
What is open stays open, so that the channel to the worker does. It needs no privilege, and programs that are started
from here have none either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NO_NEW_PRIVILEGES = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_FOREIGN_CALLS = 0x40000000
_IO_URING_SETUP, _PIDFD_GETFD = 425, 438
"""These have one number on every machine."""
# By machine: how the kernel calls it, the number of its call `seccomp`, and those of the calls that are refused:
# socket, ptrace, process_vm_readv, process_vm_writev, kcmp, open_by_handle_at.
_MACHINES = {
    "x86_64": (0xC000003E, 317, (41, 101, 310, 311, 312, 304)),
    "aarch64": (0xC00000B7, 277, (198, 117, 270, 271, 272, 265)),
}


def is_enforced() -> bool:
    """Elsewhere nothing takes the network away, and a handler must not rely on it."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def give_up() -> None:
    """From here on, in all threads, no socket and no part of another process can be had."""
    if not is_enforced():
        return
    architecture, seccomp_call, calls = _MACHINES[platform.machine()]
    refused = (*calls, _IO_URING_SETUP, _PIDFD_GETFD)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 0, len(refused) + 3, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(refused) + 1, 0, _FOREIGN_CALLS),
        *((_EQUALS, len(refused) - number, 0, call) for number, call in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(seccomp_call, _SET_MODE_FILTER, _ALL_THREADS, program) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the network cannot be taken away: {os.strerror(number)}")
