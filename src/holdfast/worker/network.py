"""Gives up the network for good, and the system calls that reach into other processes. On Linux, with seccomp.

The process can make no socket any more, to another machine or to a program on this one, except pairs within itself.
Open sockets stay open: the channel to the worker is one. It needs no privilege. Programs that the process starts are
bound too.
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
"""These calls have the same number on every machine."""
# By machine: its id in the kernel, the number of the call `seccomp`, and the numbers of the calls that are refused:
# socket, ptrace, process_vm_readv, process_vm_writev, kcmp, open_by_handle_at.
_MACHINES = {
    "x86_64": (0xC000003E, 317, (41, 101, 310, 311, 312, 304)),
    "aarch64": (0xC00000B7, 277, (198, 117, 270, 271, 272, 265)),
}


def is_enforced() -> bool:
    """Whether `give_up` has an effect on this machine."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def give_up() -> None:
    """Refuse the calls in all threads from now on. Raises OSError if the kernel does not allow that."""
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
